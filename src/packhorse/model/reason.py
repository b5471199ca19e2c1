"""Why a job waits and why it died: closed lists, so that every standstill can be explained."""

from enum import StrEnum


class WaitReason(StrEnum):
    """Why a job is waiting. Those in ``UNUSED`` belong to parts that do not exist yet."""

    CHILDREN = "children"
    SIGNAL = "signal"
    LANE = "lane"
    LIMIT = "limit"
    CIRCUIT = "circuit"
    UNROUTABLE = "unroutable"
    VERSION = "version"
    INTERVENTION = "intervention"


class DeadReason(StrEnum):
    """Why a job is dead. Those in ``UNUSED`` belong to parts that do not exist yet."""

    EXHAUSTED = "exhausted"
    FINAL = "final"
    POISON = "poison"
    UNDECODABLE = "undecodable"
    SIGNATURE = "signature"
    EXPIRED = "expired"


Reason = WaitReason | DeadReason
_REASONS: dict[str, Reason] = {reason.value: reason for reason in (*WaitReason, *DeadReason)}


def reason_of(stored: str | None) -> Reason | None:
    """Read a stored reason; one that this release does not know is left out."""
    return None if stored is None else _REASONS.get(stored)


UNUSED: frozenset[Reason] = frozenset({
    WaitReason.SIGNAL,
    WaitReason.LIMIT,
    WaitReason.CIRCUIT,
    WaitReason.VERSION,
    DeadReason.SIGNATURE,
    DeadReason.EXPIRED,
})  # fmt: skip
