"""Hints for readers of streams: one look at the heads of all streams that are read, however many readers there are."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress

from packhorse.errors import StoreClosed, StoreUnavailable
from packhorse.model import backoff
from packhorse.model.clock import SYSTEM

MIN_PAUSE_US = 10_000  # between two looks: many events in a row are one hint
_PAUSES = backoff.exponential(0.1, cap=10, jitter=0)

Heads = Mapping[str, int | None]  # the last offset of each stream; None: some events have no offset yet


class _Reader:
    def __init__(self, stream: str) -> None:
        self.stream = stream
        self.woken = asyncio.Event()
        self.ended = False


class StreamWakes:
    """Wakes the readers of a stream when its head has moved. Nothing is looked at while there are no readers.

    ``look`` answers the heads of streams. ``moments`` yields when to look; it is given the heads of the last look.
    """

    def __init__(
        self,
        look: Callable[[Sequence[str]], Awaitable[Sequence[int | None]]],
        moments: Callable[[Heads], AsyncGenerator[object, None]],
    ) -> None:
        self._look, self._moments = look, moments
        self._readers: set[_Reader] = set()
        self._heads: dict[str, int | None] = {}
        self._task: asyncio.Task[None] | None = None

    async def listen(self, stream: str) -> AsyncGenerator[None, None]:
        """Yield at once, and then whenever a stream may have new events, until the store is closed."""
        reader = _Reader(stream)
        self._readers.add(reader)
        try:
            with suppress(StoreUnavailable):
                await self._look([stream])  # a closed store refuses
            reader.woken.set()
            while not reader.ended:
                if self._task is None or self._task.done():
                    self._task = asyncio.create_task(self._run())
                await reader.woken.wait()
                reader.woken.clear()
                if not reader.ended:
                    yield
        finally:
            self._readers.discard(reader)
            if not self._readers:
                await self._stop()

    async def close(self) -> None:
        """Let the readers go; they get no more hints."""
        self._end()
        await self._stop()

    async def _stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))

    def _end(self) -> None:
        for reader in self._readers:
            reader.ended = True
            reader.woken.set()

    async def _run(self) -> None:
        failures = 0
        while True:
            self._heads.clear()  # events may have been missed: every reader is woken
            try:
                async with aclosing(self._moments(self._heads)) as moments:
                    async for _ in moments:
                        await self._wake_readers()
                        failures = 0
                        await SYSTEM.sleep(MIN_PAUSE_US)
            except StoreClosed:
                self._end()
                return
            except Exception:  # noqa: BLE001 - nobody would start it again; hints may be missed
                failures += 1
            await SYSTEM.sleep(_PAUSES.delay(max(failures, 1), 0))

    async def _wake_readers(self) -> None:
        streams = sorted({reader.stream for reader in self._readers})
        heads = dict(zip(streams, await self._look(streams), strict=True))
        for reader in self._readers:
            head = heads.get(reader.stream, 0)
            if head is None or head != self._heads.get(reader.stream, 0):
                reader.woken.set()
        self._heads.clear()
        self._heads.update(heads)
