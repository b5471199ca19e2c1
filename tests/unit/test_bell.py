"""Waiting for a ring, and for the first of several things."""

import asyncio
import threading

import pytest

from packhorse.engine.bell import Bell, first
from packhorse.testing.clock import TurnedClock


async def test_a_ring_wakes_who_waits(clock):
    bell = Bell(clock)
    waiting = asyncio.create_task(bell.wait())
    await asyncio.sleep(0)

    bell.ring()

    assert await waiting


async def test_a_ring_nobody_waited_for_is_heard_by_the_next_who_waits(clock):
    bell = Bell(clock)
    bell.ring()

    assert await bell.wait()


async def test_a_ring_is_heard_once(clock):
    bell = Bell(clock)
    bell.ring()
    bell.ring()
    await bell.wait()

    assert not await bell.wait(0)


async def test_who_waits_for_a_time_is_told_that_it_passed(clock):
    bell = Bell(clock)
    waiting = asyncio.create_task(bell.wait(10))
    await turn(clock, 10)

    assert not await waiting


async def test_a_ring_before_its_time_is_told_as_a_ring(clock):
    bell = Bell(clock)
    waiting = asyncio.create_task(bell.wait(10))
    await turn(clock, 9)
    assert not waiting.done()

    bell.ring()

    assert await waiting


async def test_the_time_of_one_who_was_rung_for_is_not_that_of_the_next(clock):
    bell = Bell(clock)
    for _ in range(3):
        waiting = asyncio.create_task(bell.wait(10))
        await asyncio.sleep(0)
        bell.ring()
        assert await waiting
    next_one = asyncio.create_task(bell.wait(10))
    for _ in range(10):
        await asyncio.sleep(0)

    assert not next_one.done()
    next_one.cancel()


async def test_a_ring_from_another_thread_wakes_who_waits(clock):
    bell = Bell(clock)
    threading.Thread(target=bell.ring_from_outside).start()

    assert await asyncio.wait_for(bell.wait(), 5)


async def test_many_rings_from_outside_cost_one_hop(clock, monkeypatch):
    bell, hops = Bell(clock), []
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "call_soon_threadsafe", lambda call: hops.append(call) or loop.call_soon(call))

    for _ in range(100):
        bell.ring_from_outside()
    await bell.wait()
    bell.ring_from_outside()

    assert len(hops) == 2
    assert await bell.wait()


def test_a_ring_after_the_loop_was_closed_is_harmless():
    async def made() -> Bell:
        return Bell(TurnedClock())

    asyncio.run(made()).ring_from_outside()


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
