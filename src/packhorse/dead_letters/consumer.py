"""What consumes deaths: each death once, whichever process comes first."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from packhorse.model.death import Death
from packhorse.model.effect import Effect, Put
from packhorse.model.ids import JobId
from packhorse.model.limits import SECOND
from packhorse.model.record import Record
from packhorse.stores.contract import Store

CURSORS = "packhorse.death_cursors"
CURSOR_KEPT_US = 31 * 24 * 3600 * SECOND  # longer than dead jobs are kept, unless the user says otherwise


class DeathConsumer(Protocol):
    """Answers what is to be written because jobs have died.

    Its effects are written in one step with the cursor that says how far it has come, so that each death is consumed
    once. ``name`` names the cursor. A consumer that is ``repeatable`` writes the same effects for the same death, with
    the same ids: where it is not certain whether a death was consumed, it gets it once more.
    """

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def repeatable(self) -> bool: ...  # noqa: D102

    async def on_deaths(self, store: Store, deaths: Sequence[Death]) -> Sequence[Effect]:
        """Give at most 400 effects that follow from these deaths, of which there are at most 50."""


class DeathCursor(msgspec.Struct, frozen=True):
    """How far a consumer has come: an entry of the lifecycle of jobs, and how many deaths of the next one are consumed.

    ``at`` and ``job`` are the moment and the job of the last death that was consumed. They count where the lifecycle was
    trimmed before it was read: dead jobs that died later are found and consumed.
    """

    offset: int = 0
    deaths: int = 0
    at: int = 0
    job: str = ""

    def passed(self, at: int, job: JobId) -> "DeathCursor":
        """Give the cursor after a death; moments do not go back."""
        return max(
            self, msgspec.structs.replace(self, at=at, job=job.hex()), key=lambda cursor: (cursor.at, cursor.job)
        )

    def before(self, at: int, job: JobId) -> bool:
        """Whether a death comes after the last one that was consumed."""
        return (self.at, self.job) < (at, job.hex())


_DECODER = msgspec.json.Decoder(DeathCursor)


def cursor_of(record: Record | None) -> DeathCursor:
    """Read the cursor of a consumer; one that has none begins with the oldest death that is still known."""
    return DeathCursor() if record is None else _DECODER.decode(record.value)


def cursor_put(name: str, cursor: DeathCursor, record: Record | None, now: int) -> Put:
    """Write the cursor, unless another process has moved it."""
    expect = 0 if record is None else record.version
    return Put(CURSORS, name, msgspec.json.encode(cursor), expect=expect, expires=now + CURSOR_KEPT_US)
