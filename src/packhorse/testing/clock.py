"""A clock that the test turns."""

import asyncio

START = 1_700_000_000_000_000


class TurnedClock:
    """Stands still until it is turned; sleepers wake when their moment has come."""

    def __init__(self, now: int = START) -> None:
        self._now = now
        self._turned = asyncio.Event()

    def now(self) -> int:
        """Microseconds since 1970."""
        return self._now

    def steady(self) -> int:
        """Microseconds that only go forward."""
        return self._now

    async def sleep(self, duration: int) -> None:
        """Wait until the clock has been turned this far."""
        until = self._now + duration
        while self._now < until:
            await self._turned.wait()

    def turn(self, duration: int) -> None:
        """Let microseconds pass."""
        self.to(self._now + duration)

    def to(self, moment: int) -> None:
        """Make it this moment; the clock does not go back."""
        self._now = max(self._now, moment)
        turned, self._turned = self._turned, asyncio.Event()
        turned.set()
