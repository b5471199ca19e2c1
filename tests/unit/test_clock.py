"""Clocks: that of the machine, and the one that tests turn."""

import asyncio
import time

from packhorse.model.clock import SYSTEM, SystemClock
from packhorse.testing.clock import START_US, TurnedClock


def test_the_system_clock_tells_the_time_in_microseconds():
    before, reported, after = time.time_ns() // 1000, SYSTEM.now(), time.time_ns() // 1000
    assert before <= reported <= after
    assert type(reported) is int


def test_steady_time_only_goes_forward():
    reported = [SystemClock().steady() for _ in range(1000)]
    assert reported == sorted(reported)


async def test_the_system_clock_sleeps_microseconds():
    before = SYSTEM.steady()
    await SYSTEM.sleep(2000)
    assert 2000 <= SYSTEM.steady() - before < 1_000_000


def test_a_turned_clock_stands_still_until_it_is_turned():
    clock = TurnedClock()
    assert clock.now() == clock.now() == clock.steady() == START_US
    clock.turn(5)
    assert clock.now() == clock.steady() == START_US + 5
    clock.to(START_US + 9)
    assert clock.now() == START_US + 9


def test_a_turned_clock_does_not_go_back():
    clock = TurnedClock(100)
    clock.to(50)
    clock.turn(-20)
    assert clock.now() == 100


async def test_a_sleeper_wakes_when_its_moment_has_come_and_not_before():
    clock = TurnedClock()
    sleeper = asyncio.create_task(clock.sleep(10))
    for _ in range(3):
        await asyncio.sleep(0)
    clock.turn(9)
    for _ in range(3):
        await asyncio.sleep(0)
    assert not sleeper.done()
    clock.turn(1)
    await asyncio.wait_for(sleeper, 1)


async def test_no_sleep_is_over_at_once():
    await asyncio.wait_for(TurnedClock().sleep(0), 1)


async def test_all_whose_moment_has_come_wake():
    clock = TurnedClock()
    sleepers = [asyncio.create_task(clock.sleep(duration)) for duration in (1, 5, 5, 50)]
    await asyncio.sleep(0)
    clock.turn(5)
    done, left = await asyncio.wait(sleepers, timeout=0.05)
    assert len(done) == 3
    clock.turn(45)
    await asyncio.wait_for(asyncio.gather(*left), 1)
