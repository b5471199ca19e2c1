"""Events of streams, and how the lifecycle of jobs is packed into one of them per call."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

import msgspec

from packhorse.errors import UndecodablePayload
from packhorse.model.ids import JobId

LIFECYCLE = "packhorse.jobs"
LOSSES = "packhorse.lost"  # which worker held each lease that was lost
LIFECYCLE_MAX_EVENTS = 10_000
LIFECYCLE_MAX_BYTES = 16 << 20  # of packed events; an exchange of 1,000 jobs packs 16 KiB
VERSION = 1  # of the packed form


class Event(msgspec.Struct, frozen=True):
    """One entry of a stream. Offsets rise by one."""

    stream: str
    offset: int
    at: int
    data: bytes
    key: str | None = None


class StreamBounds(NamedTuple):
    """The offsets of the first and the last event kept; in a stream without events ``first`` is ``last + 1``."""

    first: int
    last: int


class Change(StrEnum):
    """What happened to jobs, in the order in which one call does it: it settles, then enqueues, then leases.

    The value is the letter that stands for it in the packed form.
    """

    LOST = "l"
    HELD = "h"
    DONE = "d"
    AGAIN = "r"
    WAITING = "w"
    DEAD = "k"
    CANCELLED = "c"
    REPLAYED = "p"
    PROMOTED = "u"
    ENQUEUED = "q"
    CLAIMED = "s"


_IN_ORDER = tuple(Change)  # to go through an enum is slow


def pack(changes: Mapping[Change, Iterable[JobId]]) -> bytes:
    """The version, then for each change that happened, in their order: its letter, how many (two bytes, big-endian), the ids.

    Each store packs in its own language; that all make the same bytes is a test of the contract.
    """
    out = bytearray((VERSION,))
    for change in _IN_ORDER:
        if change in changes and (ids := b"".join(changes[change])):
            out += change.value.encode() + (len(ids) // 16).to_bytes(2, "big") + ids
    return bytes(out) if len(out) > 1 else b""


def unpack(data: bytes) -> list[tuple[Change, JobId]]:
    """The changes in a packed event, in order."""
    if not data:
        raise UndecodablePayload("This packed event of jobs is empty")
    if data[0] != VERSION:
        raise UndecodablePayload(
            f"This packed event of jobs is of another version ({data[0]}): read it with a newer release"
        )
    changes, at = [], 1
    try:
        while at < len(data):
            change, count = Change(chr(data[at])), int.from_bytes(data[at + 1 : at + 3], "big")
            at += 3
            changes += [(change, data[at + 16 * n : at + 16 * n + 16]) for n in range(count)]
            at += 16 * count
    except (ValueError, IndexError) as error:
        raise UndecodablePayload("This is not a packed event of jobs") from error
    if at != len(data):
        raise UndecodablePayload("This packed event of jobs is cut short")
    return changes
