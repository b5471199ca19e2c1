"""A small keyed value with a version: the building block of schedules, once-keys, workflows and objects."""

import msgspec

DELIVERED = "packhorse.delivered"
CHUNKS = "packhorse.chunks"


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


def chunk_key(job: bytes, attempt: int, number: int) -> str:
    """Under which key of kind ``packhorse.chunks`` a piece of a job's result is kept."""
    return f"{job.hex()}/{attempt:06d}/{number:09d}"
