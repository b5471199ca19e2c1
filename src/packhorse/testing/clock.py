"""A clock that a test sets."""

import asyncio

START_US = 1_700_000_000_000_000


class TurnedClock:
    """A clock that stays at one time until ``turn`` or ``to`` moves it on; sleepers wake when it has passed their time."""

    def __init__(self, now: int = START_US) -> None:
        self._now, self._behind = now, 0
        self._turned = asyncio.Event()

    def now(self) -> int:
        """Microseconds since 1970."""
        return self._now - self._behind

    def steady(self) -> int:
        """Microseconds that only go forward."""
        return self._now

    async def sleep(self, duration: int) -> None:
        """Wait until the clock has been turned this far."""
        until = self._now + duration
        while self._now < until:
            await self._turned.wait()

    def turn(self, duration: int) -> None:
        """Move the clock on by microseconds."""
        self.to(self._now + duration)

    def to(self, moment: int) -> None:
        """Set the clock to this time in microseconds; it does not go back."""
        self._now = max(self._now, moment + self._behind)
        turned, self._turned = self._turned, asyncio.Event()
        turned.set()

    def set_back(self, duration: int) -> None:
        """Correct the wall clock by so many microseconds, as an operator or NTP does; steady time goes on."""
        self._behind += duration
