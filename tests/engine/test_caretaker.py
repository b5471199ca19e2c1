"""The caretaker comes to its duties, however late its loop is."""

import asyncio

from packhorse.engine.caretaker import Caretaker, Duty
from packhorse.telemetry.emit import Telemetry
from packhorse.testing import TurnedClock


class LateClock(TurnedClock):
    """Wakes sleepers by so much too late."""

    def __init__(self, late: int) -> None:
        super().__init__()
        self._late = late
        self.slept = 0

    async def sleep(self, duration: int) -> None:
        self.slept += 1
        self.turn(duration + self._late)
        await asyncio.sleep(0)


async def rounds(late: int) -> list[int]:
    """After how many sleeps a duty of every millisecond was done, the first times."""
    clock, done, enough = LateClock(late), [], asyncio.Event()

    async def run() -> bool:
        done.append(clock.slept)
        if len(done) == 4:
            enough.set()
        return False

    keeping = asyncio.create_task(
        Caretaker([Duty("count", 1000, run)], clock=clock, chance=lambda: 0.5, telemetry=Telemetry()).run()
    )
    async with asyncio.timeout(10):
        await enough.wait()
    keeping.cancel()
    await asyncio.wait([keeping])
    return done[:4]


async def test_a_duty_is_done_each_time_it_is_due():
    assert await rounds(late=10) == [1, 2, 3, 4]


async def test_after_a_stand_still_a_duty_waits_once_and_is_then_done_however_late_it_is():
    assert await rounds(late=5000) == [2, 4, 6, 8]
