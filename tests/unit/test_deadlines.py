"""Moments at which something is to be done."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from packhorse.engine.deadlines import Deadlines
from packhorse.testing import TurnedClock


@pytest.fixture
async def deadlines(clock: TurnedClock) -> AsyncIterator[Deadlines]:
    made = Deadlines(clock)
    running = asyncio.create_task(made.run())
    yield made
    running.cancel()
    await asyncio.wait([running])


async def test_things_are_done_when_their_moment_comes_soonest_first(deadlines, clock):
    done = []
    for duration in (30, 10, 20):
        deadlines.after(duration, lambda duration=duration: done.append(duration))

    await turn(clock, 9)
    assert done == []
    await turn(clock, 11)
    assert done == [10, 20]
    await turn(clock, 10)
    assert done == [10, 20, 30]


async def test_one_that_comes_before_what_is_waited_for_is_not_late(deadlines, clock):
    done = []
    deadlines.after(100, lambda: done.append("late"))
    await turn(clock, 1)

    deadlines.after(5, lambda: done.append("early"))
    await turn(clock, 5)

    assert done == ["early"]


async def test_what_is_called_off_is_not_done(deadlines, clock):
    done = []
    deadline = deadlines.after(10, lambda: done.append(1))

    deadline.call_off()
    deadline.call_off()
    await turn(clock, 20)

    assert done == []


async def test_calling_off_what_is_done_is_harmless(deadlines, clock):
    done = []
    deadline = deadlines.after(10, lambda: done.append(1))
    await turn(clock, 10)

    deadline.call_off()
    deadlines.after(10, lambda: done.append(2))
    await turn(clock, 10)

    assert done == [1, 2]


async def test_an_action_may_set_the_next_deadline(deadlines, clock):
    done = []

    def again() -> None:
        done.append(clock.now())
        if len(done) < 3:
            deadlines.after(10, again)

    deadlines.after(10, again)
    for _ in range(3):
        await turn(clock, 10)

    assert len(done) == 3


async def test_what_is_called_off_does_not_pile_up_until_its_moment(deadlines, clock):
    done = []
    last = deadlines.after(500, lambda: done.append(1))
    for _ in range(10_000):
        deadlines.after(1_000_000, lambda: done.append(2)).call_off()

    assert len(deadlines._heap) < 300
    await turn(clock, 500)
    assert done == [1]
    last.call_off()


async def turn(clock: TurnedClock, duration: int) -> None:
    """Let time pass, and those who wait for it begin before and go on after."""
    for step in (0, duration):
        clock.turn(step)
        for _ in range(10):
            await asyncio.sleep(0)
