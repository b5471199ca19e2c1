"""Hints for those who wait: one line to the server for all listeners of a store, made anew whenever it breaks.

A worker that may leave asks has a line of its own. The server does what is sent on a line in order, and waits for the
marker first: an exchange that is sent behind is made the moment there is work, and its answer comes with the hint.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from itertools import chain
from typing import Any

from hiredis import pack_command
from redis.exceptions import NoScriptError

from packhorse.errors import StoreClosed, StoreUnavailable
from packhorse.model import backoff
from packhorse.model.clock import SYSTEM
from packhorse.model.lease import Ask, Exchange
from packhorse.stores.contract import Leaving
from packhorse.stores.redis.connection import chance
from packhorse.stores.redis.keyspace import Keyspace
from packhorse.stores.redis.settling import ask_arguments, exchange_of, settlement_arguments
from packhorse.stores.redis.topology import BROKEN
from packhorse.stores.redis.wire import Wire, heard

BLOCKED = 5.0  # seconds a connection waits on the server for a marker, then says it is still there
STANDING = 1.0  # the same where an ask may be left: it is made then at the latest
UNKNOWN = 0.25  # seconds between looks for queues while nobody has asked for any
_PAUSES = backoff.exponential(0.05, cap=5, jitter=0.5)
_BROKEN = (*BROKEN, StoreUnavailable)

Hints = Sequence[Exchange | None]
Listen = Callable[[Wire], Awaitable[Hints]]
HINT: Hints = (None,)


class Bell:
    """Rings for all who listen; the line to the server stands while there are any."""

    def __init__(self, source: Callable[[], AsyncIterator[Exchange | None]]) -> None:
        self._source = source
        self._ears: set[asyncio.Event] = set()
        self._task: asyncio.Task[None] | None = None

    async def heard(self) -> AsyncIterator[None]:
        """Yield at every ring, until the store is closed."""
        ear = asyncio.Event()
        self._ears.add(ear)
        if self._task is None or self._task.done():  # it failed, and not all who listened have noticed yet
            self._task = asyncio.create_task(self._ring())
        task = self._task
        try:
            while True:
                await ear.wait()
                ear.clear()
                if task.done():
                    task.result()
                    return
                yield
        finally:
            self._ears.discard(ear)
            if not self._ears:
                await self.stop()

    async def stop(self) -> None:
        """Let go of the line; who still listens hears no more."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))

    async def _ring(self) -> None:
        try:
            async for _ in self._source():
                self._all()
        except asyncio.CancelledError:
            pass  # nobody listens any more, or the store was closed
        finally:
            asyncio.get_running_loop().call_soon(self._all)

    def _all(self) -> None:
        for ear in self._ears:
            ear.set()


async def work(
    keyspace: Keyspace, leaving: Leaving | None = None, worker: bytes | None = None
) -> AsyncIterator[Exchange | None]:
    """A marker for one of the queues that this worker, or anybody here, last asked for; for any queue if none was."""
    most = BLOCKED if leaving is None else STANDING

    async def marker(wire: Wire) -> Hints:
        asked = keyspace.asked.get(worker, ()) if worker else sorted({*chain.from_iterable(keyspace.asked.values())})
        queues = asked or await _known(keyspace)
        if not queues:
            await SYSTEM.sleep(round(UNKNOWN * 1_000_000))
            return ()
        wait = most if asked else UNKNOWN
        keys = [keyspace.key("wake", queue) for queue in queues]
        found = _send(wire, wait + most, "BLPOP", *keys, wait)
        if leaving is not None:
            left = _Left(keyspace, wire, wait + most)
            leaving(left.leave)
            try:
                await found
            finally:
                leaving(None)
            if left.ask is not None:
                return (await left.answer(),)
        return HINT if await heard(found) is not None else ()

    try:
        async for hint in _listening(keyspace, marker):
            yield hint
    finally:
        if worker is not None:
            keyspace.asked.pop(worker, None)


class _Left:
    """An ask behind a marker that is waited for."""

    def __init__(self, keyspace: Keyspace, wire: Wire, limit: float) -> None:
        self._keyspace, self._wire, self._limit = keyspace, wire, limit
        self.ask: Ask | None = None

    def leave(self, ask: Ask) -> None:
        """Send the ask behind the marker."""
        request = self._keyspace.request("exchange", **settlement_arguments(()), **ask_arguments(ask))
        self.ask, self._said = ask, self._wire.send(request, self._limit)

    async def answer(self) -> Exchange | None:
        """What came of it, also where the marker was refused; None if the server does not have the script."""
        said = await self._said
        if isinstance(said, NoScriptError):
            return None
        if isinstance(said, Exception):
            raise said
        return exchange_of(said, self.ask)


async def ends(keyspace: Keyspace) -> AsyncIterator[Exchange | None]:
    """A message that watched jobs have ended; also whenever the line was made, for some may have been missed."""
    listening: set[Wire] = set()

    async def message(wire: Wire) -> Hints:
        if wire not in listening:
            listening.clear()
            listening.add(wire)
            await heard(_send(wire, BLOCKED, "SUBSCRIBE", keyspace.key("ends")))
            return HINT
        return HINT if (await _heard(wire))[0] == b"message" else ()

    async for hint in _listening(keyspace, message):
        yield hint


async def _listening(keyspace: Keyspace, listen: Listen) -> AsyncIterator[Exchange | None]:
    failures = 0
    while not keyspace.connections.is_closed():
        wire = None
        try:
            wire = await keyspace.connections.connect()
            while True:
                for hint in await listen(wire):
                    yield hint
                    await SYSTEM.sleep(0)  # who was woken goes first
                failures = 0
        except StoreClosed:
            return
        except _BROKEN as error:
            keyspace.connections.heard(error)
            if keyspace.connections.is_closed():
                return
        finally:
            if wire is not None:
                keyspace.connections.hang_up(wire)
        yield None  # an ask that was left on the line may have been made
        failures += 1
        await SYSTEM.sleep(_PAUSES.delay(failures, chance()))


async def _known(keyspace: Keyspace) -> list[str]:
    fields = await keyspace.read("HKEYS", "counts")
    return sorted({field.decode(errors="replace").rpartition("\x1f")[0] for field in fields if field})


async def _heard(wire: Wire) -> Any:
    """The next message; a line on which nothing was heard for long is asked whether it still stands."""
    message = wire.expect(2 * BLOCKED)
    await asyncio.wait((message,), timeout=BLOCKED)
    if not message.done():
        wire.ping()  # a message that comes before its answer is heard first
    return await heard(message)


def _send(wire: Wire, limit: float, *command: Any) -> "asyncio.Future[Any]":
    return wire.send(pack_command(command), limit)
