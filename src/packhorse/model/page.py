"""Looking through many things, a bounded look at a time."""

from typing import Generic, TypeVar

import msgspec

from packhorse.model.job import Job, State
from packhorse.model.reason import DeadReason, WaitReason

T = TypeVar("T")


class Page(msgspec.Struct, Generic[T], frozen=True):
    """Some of what was asked for, and where to go on; no cursor means that was all. A page may be short or empty."""

    items: tuple[T, ...]
    cursor: str | None = None


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs to look for; what is None does not matter."""

    queue: str | None = None
    state: State | None = None
    task: str | None = None
    reason: WaitReason | DeadReason | None = None
    lane: str | None = None
    tenant: str | None = None
    parent: bytes | None = None
    born_since: int | None = None

    def fits(self, job: Job) -> bool:
        """Whether a job is one of those looked for."""
        return (
            (self.queue is None or job.queue == self.queue)
            and (self.state is None or job.state is self.state)
            and (self.task is None or job.task == self.task)
            and (self.reason is None or job.reason == self.reason)
            and (self.lane is None or job.lane == self.lane)
            and (self.tenant is None or job.tenant == self.tenant)
            and (self.parent is None or job.parent == self.parent)
            and (self.born_since is None or job.born >= self.born_since)
        )
