"""A real PgBouncer for tests: from the PATH, else from Debian's packages, unpacked into a folder of its own."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tests import debian, servers

INSTALL = "apt-get install pgbouncer"


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
    try:
        root = debian.unpacked("pgbouncer", "libc-ares", "libcares", "libevent")
    except debian.NoPackage as error:
        raise AssertionError(f"No PgBouncer to test with: {INSTALL} ({error})") from error
    return root / "usr/sbin/pgbouncer", debian.libraries(root)


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
    with log.open("wb") as log_file:
        process = subprocess.Popen(
            [binary, folder / "pgbouncer.ini"], cwd="/", env={**os.environ, **more}, stdin=subprocess.DEVNULL,
            stdout=log_file, stderr=log_file, preexec_fn=servers._die_with_parent, **user,  # noqa: PLW1509
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
