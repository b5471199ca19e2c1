"""Damages what a store holds, as another program, a newer release or a bad disk would."""

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from typing import Any

import redis.asyncio

from packhorse.model.event import LIFECYCLE
from packhorse.stores.contract import Store
from tests.conftest import namespace

TAG = "{packhorse:packhorse}"
NEWER = "of a newer release"  # a reason that this release does not know


class Damage:
    """What can go wrong with the record of a job, its end, its failures, an event and a beat, at one place."""

    async def record(self, job: bytes) -> None:
        """Make the record of a job unreadable, as far as the store lets anybody."""
        raise NotImplementedError

    async def queue(self, job: bytes) -> str:
        """Make the name of a job's queue (``broken``) unreadable, as far as the store lets anybody; answers what is shown."""
        raise NotImplementedError

    async def waiting_reason(self, job: bytes) -> None:
        """Give a job that waits a reason nobody knows."""
        raise NotImplementedError

    async def dead_reason(self, job: bytes) -> None:
        """Give a dead job a reason nobody knows."""
        raise NotImplementedError

    async def failure(self, job: bytes) -> None:
        """Make the failures of a job unreadable."""
        raise NotImplementedError

    async def event(self, stream: str, offset: int) -> None:
        """Make an event of a stream unreadable."""
        raise NotImplementedError

    async def beats(self) -> None:
        """Make the last beats of workers unreadable."""
        raise NotImplementedError


class SQLiteDamage(Damage):
    """In a file by another connection, in memory by the store's own."""

    def __init__(self, run: Callable[..., Any]) -> None:
        self._run = run

    async def record(self, job: bytes) -> None:
        self._run("UPDATE packhorse_jobs SET task = CAST(x'77e9' AS TEXT) WHERE id = ?", job)

    async def queue(self, job: bytes) -> str:
        for table in ("jobs", "ready", "counts"):
            self._run(f"UPDATE packhorse_{table} SET queue = CAST(x'62e96e' AS TEXT) WHERE queue = 'broken'")
        return "b\ufffdn"

    async def waiting_reason(self, job: bytes) -> None:
        self._run(
            "UPDATE packhorse_waiting SET reason = ? WHERE seq = (SELECT seq FROM packhorse_jobs WHERE id = ?)",
            NEWER,
            job,
        )

    async def dead_reason(self, job: bytes) -> None:
        self._run(
            "UPDATE packhorse_ended SET reason = ? WHERE seq = (SELECT seq FROM packhorse_jobs WHERE id = ?)",
            NEWER,
            job,
        )

    async def failure(self, job: bytes) -> None:
        self._run(
            "UPDATE packhorse_tries SET error = x'7bff' WHERE seq = (SELECT seq FROM packhorse_jobs WHERE id = ?)", job
        )

    async def event(self, stream: str, offset: int) -> None:
        if stream == LIFECYCLE:
            self._run("UPDATE packhorse_lifecycle SET data = x'71' WHERE number = ?", offset)
            return
        self._run(
            "UPDATE packhorse_events SET key = CAST(x'ff' AS TEXT), data = 'text' WHERE stream = ? AND number = ?",
            stream,
            offset,
        )

    async def beats(self) -> None:
        self._run("UPDATE packhorse_workers SET facts = x'7bff'")


