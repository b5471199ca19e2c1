"""A PostgreSQL primary with a standby that follows it synchronously."""

import asyncio
import contextlib
import os
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg

from tests import servers
from tests.integration.fleets import until

FOLLOWED = ("wal_level=replica", "max_wal_senders=4", "hot_standby=on", "fsync=off", "synchronous_commit=on")


async def ask(url: str, sql: str) -> Any:
    """One value from one server."""
    connection = await asyncpg.connect(url, timeout=5)
    try:
        return await connection.fetchval(sql)
    finally:
        await connection.close()


@dataclass
class Pair:
    """Two servers, of which one follows the other."""

    primary: servers.Server
    standby: servers.Server

    @property
    def url(self) -> str:
        """An address of both, the primary last."""
        hosts = ",".join(f"127.0.0.1:{urlsplit(each.url).port}" for each in (self.standby, self.primary))
        return f"postgresql://postgres@{hosts}/postgres"

    async def fail_over(self) -> None:
        """Kill the primary, then let the standby take over without waiting for one of its own."""
        self.primary.kill()
        await ask(self.standby.url, "SELECT pg_promote()")
        await until(self._takes_writes, "the standby to be promoted")

    async def caught_up(self) -> None:
        """Wait until the standby shows all that the primary has."""
        written = await ask(self.primary.url, "SELECT pg_current_wal_lsn()::text")
        replayed = f"SELECT pg_last_wal_replay_lsn() >= '{written}'::pg_lsn"

        async def shown() -> bool:
            return bool(await ask(self.standby.url, replayed))

        await until(shown, "the standby to catch up")

    async def _takes_writes(self) -> bool:
        return not await ask(self.standby.url, "SELECT pg_is_in_recovery()")


@contextlib.asynccontextmanager
async def followed() -> AsyncIterator[Pair]:
    """A primary that answers no commit before its standby has it."""
    primary = await asyncio.to_thread(servers.start, "postgres", settings=FOLLOWED)
    standby = None
    try:
        standby = await asyncio.to_thread(_follow, primary)
        await ask(primary.url, "ALTER SYSTEM SET synchronous_standby_names = '*'")
        await ask(primary.url, "SELECT pg_reload_conf()")

        async def synchronous() -> bool:
            found = await ask(primary.url, "SELECT sync_state FROM pg_stat_replication")
            return bool(found == "sync")

        await until(synchronous, "the standby to follow")
        yield Pair(primary, standby)
    finally:
        for each in (standby, primary):
            if each is not None:
                each.stop()


def _follow(primary: servers.Server) -> servers.Server:
    """A copy of the primary on a port of its own; its settings on the command line are the primary's."""
    assert primary.folder is not None
    assert primary.process is not None
    command = Path(f"/proc/{primary.process.pid}/cmdline").read_text().split("\0")[:-1]
    copy, port = primary.folder / "standby", servers.free_port()
    copy.mkdir(mode=0o700)
    run: dict[str, Any] = {}
    if os.geteuid() == 0:
        user = servers._unprivileged()
        os.chown(copy, user.pw_uid, user.pw_gid)
        run = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    backup = [str(Path(command[0]).parent / "pg_basebackup"), "-d", primary.url, "-D", str(copy), "-R", "-X", "stream"]
    subprocess.run([*backup, "-c", "fast"], cwd="/", check=True, capture_output=True, **run)
    command[command.index("-D") + 1], command[command.index("-p") + 1] = str(copy), str(port)
    url = urlsplit(primary.url)._replace(netloc=f"postgres@127.0.0.1:{port}").geturl()
    standby = servers._spawned(servers.Server("postgres", url, primary.source), command, run)
    servers._await(standby)
    return standby
