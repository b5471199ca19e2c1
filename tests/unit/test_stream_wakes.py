"""Hints for the readers of streams: what one look serves, and what becomes of a look that fails."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing

import pytest

from packhorse.errors import StoreUnavailable
from packhorse.model import backoff
from packhorse.stores import stream_wakes
from packhorse.stores.stream_wakes import Heads, StreamWakes

SOON = 10


class Log:
    """Heads of streams that a test moves, and the looks at them."""

    def __init__(self) -> None:
        self.heads: dict[str, int | None] = {}
        self.away = False
        self.looks: list[list[str]] = []
        self.moved = asyncio.Event()
        self.listening = 0
        self.wakes = StreamWakes(self.look, self.moments)

    async def look(self, streams: Sequence[str]) -> list[int | None]:
        self.looks.append(list(streams))
        if self.away:
            raise StoreUnavailable("away")
        return [self.heads.get(stream, 0) for stream in streams]

    async def moments(self, _: Heads) -> AsyncGenerator[None, None]:
        self.listening += 1
        try:
            while True:
                yield
                await self.moved.wait()
                self.moved.clear()
        finally:
            self.listening -= 1

    def move(self, stream: str, head: int | None) -> None:
        self.heads[stream] = head
        self.moved.set()


async def soon(hints: AsyncIterator[None]) -> None:
    await asyncio.wait_for(anext(hints), SOON)


async def test_one_look_serves_all_readers_and_wakes_those_whose_stream_has_moved():
    log = Log()
    ones, others = [log.wakes.listen("one") for _ in range(5)], log.wakes.listen("other")
    for hints in (*ones, others):
        await soon(hints)
    waiting = asyncio.ensure_future(anext(others))
    log.looks.clear()

    log.move("one", 1)
    await asyncio.gather(*map(soon, ones))

    assert log.looks == [["one", "other"]]
    assert log.listening == 1
    assert not waiting.done()
    log.move("other", 1)
    await asyncio.wait_for(waiting, SOON)
    for hints in (*ones, others):
        await hints.aclose()


async def test_nothing_is_looked_at_once_the_last_reader_has_left():
    log = Log()
    async with aclosing(log.wakes.listen("one")) as hints:
        await soon(hints)
        log.move("one", 1)
        await soon(hints)
    looks = len(log.looks)

    log.move("one", 2)
    for _ in range(10):
        await asyncio.sleep(0)

    assert (len(log.looks), log.listening) == (looks, 0)


async def test_events_without_offsets_wake_at_every_look():
    log = Log()
    async with aclosing(log.wakes.listen("one")) as hints:
        for _ in range(3):
            log.move("one", None)
            await soon(hints)


async def test_readers_are_woken_after_an_outage_for_events_may_have_been_missed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stream_wakes, "_PAUSES", backoff.exponential(0.001, cap=0.001, jitter=0))
    log = Log()
    log.heads["one"] = 1
    async with aclosing(log.wakes.listen("one")) as hints:
        await soon(hints)
        await soon(hints)  # the first look finds a head that it does not know
        log.away = True
        waiting = asyncio.ensure_future(anext(hints))
        log.moved.set()
        while len(log.looks) < 4:
            await asyncio.sleep(0.001)

        log.away = False
        log.moved.set()

        await asyncio.wait_for(waiting, SOON)


async def test_a_reader_that_begins_during_an_outage_waits_for_its_end():
    log = Log()
    log.away = True
    async with aclosing(log.wakes.listen("one")) as hints:
        await soon(hints)
        log.away = False
        log.move("one", 1)

        await soon(hints)
