"""Stores on Redis and Valkey, clients beside them, and all that a server holds."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import redis.asyncio

from packhorse.stores.redis.store import RedisStore
from tests.conftest import all_kinds, kinds

SERVERS = tuple(kind for kind in ("redis", "valkey") if kind in all_kinds())  # for what a server does by itself
KINDS = tuple(kind for kind in SERVERS if kind in kinds())  # for what only our scripts and our client do
NONE = "neither Redis nor Valkey is among the stores to test"


@contextlib.asynccontextmanager
async def client_of(url: str) -> AsyncIterator[Any]:
    client = redis.asyncio.from_url(url.replace("valkey://", "redis://"))
    try:
        yield client
    finally:
        await client.aclose()


async def waiting(client: Any, *commands: str) -> list[str]:
    """The ids of connections that wait in these commands; not those of other test processes, which have other databases."""
    database = str(client.connection_pool.connection_kwargs.get("db", 0))
    return [line["id"] for line in await client.client_list() if line["db"] == database and line["cmd"] in commands]


@contextlib.asynccontextmanager
async def opened(url: str, **options: Any) -> AsyncIterator[RedisStore]:
    store = RedisStore(url, **options)
    await store.migrate()
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def everything_stored(url: str) -> dict[bytes, Any]:
    """All keys with all they hold, in an order that does not depend on the server's."""
    found: dict[bytes, Any] = {}
    async with client_of(url) as client:
        async for key in client.scan_iter():
            match await client.type(key):
                case b"hash":
                    found[key] = await client.hgetall(key)
                case b"zset":
                    found[key] = await client.zrange(key, 0, -1, withscores=True)
                case b"list":
                    found[key] = await client.lrange(key, 0, -1)
                case b"set":
                    found[key] = await client.smembers(key)
                case b"stream":
                    found[key] = await client.xrange(key)
    return found
