"""The right to one attempt: asking for it, holding it, giving it back with an outcome."""

from enum import StrEnum

import msgspec

from packhorse.errors import InvalidOption, TooManyEffects
from packhorse.model import caps
from packhorse.model.effect import Effect
from packhorse.model.ids import JobId, Token, check_id, new_token
from packhorse.model.job import LEASE, State
from packhorse.model.outcome import Outcome


class Share(msgspec.Struct, frozen=True):
    """How many jobs are wanted from a queue, and at most how many when others leave theirs (none: as many as are left)."""

    queue: str
    count: int
    most: int | None = None

    def __post_init__(self) -> None:
        caps.name("queue", self.queue)
        caps.within("share", self.count, 0, caps.ITEMS)
        if self.most is not None:
            caps.within("most", self.most, self.count, caps.ITEMS)


class Ask(msgspec.Struct, frozen=True):
    """A wish for jobs. Its token is its request id and the token of every lease in the answer."""

    worker: bytes
    shares: tuple[Share, ...]
    lease: int = LEASE
    token: Token = msgspec.field(default_factory=new_token)

    def __post_init__(self) -> None:
        check_id(self.worker)
        check_id(self.token)
        caps.span("lease", self.lease, caps.SHORTEST_LEASE)
        if len({share.queue for share in self.shares}) != len(self.shares):
            raise InvalidOption("shares", [share.queue for share in self.shares], "name each queue once")
        caps.within("sum of shares", self.total, 0, caps.ITEMS)

    @property
    def total(self) -> int:
        """How many jobs are wanted in all."""
        return sum(share.count for share in self.shares)


class Lease(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One attempt of one job, until it is settled, lost or runs out. ``ref`` is the store's own handle, 0 if unknown."""

    id: JobId
    token: Token
    until: int
    task: str
    queue: str
    payload: bytes
    headers: bytes
    priority: int
    attempt: int
    lost: int
    born: int
    lane: str | None = None
    parent: JobId | None = None
    ref: int = 0


class Settlement(msgspec.Struct, frozen=True, gc=False):
    """An outcome and its effects, to be written whole or not at all."""

    lease: Lease
    outcome: Outcome
    effects: tuple[Effect, ...] = ()

    def __post_init__(self) -> None:
        if len(self.effects) > caps.EFFECTS:
            raise TooManyEffects("effects", len(self.effects), caps.EFFECTS)


class Verdict(StrEnum):
    """What became of a settlement or a note."""

    WRITTEN = "written"
    REPEATED = "repeated"
    LOST = "lost"
    CONFLICT = "conflict"


class Renewed(StrEnum):
    """What became of a renewal."""

    KEPT = "kept"
    CANCELLING = "cancelling"
    LOST = "lost"
    BUSY = "busy"


class Lost(msgspec.Struct, frozen=True):
    """A lease that ran out and was taken back; ``state`` is where the job stands now."""

    id: JobId
    worker: bytes
    attempt: int
    lost: int
    state: State


class Exchange(msgspec.Struct, frozen=True):
    """The answer of an exchange, in the order of what was given."""

    verdicts: tuple[Verdict, ...]
    leases: tuple[Lease, ...]
    more: bool
    next_due: int | None
    now: int
