"""What tests of schedules share: a day to begin with, time that passes, and the ticks that were made."""

from datetime import UTC, datetime
from typing import Any

from packhorse import App, Call, Task
from packhorse.testing.clock import TurnedClock
from tests.features.making import SECOND, everything

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)


def begin() -> TurnedClock:
    """A clock that stands at the beginning."""
    return TurnedClock(round(BEGIN.timestamp()) * SECOND)


def at(text: str) -> datetime:
    """A moment of that year."""
    return datetime.fromisoformat(f"2026-{text}").replace(tzinfo=UTC)


async def ticks(app: App, **wanted: Any) -> list[str]:
    """The ticks that have a job, in their order."""
    return sorted(str(job.headers["tick"])[5:16] for job in await everything(app, **wanted) if "tick" in job.headers)


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
