"""A step of a store's layout, as it is shown to people."""

from enum import StrEnum

import msgspec


class MigrationState(StrEnum):
    """Whether a step is taken, still to take, changed after it was taken, or known only to a newer release."""

    TAKEN = "taken"
    PENDING = "pending"
    CHANGED = "changed"
    UNKNOWN = "unknown"


class MigrationStep(msgspec.Struct, frozen=True):
    """One step: its name, its text, its state, and whether older releases work with it. An unknown one has no text."""

    name: str
    text: str
    state: MigrationState
    compatible: bool = False

    @property
    def usable(self) -> bool:
        """Whether this release can work with a layout that has this step in this state."""
        if self.state is MigrationState.UNKNOWN:
            return self.compatible
        return self.state is MigrationState.TAKEN
