"""Why a job waits and why it died: closed lists, so that every standstill can be explained."""

from enum import StrEnum


class WaitReason(StrEnum):
    """Why a job is waiting."""

    CHILDREN = "children"
    SIGNAL = "signal"
    LANE = "lane"
    LIMIT = "limit"
    CIRCUIT = "circuit"
    UNROUTABLE = "unroutable"
    VERSION = "version"
    PAUSED = "paused"
    INTERVENTION = "intervention"


class DeadReason(StrEnum):
    """Why a job is dead."""

    EXHAUSTED = "exhausted"
    FINAL = "final"
    POISON = "poison"
    UNDECODABLE = "undecodable"
    SIGNATURE = "signature"
    EXPIRED = "expired"
