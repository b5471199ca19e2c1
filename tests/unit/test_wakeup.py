"""Waiting for a wakeup, and for the first of several things."""

import asyncio
import threading

import pytest

from packhorse.engine.wakeup import Wakeup, first
from packhorse.testing import TurnedClock


async def test_set_ends_a_wait(clock):
    wakeup = Wakeup(clock)
    waiting = asyncio.create_task(wakeup.wait())
    await asyncio.sleep(0)

    wakeup.set()

    assert await waiting


async def test_set_without_a_waiter_ends_the_next_wait(clock):
    wakeup = Wakeup(clock)
    wakeup.set()

    assert await wakeup.wait()


async def test_set_ends_one_wait(clock):
    wakeup = Wakeup(clock)
    wakeup.set()
    wakeup.set()
    await wakeup.wait()

    assert not await wakeup.wait(0)


async def test_a_wait_answers_that_its_time_has_passed(clock):
    wakeup = Wakeup(clock)
    waiting = asyncio.create_task(wakeup.wait(10))
    await turn(clock, 10)

    assert not await waiting


async def test_set_before_the_time_is_over_is_answered(clock):
    wakeup = Wakeup(clock)
    waiting = asyncio.create_task(wakeup.wait(10))
    await turn(clock, 9)
    assert not waiting.done()

    wakeup.set()

    assert await waiting


async def test_the_time_of_one_who_was_rung_for_is_not_that_of_the_next(clock):
    wakeup = Wakeup(clock)
    for _ in range(3):
        waiting = asyncio.create_task(wakeup.wait(10))
        await asyncio.sleep(0)
        wakeup.set()
        assert await waiting
    next_one = asyncio.create_task(wakeup.wait(10))
    for _ in range(10):
        await asyncio.sleep(0)

    assert not next_one.done()
    next_one.cancel()


async def test_a_ring_from_another_thread_wakes_who_waits(clock):
    wakeup = Wakeup(clock)
    threading.Thread(target=wakeup.set_threadsafe).start()

    assert await asyncio.wait_for(wakeup.wait(), 5)


async def test_many_calls_from_threads_cost_one_hop(clock, monkeypatch):
    wakeup, hops = Wakeup(clock), []
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "call_soon_threadsafe", lambda call: hops.append(call) or loop.call_soon(call))

    for _ in range(100):
        wakeup.set_threadsafe()
    await wakeup.wait()
    wakeup.set_threadsafe()

    assert len(hops) == 2
    assert await wakeup.wait()


def test_a_ring_after_the_loop_was_closed_is_harmless():
    async def made() -> Wakeup:
        return Wakeup(TurnedClock())

    asyncio.run(made()).set_threadsafe()


async def test_the_first_thing_to_happen_ends_the_wait_for_the_others():
    given_up = []

    async def never() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            given_up.append(True)
            raise

    await first(never(), asyncio.sleep(0), never())

    assert given_up == [True, True]


async def test_a_wait_for_the_first_that_is_called_off_leaves_nothing_behind():
    before = asyncio.all_tasks()
    waiting = asyncio.create_task(first(asyncio.Event().wait()))
    await asyncio.sleep(0)
    waiting.cancel()

    with pytest.raises(asyncio.CancelledError):
        await waiting

    assert asyncio.all_tasks() == before


async def turn(clock: TurnedClock, duration: int) -> None:
    """Let time pass, and those who wait for it begin before and go on after."""
    for step in (0, duration):
        clock.turn(step)
        for _ in range(5):
            await asyncio.sleep(0)
