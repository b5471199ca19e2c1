"""The only place that asks what time it is."""

import asyncio
import time
from datetime import UTC, datetime
from time import time_ns as wall_ns
from typing import Protocol

__all__ = ["SYSTEM", "Clock", "SystemClock", "moment", "wall_ns"]

_CLOCK = getattr(time, "CLOCK_BOOTTIME", None)


class Clock(Protocol):
    """Time as the rest of the house sees it, in whole microseconds."""

    def now(self) -> int:
        """Microseconds since 1970."""

    def steady(self) -> int:
        """Microseconds that only go forward, also while the machine is suspended where the system can tell."""

    async def sleep(self, duration: int) -> None:
        """Let this many microseconds pass."""


class SystemClock:
    """The clock of the machine."""

    def now(self) -> int:
        """Microseconds since 1970."""
        return wall_ns() // 1000

    def steady(self) -> int:
        """Microseconds that only go forward, also while the machine is suspended where the system can tell."""
        return (time.monotonic_ns() if _CLOCK is None else time.clock_gettime_ns(_CLOCK)) // 1000

    async def sleep(self, duration: int) -> None:
        """Let this many microseconds pass."""
        await asyncio.sleep(duration / 1_000_000)


SYSTEM = SystemClock()


def moment(micros: int) -> datetime:
    """Give microseconds since 1970 as a datetime in UTC."""
    return datetime.fromtimestamp(micros / 1_000_000, UTC)
