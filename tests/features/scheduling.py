"""What tests of schedules share: a day to begin with, time that passes, and the ticks that were made."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from packhorse import App, Call, Task
from packhorse.testing import TurnedClock
from tests.features.factories import SECOND, everything

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)


class SetClock(TurnedClock):
    """A clock that somebody may set back as well; what is steady goes on."""

    def __init__(self, now: int) -> None:
        super().__init__(now)
        self._lost = 0

    def steady(self) -> int:
        return self._now + self._lost

    def back(self, duration: int) -> None:
        """Set it back."""
        self._now -= duration
        self._lost += duration


def begin(skew: int = 0) -> SetClock:
    """A clock that stands at the beginning, or beside it."""
    return SetClock(round(BEGIN.timestamp()) * SECOND + skew)


def moved(minutes: int) -> str:
    """So many minutes after the beginning, as ``ticks`` says it."""
    return (BEGIN + timedelta(minutes=minutes)).isoformat()[5:16]


def each(step: int, last: int) -> list[int]:
    """The numbers from a step to the last."""
    return list(range(step, last + 1, step))


def at(text: str) -> datetime:
    """A moment of that year."""
    return datetime.fromisoformat(f"2026-{text}").replace(tzinfo=UTC)


async def ticks(app: App, **wanted: Any) -> list[str]:
    """The ticks that have a job, in their order."""
    return sorted(str(job.headers["tick"])[5:16] for job in await everything(app, **wanted) if "tick" in job.headers)


async def alarms(app: App) -> list[dict[str, Any]]:
    """The events about runs that did not go as they should."""
    return [json.loads(event.data) for event in await (await app.store()).streams.read("packhorse.schedules")]


async def pass_time(app: App, clock: TurnedClock, total: int, step: int) -> None:
    """Let time pass in steps, firing what falls due, as a living worker does."""
    for _ in range(total // step):
        clock.turn(step)
        await app.schedules.fire()


def nothing(app: App) -> Task[[], None]:
    """A task that does nothing."""

    @app.task(name="nothing")
    async def nothing() -> None: ...

    return nothing


def elsewhere(app: App) -> Call[Any]:
    """A call of a task that another program has."""
    return app.queue("default").call("elsewhere", {"tenant": 42})
