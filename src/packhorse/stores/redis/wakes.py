"""Hints for those who wait: one line to the server for all listeners of a store, made anew whenever it breaks."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from hiredis import pack_command

from packhorse.errors import StoreClosed, StoreUnavailable
from packhorse.model import backoff
from packhorse.model.clock import SYSTEM
from packhorse.stores.redis.connection import chance
from packhorse.stores.redis.keyspace import Keyspace
from packhorse.stores.redis.topology import BROKEN
from packhorse.stores.redis.wire import Wire, heard

BLOCKED = 5.0  # seconds a connection waits on the server for a marker, then says it is still there
UNKNOWN = 0.25  # seconds between looks for queues while nobody has asked for any
_PAUSES = backoff.exponential(0.05, cap=5, jitter=0.5)
_BROKEN = (*BROKEN, StoreUnavailable)

Listen = Callable[[Wire], Awaitable[bool]]


class Bell:
    """Rings for all who listen; the line to the server stands while there are any."""

    def __init__(self, source: Callable[[], AsyncIterator[None]]) -> None:
        self._source = source
        self._ears: set[asyncio.Event] = set()
        self._task: asyncio.Task[None] | None = None

    async def heard(self) -> AsyncIterator[None]:
        """Yield at every ring, until the store is closed."""
        ear = asyncio.Event()
        self._ears.add(ear)
        task = self._task = self._task or asyncio.create_task(self._ring())
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


async def work(keyspace: Keyspace) -> AsyncIterator[None]:
    """A marker for one of the queues that were last asked for, or for any queue if none was."""

    async def marker(wire: Wire) -> bool:
        queues = keyspace.asked or await _known(keyspace)
        if not queues:
            await SYSTEM.sleep(round(UNKNOWN * 1_000_000))
            return False
        wait = BLOCKED if keyspace.asked else UNKNOWN
        keys = [keyspace.key("wake", queue) for queue in queues]
        return await _ask(wire, wait, "BLPOP", *keys, wait) is not None

    async for _ in _listening(keyspace, marker):
        yield


async def ends(keyspace: Keyspace) -> AsyncIterator[None]:
    """A message that watched jobs have ended; also whenever the line was made, for some may have been missed."""
    listening: set[Wire] = set()

    async def message(wire: Wire) -> bool:
        if wire not in listening:
            listening.clear()
            listening.add(wire)
            await _ask(wire, 0, "SUBSCRIBE", keyspace.key("ends"))
            return True
        return bool((await _heard(wire))[0] == b"message")

    async for _ in _listening(keyspace, message):
        yield


async def _listening(keyspace: Keyspace, listen: Listen) -> AsyncIterator[None]:
    failures = 0
    while not keyspace.connections.is_closed():
        wire = None
        try:
            wire = await keyspace.connections.connect()
            while True:
                if await listen(wire):
                    yield
                failures = 0
        except StoreClosed:
            return
        except _BROKEN as error:
            keyspace.connections.heard(error)
            if keyspace.connections.is_closed():
                return
            failures += 1
            await SYSTEM.sleep(_PAUSES.delay(failures, chance()))
        finally:
            if wire is not None:
                keyspace.connections.hang_up(wire)


async def _known(keyspace: Keyspace) -> list[str]:
    fields = await keyspace.read("HKEYS", "counts")
    return sorted({field.decode().rpartition("\x1f")[0] for field in fields if field})


async def _heard(wire: Wire) -> Any:
    """The next message; a line on which nothing was heard for long is asked whether it still stands."""
    message = wire.expect(2 * BLOCKED)
    await asyncio.wait((message,), timeout=BLOCKED)
    if not message.done():
        wire.ping()  # a message that comes before its answer is heard first
    return await heard(message)


async def _ask(wire: Wire, wait: float, *command: Any) -> Any:
    return await heard(wire.send(pack_command(command), wait + 5))