class RedisDamage(Damage):
    """By commands to the server."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def _change(self, key: str, field: bytes, change: Callable[[bytes], bytes]) -> None:
        found = await self._client.hget(f"{TAG}:{key}", field)
        assert change(found) != found
        await self._client.hset(f"{TAG}:{key}", field, change(found))

    async def record(self, job: bytes) -> None:
        await self._change("jobs", job, lambda record: record.replace(b"work", b"w\xe9rk"))

    async def queue(self, job: bytes) -> str:
        await self._change("jobs", job, lambda record: record.replace(b"broken", b"brok\xe9n"))
        async for key in self._client.scan_iter(f"{TAG}:*:broken*"):
            await self._client.rename(key, key.replace(b"broken", b"brok\xe9n"))
        for field, count in (await self._client.hgetall(f"{TAG}:counts")).items():
            if field.startswith(b"broken"):
                await self._client.hdel(f"{TAG}:counts", field)
                await self._client.hset(f"{TAG}:counts", field.replace(b"broken", b"brok\xe9n"), count)
        return "brok\ufffdn"

    async def waiting_reason(self, job: bytes) -> None:
        await self._change("live", job, lambda row: row.replace(b"unroutable", NEWER.encode()))

    async def dead_reason(self, job: bytes) -> None:
        await self._change("ended", job, lambda row: row.replace(b"final", NEWER.encode()))

    async def failure(self, job: bytes) -> None:
        await self._change("tries", job, lambda row: row.replace(b'"type"', b'\xfftype"'))

    async def event(self, stream: str, offset: int) -> None:
        key = f"{TAG}:stream:{stream}"
        entries = await self._client.xrange(key)
        await self._client.delete(key)
        for entry, fields in entries:
            await self._client.xadd(key, {b"?": b"?"} if entry == b"%d-0" % offset else fields, entry)

    async def beats(self) -> None:
        for worker, row in (await self._client.hgetall(f"{TAG}:workers")).items():
            await self._client.hset(f"{TAG}:workers", worker, row[:-5])


class PostgresDamage(Damage):
    """By statements; the server keeps names readable."""

    def __init__(self, connection: Any, schema: str) -> None:
        self._connection, self._schema = connection, schema

    async def _run(self, text: str, *values: object) -> None:
        assert await self._connection.execute(text.replace("packhorse.", f"{self._schema}."), *values) != "UPDATE 0"

    async def record(self, job: bytes) -> None:
        await self._run("UPDATE packhorse.jobs SET headers = '\\xff', payload = '\\xff' WHERE id = $1", job)

    async def queue(self, job: bytes) -> str:
        return "broken"

    async def waiting_reason(self, job: bytes) -> None:
        await self._run("UPDATE packhorse.waiting SET reason = $2 WHERE id = $1", job, NEWER)

    async def dead_reason(self, job: bytes) -> None:
        await self._run("UPDATE packhorse.ended SET reason = $2 WHERE id = $1", job, NEWER)

    async def failure(self, job: bytes) -> None:
        await self._run("UPDATE packhorse.tries SET error = '\\x7bff' WHERE id = $1", job)

    async def event(self, stream: str, offset: int) -> None:
        if stream == LIFECYCLE:
            await self._run(f"UPDATE {self._schema}.lifecycle SET data = '\\x71' WHERE \"offset\" = $1", offset)
            return
        await self._run("UPDATE packhorse.events SET data = '' WHERE stream = $1 AND \"offset\" = $2", stream, offset)

    async def beats(self) -> None:
        await self._run("UPDATE packhorse.workers SET body = '\\x7bff'")


@asynccontextmanager
async def damage_of(kind: str, url: str, store: Store) -> AsyncIterator[Damage]:
    """What damages the place of a store of this kind."""
    if kind == "memory":
        yield SQLiteDamage(lambda text, *values: store._handle.database._writing.execute(text, values))  # type: ignore[attr-defined]
    elif kind == "sqlite":
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as connection:
            yield SQLiteDamage(lambda text, *values: connection.execute(text, values))
    elif kind == "postgres":
        import asyncpg

        server = await asyncpg.connect(url)
        await server.set_type_codec(
            "uuid", schema="pg_catalog", encoder=lambda job: job, decoder=bytes, format="binary"
        )
        yield PostgresDamage(server, namespace(kind))
        await server.close()
    else:
        client = redis.asyncio.from_url(url.replace("valkey://", "redis://"))
        yield RedisDamage(client)
        await client.aclose()
