"""Making connections to PostgreSQL: pools of them, and single ones; none is left open when a caller is cancelled."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import asyncpg

from packhorse.stores.postgres.address import Urls
from packhorse.stores.postgres.silence import WatchedConnection

Prepare = Callable[["asyncpg.Connection[asyncpg.Record]"], Awaitable[None]]

CONNECT_SECONDS = 3.0  # for the servers of an address together, and once more to prepare what was reached
MIN_CONNECT_SECONDS = 1.5  # for each of them, however many there are
CLOSE_SECONDS = 2.0
ASSIGNED_TYPES = 10_000  # types with lower numbers are the same on every server

_BUILT_IN: dict[frozenset[int], Any] = {}

DRIVER_ERRORS = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
)


class StoreConnection(WatchedConnection):
    """A connection that asks the server about built-in types once a process; the driver does it once a session.

    That takes three round trips and some ten milliseconds of the server, as long as the first call of the session itself.
    """

    async def _introspect_types(self, typeoids: Iterable[int], *options: Any) -> Any:
        wanted = frozenset(typeoids)
        if (known := _BUILT_IN.get(wanted)) is not None:
            return known, _Unprepared
        found = await super()._introspect_types(typeoids, *options)  # type: ignore[misc]
        if max(wanted) < ASSIGNED_TYPES:
            _BUILT_IN[wanted] = found[0]
        return found


class _Unprepared:
    """Stands for the statement that the driver would have prepared to ask about types, and did not."""

    name = "none"


async def keep(_connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    """Keep a session as it is, without a round trip: calls of the store leave nothing behind in it."""


def pool_of(
    urls: Urls, prepare: Prepare, *, pooled: bool, size: tuple[int, int], command: float | None, **options: Any
) -> "asyncpg.Pool[asyncpg.Record]":
    """A pool whose connections lead to the first server that takes writes, each prepared once."""

    async def connect(*_: object, **given: Any) -> "asyncpg.Connection[asyncpg.Record]":
        connection = await _reached(urls, **given)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await prepare(connection)
        except BaseException:
            connection.terminate()
            raise
        return connection

    return asyncpg.create_pool(
        connect=connect,
        min_size=size[0],
        max_size=size[1],
        command_timeout=command,
        statement_cache_size=0 if pooled else 100,
        connection_class=StoreConnection,
        **options,
    )


async def _reached(urls: Urls, **options: Any) -> "asyncpg.Connection[asyncpg.Record]":
    """Each server has its part of the time, so that one that does not answer leaves some for the others."""
    each = _each(urls)
    for url in urls[:-1]:
        with contextlib.suppress(*DRIVER_ERRORS):
            return await asyncpg.connect(url, timeout=each, **options)
    return await asyncpg.connect(urls[-1], timeout=each, **options)


def _each(urls: Urls) -> float:
    return max(CONNECT_SECONDS / len(urls), MIN_CONNECT_SECONDS)


def connect_seconds(urls: Urls) -> float:
    """How long it takes at most until a connection is there, or known not to be."""
    return _each(urls) * len(urls) + CONNECT_SECONDS


async def connected(urls: Urls, limit: float) -> "asyncpg.Connection[asyncpg.Record]":
    """Connect to the end even if the caller is cancelled: given up half way, the driver leaves an error behind."""
    connecting = asyncio.ensure_future(_reached(urls, statement_cache_size=0, command_timeout=limit))
    try:
        return await asyncio.shield(connecting)
    except asyncio.CancelledError:
        connecting.add_done_callback(_discard)  # not here: a caller that is cancelled again waits no longer
        await asyncio.wait([connecting])
        raise


def _discard(connecting: "asyncio.Future[asyncpg.Connection[asyncpg.Record]]") -> None:
    """Close a connection that has no caller any more; in step with the loop, which may be about to end."""
    if not connecting.cancelled() and connecting.exception() is None:
        connecting.result().terminate()


async def hang_up(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    """Close a connection; without a farewell if it does not answer."""
    try:
        await connection.close(timeout=CLOSE_SECONDS)
    except (TimeoutError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
        connection.terminate()
