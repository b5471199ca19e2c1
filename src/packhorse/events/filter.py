"""Which events are wanted: by name, queue and task."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec

from packhorse.errors import InvalidOption
from packhorse.events.event import JobEvent, JobEventName
from packhorse.model import limits

FAILED: Final = "failed"  # dead, or again because of an error
ALIASES: Final[Mapping[str, JobEventName]] = MappingProxyType(
    {"active": JobEventName.CLAIMED, "completed": JobEventName.DONE, "stalled": JobEventName.LOST}
)


class EventFilter(msgspec.Struct, frozen=True):
    """Which events are wanted. ``failures`` are those among ``names`` that are wanted only if they carry an error.

    Events of Packhorse's own jobs are wanted only if their queue is named.
    """

    names: frozenset[JobEventName]
    failures: frozenset[JobEventName] = frozenset()
    queue: str | None = None
    task: str | None = None

    def wants(self, event: JobEvent) -> bool:
        """Whether an event is wanted."""
        return (
            event.name in self.names
            and (event.name not in self.failures or event.error_type is not None)
            and self.wants_job(event.queue, event.task)
        )

    def wants_job(self, queue: str | None, task: str | None) -> bool:
        """Whether events of a job of this queue and task are wanted."""
        if self.queue is None:
            own = queue is not None and queue.startswith(limits.RESERVED)
            return not own and self.task in (None, task)
        return queue == self.queue and self.task in (None, task)


def event_filter(names: Sequence[Any], queue: str | None, task: str | None) -> EventFilter:
    """Make a filter of names as users write them; no names stand for all."""
    if queue is not None:
        limits.name("queue", queue)
    if task is not None:
        limits.name("task", task)
    wanted, failed = set[JobEventName](), False
    for name in names:
        if name == FAILED:
            failed = True
        else:
            wanted.add(_named(name))
    failures = frozenset({JobEventName.AGAIN} - wanted) if failed else frozenset[JobEventName]()
    if failed:
        wanted |= {JobEventName.AGAIN, JobEventName.DEAD}
    return EventFilter(frozenset(wanted or JobEventName), failures, queue, task)


def _named(name: Any) -> JobEventName:
    try:
        return ALIASES[name] if isinstance(name, str) and name in ALIASES else JobEventName(name)
    except ValueError as error:
        known = ", ".join([*JobEventName, *ALIASES, FAILED])
        raise InvalidOption("event", name, f"give one of {known}") from error
