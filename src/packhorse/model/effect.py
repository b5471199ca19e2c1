"""What else a settlement writes, in the same atomic step."""

from collections.abc import Iterable

import msgspec

from packhorse.errors import InvalidName
from packhorse.model import limits
from packhorse.model.event import LIFECYCLE
from packhorse.model.job import NewJob


class Enqueue(msgspec.Struct, frozen=True):
    """Another job, unless its id or unique key is taken."""

    job: NewJob


class Publish(msgspec.Struct, frozen=True):
    """An event at the end of a stream."""

    stream: str
    data: bytes
    key: str | None = None

    def __post_init__(self) -> None:
        limits.name("stream", self.stream)
        limits.text("event", self.data, limits.VALUE)
        if self.key is not None:
            limits.key("event key", self.key)
        if self.stream == LIFECYCLE:
            raise InvalidName("stream", self.stream, "only the store writes the lifecycle of jobs")


class Put(msgspec.Struct, frozen=True):
    """A keyed record, by compare-and-set: ``expect`` None writes always, 0 only if absent, else only over that version.

    No value drops the record. ``due`` and ``expires`` are moments, 0 for none.
    """

    kind: str
    key: str
    value: bytes | None
    expect: int | None = None
    due: int = 0
    expires: int = 0

    def __post_init__(self) -> None:
        limits.name("record kind", self.kind)
        limits.key("record key", self.key)
        if self.value is not None:
            limits.text("record value", self.value, limits.VALUE)
        if self.expect is not None:
            limits.within("expect", self.expect, 0, 2**53)
        limits.moment("due", self.due)
        limits.moment("expires", self.expires)


Effect = Enqueue | Publish | Put


def bytes_of(effects: Iterable[Effect]) -> int:
    """How many bytes of payloads, headers and values effects bring."""
    size = 0
    for effect in effects:
        if isinstance(effect, Enqueue):
            size += len(effect.job.payload) + len(effect.job.headers)
        elif isinstance(effect, Publish):
            size += len(effect.data)
        elif effect.value is not None:
            size += len(effect.value)
    return size
