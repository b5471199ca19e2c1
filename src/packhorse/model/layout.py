"""A step of a store's layout, as people look at it."""

from enum import StrEnum

import msgspec


class Standing(StrEnum):
    """How a step stands: taken, still to take, changed after it was taken, or of a release that is newer than this."""

    TAKEN = "taken"
    PENDING = "pending"
    CHANGED = "changed"
    UNKNOWN = "unknown"


class Step(msgspec.Struct, frozen=True):
    """One step: its name, what it does, how it stands. The text of an unknown one is not known."""

    name: str
    text: str
    standing: Standing
