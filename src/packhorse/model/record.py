"""A small keyed value with a version: the building block of schedules, once-keys, workflows and objects."""

import msgspec

DELIVERED = "packhorse.delivered"
CHUNKS = "packhorse.chunks"
SEEN = "packhorse.seen"  # by queue: when its dead jobs were last looked at


class Record(msgspec.Struct, frozen=True):
    """A stored record. Its version rises with every write, and is never below the store's time of that write."""

    kind: str
    key: str
    value: bytes
    version: int
    due: int = 0
    expires: int = 0


def delivery_key(parent: bytes, child: bytes) -> str:
    """Under which key of kind ``packhorse.delivered`` a child's outcome is left for its parent."""
    return f"{parent.hex()}/{child.hex()}"


def chunk_key(job: bytes, fence: int, number: int) -> str:
    """Under which key of kind ``packhorse.chunks`` a piece of a job's result is kept: by the attempt that made it."""
    return f"{job.hex()}/{fence:017d}/{number:09d}"


def chunk_head(job: bytes) -> str:
    """Under which key it is kept which attempt makes pieces now."""
    return f"{job.hex()}/now"
