"""The right to one attempt: asking for it, holding it, giving it back with an outcome."""

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from packhorse.errors import InvalidOption, TooManyEffects
from packhorse.model import limits
from packhorse.model.effect import Effect, bytes_of
from packhorse.model.ids import JobId, Token, check_id, new_token
from packhorse.model.job import LEASE_US, State
from packhorse.model.outcome import Outcome


class Share(msgspec.Struct, frozen=True):
    """How many jobs are wanted from a queue, and at most how many when others leave theirs (none: as many as are left)."""

    queue: str
    count: int
    limit: int | None = None

    def __post_init__(self) -> None:
        limits.name("queue", self.queue)
        limits.within("share", self.count, 0, limits.ITEMS)
        if self.limit is not None:
            limits.within("limit", self.limit, self.count, limits.ITEMS)


class ClaimRequest(msgspec.Struct, frozen=True):
    """A request for jobs. Its token is its request id and the token of every lease in the answer.

    ``number`` rises with every ask of a worker: a copy that arrives after a later ask gets nothing. ``again`` marks a
    repeat, whose first copy may still be under way: a store remembers it even if it gets nothing. ``max_bytes`` bounds
    payloads and headers of all leases together; the first lease may be larger.
    """

    worker: bytes
    shares: tuple[Share, ...]
    lease: int = LEASE_US
    token: Token = msgspec.field(default_factory=new_token)
    number: int = 0
    again: bool = False
    max_bytes: int = limits.EXCHANGE_BYTES

    def __post_init__(self) -> None:
        check_id(self.worker)
        check_id(self.token)
        limits.span("lease", self.lease, limits.STORE_MIN_LEASE_US)
        limits.within("max_bytes", self.max_bytes, 1, limits.EXCHANGE_BYTES)
        if len({share.queue for share in self.shares}) != len(self.shares):
            raise InvalidOption("shares", [share.queue for share in self.shares], "name each queue once")
        limits.within("sum of shares", self.total, 0, limits.ITEMS)

    @property
    def total(self) -> int:
        """How many jobs are wanted in all."""
        return sum(share.count for share in self.shares)


class Lease(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One attempt of one job, until it is settled, lost or runs out. ``ref`` is the store's own handle, 0 if unknown.

    ``claimed`` is when it was given. ``fence`` is higher than that of every earlier lease of the job. ``fault`` says why the
    record cannot be opened; then only id, token, claimed, until, attempt, losses and fence are right.
    """

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
    enqueued_at: int
    lane: str | None = None
    parent: JobId | None = None
    claimed: int = 0
    ref: int = 0
    fence: int = 0
    fault: str = ""


class Settlement(msgspec.Struct, frozen=True, gc=False):
    """An outcome and its effects, to be written whole or not at all."""

    lease: Lease
    outcome: Outcome
    effects: tuple[Effect, ...] = ()

    def __post_init__(self) -> None:
        if len(self.effects) > limits.EFFECTS:
            raise TooManyEffects("effects", len(self.effects), limits.EFFECTS)
        if self.effects:
            limits.total("effects", bytes_of(self.effects))


def bounded_parts(settlements: Sequence[Settlement]) -> list[list[Settlement]]:
    """Settlements in order, in as few parts as calls may bring that are bounded like an exchange."""
    made: list[list[Settlement]] = []
    count = effects = size = 0
    for settlement in settlements:
        count, effects = count + 1, effects + len(settlement.effects)
        size += bytes_of(settlement.effects)
        if not made or count > limits.ITEMS or effects > limits.EFFECTS_PER_CALL or size > limits.EXCHANGE_BYTES:
            made.append([])
            count, effects, size = 1, len(settlement.effects), bytes_of(settlement.effects)
        made[-1].append(settlement)
    return made


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
    """A lease that ran out and was taken back, with the attempts, losses and state of its job afterwards."""

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
