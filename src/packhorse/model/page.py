"""Looking through many things, a bounded look at a time."""

from typing import Generic, TypeVar

import msgspec

from packhorse.model import limits
from packhorse.model.ids import check_id
from packhorse.model.job import State, StoredJob
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
    enqueued_since: int | None = None

    def __post_init__(self) -> None:
        for what, name in (("queue", self.queue), ("task", self.task)):
            if name is not None:
                limits.name(what, name)
        for what, key in (("lane", self.lane), ("tenant", self.tenant)):
            if key is not None:
                limits.key(what, key)
        if self.parent is not None:
            check_id(self.parent)
        if self.enqueued_since is not None:
            limits.moment("enqueued_since", self.enqueued_since)

    def fits(self, job: StoredJob) -> bool:
        """Whether a job is one of those looked for."""
        return (
            (self.queue is None or job.queue == self.queue)
            and (self.state is None or job.state is self.state)
            and (self.task is None or job.task == self.task)
            and (self.reason is None or job.reason == self.reason)
            and (self.lane is None or job.lane == self.lane)
            and (self.tenant is None or job.tenant == self.tenant)
            and (self.parent is None or job.parent == self.parent)
            and (self.enqueued_since is None or job.enqueued_at >= self.enqueued_since)
        )
