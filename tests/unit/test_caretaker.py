"""Duties that are done again and again, whatever becomes of the others."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from packhorse.engine.caretaker import REST_FACTOR, STALLED_PAUSE_US, Caretaker, Duty
from packhorse.telemetry.emit import Telemetry
from packhorse.telemetry.names import EventName
from packhorse.testing import TurnedClock

EVERY = 10_000_000


class Doing:
    """A duty that is counted, and does what it is given."""

    def __init__(self, *answers: bool | Exception) -> None:
        self.times = 0
        self._answers = list(answers)

    async def __call__(self) -> bool:
        self.times += 1
        answer = self._answers.pop(0) if self._answers else False
        if isinstance(answer, Exception):
            raise answer
        return answer


@asynccontextmanager
async def caring(
    clock: TurnedClock, *duties: Callable[[], Awaitable[bool]], telemetry: Telemetry | None = None
) -> AsyncIterator[None]:
    listed = [Duty(f"duty {number}", EVERY, run) for number, run in enumerate(duties)]
    care = Caretaker(listed, clock=clock, chance=lambda: 0.5, telemetry=telemetry or Telemetry())
    running = asyncio.create_task(care.run())
    await turn(clock, EVERY // 4)
    yield
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_duty_is_done_soon_after_the_start_and_then_every_so_often(clock):
    doing = Doing()
    async with caring(clock, doing):
        assert doing.times == 1
        await turn(clock, EVERY - 1)
        assert doing.times == 1
        await turn(clock, 1)
        assert doing.times == 2


async def test_a_duty_that_has_more_to_do_comes_back_soon(clock):
    doing = Doing(True, True)
    async with caring(clock, doing):
        await turn(clock, STALLED_PAUSE_US)
        await turn(clock, STALLED_PAUSE_US)
        await turn(clock, STALLED_PAUSE_US)

        assert doing.times == 3


async def test_a_duty_that_has_more_to_do_rests_nine_times_as_long_as_it_took(clock):
    times = 0

    async def slow() -> bool:
        nonlocal times
        times += 1
        clock.turn(STALLED_PAUSE_US)
        return True

    async with caring(clock, slow):
        await turn(clock, REST_FACTOR * STALLED_PAUSE_US - 1)
        assert times == 1
        await turn(clock, 1)
        assert times == 2


async def test_a_duty_that_fails_is_reported_and_done_again_and_stops_no_other(clock):
    telemetry, given = Telemetry(), []
    telemetry.on(lambda name, fields: given.append(fields), EventName.DUTY_FAILED)
    broken, sound = Doing(*[ValueError(f"no {number}") for number in range(2)]), Doing()
    async with caring(clock, broken, sound, telemetry=telemetry):
        for _ in range(2):
            await turn(clock, EVERY)

    assert (broken.times, sound.times) == (3, 3)
    assert [(each["detail"], each["count"], str(each["error"])) for each in given] == [
        ("duty 0", 1, "no 0"),
        ("duty 0", 2, "no 1"),
    ]


async def test_a_worker_that_stood_still_sees_to_its_own_leases_before_it_takes_any_back(clock):
    doing = Doing()
    async with caring(clock, doing):
        await turn(clock, 3 * EVERY)
        assert doing.times == 1

        await turn(clock, STALLED_PAUSE_US)
        assert doing.times == 2


async def turn(clock: TurnedClock, duration: int) -> None:
    """Let time pass, and those who wait for it begin before and go on after."""
    for step in (0, duration):
        clock.turn(step)
        for _ in range(10):
            await asyncio.sleep(0)
