"""What a scene is: a name, a coroutine that lets something happen, and a check of what the store holds afterwards."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import msgspec

from packhorse import App, Job, JobHandle
from packhorse.cli.demo.fleet import Fleet
from packhorse.cli.demo.logbook import Logbook
from packhorse.model.event import Change


class Check(msgspec.Struct, frozen=True):
    """One thing that must be true, and what was found."""

    says: str
    passed: bool
    found: str


def equal(says: str, found: Any, wanted: Any) -> Check:
    """What was found must be what was wanted."""
    return Check(says, found == wanted, f"found {found}, wanted {wanted}")


class Audience(Protocol):
    """Who is told what happens on the stage while a scene is played."""

    def tell(self, text: str) -> None:
        """Something happened."""

    def token(self, text: str) -> None:
        """A piece of a text that comes in pieces; an empty one begins a new text."""

    def progress(self, percent: float) -> None:
        """How far the job is that says so."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What a scene works with. Its jobs have the name of the scene in this round as their correlation id."""

    app: App
    fleet: Fleet
    log: Logbook
    audience: Audience
    name: str

    async def jobs(self, task: str | None = None) -> list[Job]:
        """All jobs of this scene, also those that its jobs enqueued, as the store has them now."""
        found: list[Job] = []
        cursor: str | None = None
        while True:
            page = await self.app.find(task=task, header=("correlation_id", self.name), limit=500, cursor=cursor)
            found += page.items
            cursor = page.cursor
            if cursor is None:
                return found

    async def quiet(self) -> list[Job]:
        """Wait until all jobs of this scene have ended, with those they enqueued, and the log says so."""
        while True:
            jobs = await self.jobs()
            running = [job.id for job in jobs if not job.ended]
            if not running:
                await self.log.caught_up()
                return jobs
            await self.log.ended(running)

    def once(self, what: str, jobs: Sequence[Job], wanted: int) -> Check:
        """So many jobs, all done, and each exactly once."""
        done = [job.id for job in jobs if job.status == "done"]
        twice = [job for job in done if self.log.times([job], Change.DONE) != 1]
        found = f"{wanted} enqueued, {len(done)} done, {len(jobs) - len(done)} not done, {len(twice)} not once"
        return Check(f"{wanted} {what}: all done, each once", len(done) == len(jobs) == wanted and not twice, found)


class Scene:
    """One thing that the demo shows. A module in ``scenes`` that holds such classes is all it takes."""

    turn: ClassVar[int]  # lower plays earlier
    name: ClassVar[str]
    shows: ClassVar[str]

    async def play(self, stage: Stage) -> None:
        """Let it happen."""
        raise NotImplementedError

    async def check(self, stage: Stage) -> list[Check]:
        """Hold what the store has against what must be."""
        raise NotImplementedError


def ids(handles: Iterable[JobHandle[Any]]) -> list[str]:
    """The ids of jobs."""
    return [handle.id for handle in handles]
