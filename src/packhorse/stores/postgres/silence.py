"""Time limits of silence: the driver's own are for a whole call, and a large one may take longer on a slow link."""

import asyncio
import math
from collections.abc import Sequence
from typing import Any

import asyncpg

from packhorse.stores.sockets import show_progress

CHECKS_PER_LIMIT = 8  # in the time of a limit


class WatchedConnection(asyncpg.Connection):
    """A connection that knows when bytes last came in, and how many still have to go out."""

    def __init__(self, protocol: Any, transport: Any, *rest: Any) -> None:
        super().__init__(protocol, transport, *rest)
        self.incoming = _Incoming(protocol)
        transport.set_protocol(self.incoming)
        show_progress(transport)

    @property
    def unsent(self) -> int:
        """Bytes that the system has not taken yet."""
        return int(self._transport.get_write_buffer_size())  # type: ignore[attr-defined]


class _Incoming(asyncio.Protocol):
    """Stands before the driver's protocol."""

    def __init__(self, driver: Any) -> None:
        self.last = -math.inf
        self._driver, self._time = driver, asyncio.get_running_loop().time

    def data_received(self, data: bytes) -> None:
        """Pass it on."""
        self.last = self._time()
        self._driver.data_received(data)

    def eof_received(self) -> bool | None:
        """Pass it on."""
        return self._driver.eof_received()  # type: ignore[no-any-return]

    def connection_lost(self, error: Exception | None) -> None:
        """Pass it on."""
        self._driver.connection_lost(error)

    def pause_writing(self) -> None:
        """Pass it on."""
        self._driver.pause_writing()

    def resume_writing(self) -> None:
        """Pass it on."""
        self._driver.resume_writing()


class _Watch:
    """Ends a call once its line has been silent for so many seconds; looks several times in between."""

    def __init__(self, line: WatchedConnection, limit: float, timeout: asyncio.Timeout) -> None:
        self._line, self._limit, self._timeout = line, limit, timeout
        self._loop = asyncio.get_running_loop()
        self._moved, self._unsent = self._loop.time(), 0
        self.timer = self._loop.call_at(self._moved + limit / CHECKS_PER_LIMIT, self._look)

    def _look(self) -> None:
        now, unsent = self._loop.time(), self._line.unsent
        self._moved = now if unsent != self._unsent else max(self._moved, self._line.incoming.last)
        self._unsent = unsent
        if self._moved + self._limit <= now:
            self._timeout.reschedule(now)
        else:
            self.timer = self._loop.call_at(now + self._limit / CHECKS_PER_LIMIT, self._look)


async def fetch(line: Any, sql: str, params: Sequence[object], limit: float) -> list[asyncpg.Record]:
    """The rows of a statement; a TimeoutError after so many seconds of silence."""
    async with asyncio.timeout(None) as timeout:
        watch = _Watch(line, limit, timeout)
        try:
            rows: list[asyncpg.Record] = await line.fetch(sql, *params)
            return rows
        finally:
            watch.timer.cancel()
