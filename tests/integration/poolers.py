"""A real PgBouncer for tests: from the PATH, else from Debian's packages, unpacked into a folder of its own."""

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tests import servers

INSTALL = "apt-get install pgbouncer"
KEPT = Path(tempfile.gettempdir()) / f"packhorse-pgbouncer-{os.getuid()}"


@dataclass
class Pooler:
    """A pooler before a server."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path


def program() -> tuple[Path, dict[str, str]]:
    """PgBouncer, and what its environment must have."""
    if found := shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin"):
        return Path(found), {}
    if not KEPT.exists():
        _unpack()
    [binary] = KEPT.glob("usr/sbin/pgbouncer")
    return binary, {"LD_LIBRARY_PATH": ":".join(str(folder) for folder in KEPT.glob("usr/lib/*-linux-*"))}


def _unpack() -> None:
    """Whoever is first makes the folder; it appears whole or not at all."""
    with tempfile.TemporaryDirectory(prefix="packhorse-deb-") as made:
        folder, root = Path(made), Path(made) / "root"
        root.mkdir(mode=0o755)
        try:
            [pooler] = _download(folder, "pgbouncer")
            needs = subprocess.run(["dpkg-deb", "-f", pooler, "Depends"], capture_output=True, check=True).stdout
            libraries = re.findall(r"\blib(?:c-?ares|event)[\w.-]*", needs.decode())
            for package in (pooler, *_download(folder, *libraries)):
                subprocess.run(["dpkg-deb", "-x", package, root], check=True)
        except (OSError, subprocess.CalledProcessError, ValueError) as error:
            raise AssertionError(f"No PgBouncer to test with: {INSTALL} ({error})") from error
        with contextlib.suppress(OSError):
            root.rename(KEPT)


def _download(folder: Path, *packages: str) -> list[Path]:
    own = [f"-oDir::{place}={folder / name}" for place, name in (("State::lists", "lists"), ("Cache", "cache"))]
    known = set(folder.glob("*.deb"))
    for options in ([], own):  # a machine may have no lists, or old ones
        if options:
            for name in ("lists/partial", "cache/archives/partial"):
                (folder / name).mkdir(parents=True, exist_ok=True)
            subprocess.run(["apt-get", *options, "update"], capture_output=True, check=True)
        done = subprocess.run(
            ["apt-get", *options, "download", *packages], cwd=folder, capture_output=True, check=False
        )
        if done.returncode == 0:
            return sorted(set(folder.glob("*.deb")) - known)
    raise OSError(done.stderr.decode())


@contextlib.contextmanager
def pooling(server: servers.Server, folder: Path, *settings: str) -> Iterator[Pooler]:
    """A pooler in transaction mode with few sessions, so that every call may meet another one."""
    binary, more = program()
    port, upstream = servers.free_port(), urlsplit(server.url)
    (folder / "users.txt").write_text('"postgres" ""\n')
    lines = (
        "[databases]", f"* = host={upstream.hostname} port={upstream.port}", "[pgbouncer]",
        "listen_addr = 127.0.0.1", f"listen_port = {port}", "unix_socket_dir =", "pool_mode = transaction",
        "default_pool_size = 3", "max_client_conn = 200", "auth_type = trust", f"auth_file = {folder / 'users.txt'}",
        "server_round_robin = 1", "ignore_startup_parameters = extra_float_digits", *settings,
    )  # fmt: skip
    (folder / "pgbouncer.ini").write_text("\n".join(lines) + "\n")
    user = {"user": servers._unprivileged().pw_uid} if os.geteuid() == 0 else {}
    if user:
        for each in (folder, *folder.parents):
            with contextlib.suppress(PermissionError):
                each.chmod(each.stat().st_mode | 0o055)
    log = folder / "pgbouncer.log"
    with log.open("wb") as said:
        process = subprocess.Popen(
            [binary, folder / "pgbouncer.ini"], cwd="/", env={**os.environ, **more}, stdin=subprocess.DEVNULL,
            stdout=said, stderr=said, preexec_fn=servers._die_with_parent, **user,  # noqa: PLW1509
        )  # type: ignore[call-overload, unused-ignore]  # fmt: skip
    pooled = servers.Server(
        "postgres", upstream._replace(netloc=f"postgres@127.0.0.1:{port}").geturl(), "", None, process
    )
    try:
        servers._await(pooled)
        yield Pooler(pooled.url, process, log)
    finally:
        process.kill()
        process.wait(20)
