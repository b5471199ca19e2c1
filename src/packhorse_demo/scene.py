"""Base class of scenes: a name, jobs to run, and checks of what the store holds afterwards."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import msgspec

from packhorse import App, Job, JobHandle
from packhorse.model.event import Change
from packhorse_demo.event_log import EventLog
from packhorse_demo.workers import WorkerProcesses


class Check(msgspec.Struct, frozen=True):
    """One expectation and what was found."""

    says: str
    passed: bool
    found: str


def equal(says: str, found: Any, wanted: Any) -> Check:
    """Check that what was found equals what was wanted."""
    return Check(says, found == wanted, f"found {found}, wanted {wanted}")


class Audience(Protocol):
    """Receives what happens while a scene runs."""

    def message(self, text: str) -> None:
        """Show a message."""

    def token(self, text: str) -> None:
        """Show a piece of a streamed text; an empty one begins a new text."""

    def progress(self, percent: float) -> None:
        """Show the progress of a job."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What a scene uses. Its jobs have the stage's name, unique per round, as correlation id."""

    app: App
    workers: WorkerProcesses
    log: EventLog
    audience: Audience
    name: str

    async def jobs(self, task: str | None = None) -> list[Job]:
        """Find all jobs of this scene, with those that its jobs enqueued."""
        found: list[Job] = []
        cursor: str | None = None
        while True:
            page = await self.app.find(task=task, header=("correlation_id", self.name), limit=500, cursor=cursor)
            found += page.items
            cursor = page.cursor
            if cursor is None:
                return found

    async def quiet(self) -> list[Job]:
        """Wait until all jobs of this scene, with those they enqueued, have ended in the store and the log."""
        while True:
            jobs = await self.jobs()
            running = [job.id for job in jobs if not job.ended]
            if not running:
                await self.log.caught_up()
                return jobs
            await self.log.ended(running)

    def once(self, what: str, jobs: Sequence[Job], wanted: int) -> Check:
        """Check that there are this many jobs, all done, each exactly once."""
        done = [job.id for job in jobs if job.state == "done"]
        twice = [job for job in done if self.log.times([job], Change.DONE) != 1]
        found = f"{wanted} enqueued, {len(done)} done, {len(jobs) - len(done)} not done, {len(twice)} not once"
        return Check(f"{wanted} {what}: all done, each once", len(done) == len(jobs) == wanted and not twice, found)


class Scene:
    """One feature that the demo shows. Classes in the modules of ``scenes`` are found by themselves."""

    turn: ClassVar[int]  # lower numbers run first
    name: ClassVar[str]
    shows: ClassVar[str]

    async def play(self, stage: Stage) -> None:
        """Enqueue the jobs and wait for what the scene shows."""
        raise NotImplementedError

    async def check(self, stage: Stage) -> list[Check]:
        """Check what the store holds."""
        raise NotImplementedError


def ids(handles: Iterable[JobHandle[Any]]) -> list[str]:
    """Return the ids of jobs."""
    return [handle.id for handle in handles]
