"""Wake-ups: one connection for all listeners of a store, opened again whenever it breaks.

A worker that may park a claim has a connection of its own. The server runs the requests of a connection in order, and
waits for the marker first: a claim that is sent behind it runs as soon as there is work, and its reply is the hint.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from itertools import chain
from typing import Any

from hiredis import pack_command
from redis.exceptions import NoScriptError

from packhorse.errors import StoreClosed, StoreUnavailable
from packhorse.model import backoff
from packhorse.model.clock import SYSTEM
from packhorse.model.lease import ClaimRequest, Exchange
from packhorse.stores.contract import WorkHint
from packhorse.stores.redis.connection import Connection, value_of
from packhorse.stores.redis.keyspace import Keyspace
from packhorse.stores.redis.pool import randomness
from packhorse.stores.redis.settling import claim_arguments, exchange_of, settlement_arguments
from packhorse.stores.redis.topology import BROKEN
from packhorse.stores.stream_wakes import Heads

BLOCK_SECONDS = 5.0  # a connection waits this long on the server for a marker, then shows that it is alive
PARKED_BLOCK_SECONDS = 1.0  # the same if a claim may be parked: it runs then at the latest
STREAMS_BLOCK_MS = 200  # a stream that gets its first reader meanwhile is waited for after this
UNKNOWN_QUEUES_SECONDS = 0.25  # between two reads of the known queues while no worker has asked for any
_RECONNECT_BACKOFF = backoff.exponential(0.05, cap=5, jitter=0.5)
_BROKEN = (*BROKEN, StoreUnavailable)

Event = Exchange | WorkHint | None  # None: there may be something to find
Events = Sequence[Event]
Listen = Callable[[Connection], Awaitable[Events]]
HINT: Events = (None,)


class Broadcast:
    """Passes every hint on to all listeners; the connection is open while there are any."""

    def __init__(self, source: Callable[[], AsyncIterator[Event]]) -> None:
        self._source = source
        self._listeners: set[asyncio.Event] = set()
        self._task: asyncio.Task[None] | None = None

    async def listen(self) -> AsyncIterator[None]:
        """Yield at every hint, until the store is closed."""
        hint = asyncio.Event()
        self._listeners.add(hint)
        if self._task is None or self._task.done():  # it failed, and not all listeners have noticed yet
            self._task = asyncio.create_task(self._run())
        task = self._task
        try:
            while True:
                await hint.wait()
                hint.clear()
                if task.done():
                    task.result()
                    return
                yield
        finally:
            self._listeners.discard(hint)
            if not self._listeners:
                await self.stop()

    async def stop(self) -> None:
        """Close the connection; listeners get no more hints."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))

    async def _run(self) -> None:
        try:
            async for _ in self._source():
                self._notify()
        except asyncio.CancelledError:
            pass  # the last listener left, or the store was closed
        finally:
            asyncio.get_running_loop().call_soon(self._notify)

    def _notify(self) -> None:
        for hint in self._listeners:
            hint.set()


async def work(keyspace: Keyspace) -> AsyncIterator[Event]:
    """Yield at a marker for one of the queues that workers here last asked for; for any queue if they have not."""

    async def marker(connection: Connection) -> Events:
        wait = await _wait_for_work(
            keyspace, connection, sorted({*chain.from_iterable(keyspace.claimed_queues.values())}), BLOCK_SECONDS
        )
        return () if wait is None else await wait.events()

    async for event in _listening(keyspace, marker):
        yield event


class RedisParkedClaims:
    """Claims that wait on the server for work."""

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace

    def listener(self, worker: bytes) -> "RedisWorkListener":
        """Listen for one worker, over a connection of its own."""
        return RedisWorkListener(self._keyspace, worker)


class RedisWorkListener:
    """Waits for markers of the queues that one worker last asked for; a claim can be parked behind the wait."""

    def __init__(self, keyspace: Keyspace, worker: bytes) -> None:
        self._keyspace, self._worker = keyspace, worker
        self._wait: _WorkWait | None = None

    def park(self, claim: ClaimRequest) -> bool:
        """Send a claim behind the wait that is under way, or answer False if none is."""
        if self._wait is None:
            return False
        self._wait.park(claim)
        return True

    async def events(self) -> AsyncIterator[Exchange | WorkHint]:
        """Yield when a wait begins, and what came of it."""
        try:
            async for event in _listening(self._keyspace, self._next):
                yield event or WorkHint.WORK
        finally:
            self._wait = None
            self._keyspace.claimed_queues.pop(self._worker, None)

    async def _next(self, connection: Connection) -> Events:
        if self._wait is None:
            claimed = self._keyspace.claimed_queues.get(self._worker, ())
            self._wait = await _wait_for_work(self._keyspace, connection, claimed, PARKED_BLOCK_SECONDS)
            return () if self._wait is None else (WorkHint.WAITING,)
        try:
            return await self._wait.events()
        finally:
            self._wait = None


