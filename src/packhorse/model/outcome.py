"""How an attempt ended. Exactly one of these reaches the store."""

import msgspec

from packhorse.errors import InvalidOption
from packhorse.model import limits
from packhorse.model.job import KEEP_DEAD, KEEP_DONE, Failure, Retention
from packhorse.model.reason import DeadReason, WaitReason


class Done(msgspec.Struct, frozen=True, gc=False):
    """It worked."""

    result: bytes | None = None
    keep: Retention = KEEP_DONE

    def __post_init__(self) -> None:
        result = self.result
        if result is None or (result.isascii() and len(result) <= limits.RESULT and b"\0" not in result):
            return  # most results: without a call
        limits.text("result", result, limits.RESULT)


class Again(msgspec.Struct, frozen=True):
    """Run it again after a delay: a retry, a snooze, a hand-back. Uncharged, the attempt does not count."""

    delay: int = 0
    error: Failure | None = None
    charged: bool = True

    def __post_init__(self) -> None:
        limits.span("delay", self.delay)


class On(msgspec.Struct, frozen=True):
    """A record to wait for: there as soon as it exists with a version above ``after``."""

    kind: str
    key: str
    after: int = 0

    def __post_init__(self) -> None:
        limits.name("record kind", self.kind)
        limits.key("record key", self.key)


class Wait(msgspec.Struct, frozen=True):
    """Stand aside until something happens; the attempt does not count. ``children`` is how many in all must have ended."""

    reason: WaitReason
    on: On | None = None
    children: int = 0
    detail: str = ""

    def __post_init__(self) -> None:
        if self.reason is WaitReason.LANE:
            raise InvalidOption("wait", "lane", "only the store puts a job behind its lane")
        if (self.reason is WaitReason.CHILDREN) != (self.children > 0):
            raise InvalidOption("wait", self.reason.value, "waiting for children, and only that, names how many")
        if (self.reason is WaitReason.SIGNAL) != (self.on is not None):
            raise InvalidOption("wait", self.reason.value, "waiting for a signal, and only that, names a record")
        limits.within("children", self.children, 0, limits.CHILDREN)
        limits.words("detail", self.detail, limits.DETAIL)


class Dead(msgspec.Struct, frozen=True):
    """It failed for good and is kept for people to look at."""

    reason: DeadReason
    error: Failure
    keep: Retention = KEEP_DEAD


class Cancelled(msgspec.Struct, frozen=True):
    """It was cancelled: from outside, or by itself with words to be kept as its last failure."""

    keep: Retention = KEEP_DONE
    error: Failure | None = None


class Held(msgspec.Struct, frozen=True):
    """Write the effects and keep the lease; ``step`` rises by the caller's count, so a repeat is known as one.

    A step also records that the attempt has begun, which decides whether its loss counts.
    """

    step: int

    def __post_init__(self) -> None:
        limits.within("step", self.step, 1, 2**31 - 1)


End = Done | Again | Wait | Dead | Cancelled  # the lease is given up
Outcome = End | Held
