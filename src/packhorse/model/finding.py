"""What is in force below a store, found by looking, and what to do about it."""

from enum import StrEnum

import msgspec


class Grade(StrEnum):
    """How good a finding is: as it should be, worth knowing, to be changed soon, not to be lived with."""

    OK = "ok"
    NOTE = "note"
    WARN = "warn"
    BAD = "bad"


class Finding(msgspec.Struct, frozen=True):
    """One thing that was looked at; what is not as it should be comes with advice."""

    name: str
    value: str
    grade: Grade = Grade.OK
    advice: str = ""


class Durability(StrEnum):
    """The worst that acknowledged work survives: nothing but its caller, a killed server, a power cut, a lost host."""

    MEMORY = "memory"
    PROCESS = "process"
    OS = "os"
    REPLICATED = "replicated"


def durability(kept: Durability, words: str, grade: Grade = Grade.OK, advice: str = "") -> Finding:
    """The class in force, and in words what is lost when."""
    return Finding("durability", f"{kept}: {words}", grade, advice)


def skew(host: int, server: int) -> Finding:
    """How far the clocks of host and server are apart (microseconds)."""
    apart = (server - host) / 1_000_000
    value = f"{apart:+.3f} s"
    if abs(apart) < 1:
        return Finding("clock skew", value)
    advice = "the server's clock rules for jobs; keep both in step with NTP, or moments computed here are off"
    return Finding("clock skew", value, Grade.WARN, advice)


def size(count: float) -> str:
    """A number of bytes as people read it."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"