class _WorkWait:
    """A wait on the server for the marker of one of some queues, and the claim that is parked behind it."""

    def __init__(
        self, keyspace: Keyspace, connection: Connection, queues: Sequence[str], seconds: float, limit: float
    ) -> None:
        self._keyspace, self._connection, self._limit = keyspace, connection, limit
        self._marker = _send(connection, limit, "BLPOP", *[keyspace.key("wake", queue) for queue in queues], seconds)
        self._claim: ClaimRequest | None = None

    def park(self, claim: ClaimRequest) -> None:
        """Send a claim; the server makes it when the wait is over."""
        request = self._keyspace.request("exchange", **settlement_arguments(()), **claim_arguments(claim))
        self._claim, self._reply = claim, self._connection.send(request, self._limit)

    async def events(self) -> Events:
        """The answer of the claim, also where the marker was refused; a hint if the server does not have the script."""
        await self._marker
        if self._claim is None:
            return HINT if await value_of(self._marker) is not None else ()
        reply = await self._reply
        if isinstance(reply, NoScriptError):
            return HINT
        if isinstance(reply, Exception):
            raise reply
        return (exchange_of(reply, self._claim),)


async def _wait_for_work(
    keyspace: Keyspace, connection: Connection, claimed: Sequence[str], seconds: float
) -> _WorkWait | None:
    """Begin a wait for work in these queues, or a short one in any queue; None where there is no queue yet."""
    queues = claimed or await _known_queues(keyspace)
    if not queues:
        await SYSTEM.sleep(round(UNKNOWN_QUEUES_SECONDS * 1_000_000))
        return None
    wait = seconds if claimed else UNKNOWN_QUEUES_SECONDS
    return _WorkWait(keyspace, connection, queues, wait, wait + seconds)


async def ends(keyspace: Keyspace) -> AsyncIterator[Event]:
    """Yield when watched jobs have ended, and after each connect, because messages may have been missed."""
    listening: set[Connection] = set()

    async def message(connection: Connection) -> Events:
        if connection not in listening:
            listening.clear()
            listening.add(connection)
            await value_of(_send(connection, BLOCK_SECONDS, "SUBSCRIBE", keyspace.key("ended")))
            return HINT
        return HINT if (await _next_message(connection))[0] == b"message" else ()

    async for hint in _listening(keyspace, message):
        yield hint


async def published(keyspace: Keyspace, heads: Heads) -> AsyncGenerator[Event, None]:
    """Yield when one of these streams goes beyond its head, and several times a second, over one connection for all."""

    async def entry(connection: Connection) -> Events:
        last = {keyspace.key("stream", stream): f"{head}-0" for stream, head in heads.items()}
        if last:
            wait = ("XREAD", "COUNT", 1, "BLOCK", STREAMS_BLOCK_MS, "STREAMS", *last, *last.values())
            await value_of(_send(connection, BLOCK_SECONDS, *wait))
        return HINT

    async with aclosing(_listening(keyspace, entry)) as hints:
        async for hint in hints:
            yield hint


async def _listening(keyspace: Keyspace, listen: Listen) -> AsyncGenerator[Event, None]:
    failures = 0
    while not keyspace.connections.is_closed():
        connection = None
        try:
            connection = await keyspace.connections.connect()
            while True:
                for hint in await listen(connection):
                    yield hint
                    await SYSTEM.sleep(0)  # listeners run first
                failures = 0
        except StoreClosed:
            return
        except _BROKEN as error:
            keyspace.connections.report(error)
            if keyspace.connections.is_closed():
                return
        finally:
            if connection is not None:
                keyspace.connections.close_connection(connection)
        yield None  # a parked claim may have been run
        failures += 1
        await SYSTEM.sleep(_RECONNECT_BACKOFF.delay(failures, randomness()))


async def _known_queues(keyspace: Keyspace) -> list[str]:
    fields = await keyspace.read("HKEYS", "counts")
    return sorted({field.decode(errors="replace").rpartition("\x1f")[0] for field in fields if field})


async def _next_message(connection: Connection) -> Any:
    """Return the next message; ping a connection that was silent for long."""
    message = connection.expect(2 * BLOCK_SECONDS)
    await asyncio.wait((message,), timeout=BLOCK_SECONDS)
    if not message.done():
        connection.ping()  # a message that comes before its reply is returned first
    return await value_of(message)


def _send(connection: Connection, limit: float, *command: Any) -> "asyncio.Future[Any]":
    return connection.send(pack_command(command), limit)
