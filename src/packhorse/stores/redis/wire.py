"""One line to the server: the driver makes it and logs in, then requests go out as bytes and answers come in order.

A call through the driver's streams costs more than what the server does for it. Here it is a write and one future.
A large request is written in pieces, as fast as the server takes them, so that the loop is free in between. Time limits
are limits of silence: as long as bytes move, in either direction, nobody gives up.
Whoever gives up waiting leaves its place in the order, so its answer is thrown away when it comes and the line stays in
step. What goes wrong is an answer too: a line that breaks gives its error to all who wait.
"""

import asyncio
import math
from collections import deque
from collections.abc import Callable
from typing import Any

from hiredis import Reader, pack_command
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ConnectionError as Disconnected
from redis.exceptions import InvalidResponse, NoScriptError, RedisError

from packhorse.stores.redis.refusals import not_reached
from packhorse.stores.sockets import show_progress

PING = pack_command(("PING",))
PIECE = 256 << 10  # bytes given to the transport at once
_NOTHING = object()  # the parser's word for an answer that is not there yet


class _Left:
    """Stands where somebody has waited. It hears at once, not in the next turn of the loop: the line may be closed then."""

    def __init__(self, wire: "Wire", whole: Callable[[], bytes], limit: float) -> None:
        self._wire, self._whole, self._limit = wire, whole, limit

    def done(self) -> bool:
        """Never: it is still to hear the answer."""
        return False

    def set_result(self, said: Any) -> None:
        """Hear the answer."""
        if isinstance(said, NoScriptError):
            self._wire.send(self._whole(), self._limit)


class Wire(asyncio.Protocol):
    """Takes over what the driver has connected."""

    def __init__(self, connection: AbstractConnection) -> None:
        reader, self._writer = connection._reader, connection._writer
        connection._reader = connection._writer = None  # nobody else reads from it, or hangs up when it is let go
        if reader is None or self._writer is None:
            raise not_reached(Disconnected("Connection closed by server."))
        self._loop = asyncio.get_running_loop()
        self._answers = Reader(
            protocolError=InvalidResponse,
            replyError=connection._parser.parse_error,
            notEnoughData=_NOTHING,
        )
        self._expected: deque[tuple[asyncio.Future[Any] | _Left, float, float]] = deque()  # its deadline and its limit
        self._unsent: deque[memoryview] = deque()
        self._full = False  # the transport takes no more for now
        self._moved = -math.inf  # when bytes last moved while an answer was expected
        self._unasked: deque[Any] = deque()
        self._error: Exception | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._due = math.inf
        self._lost = self._loop.create_future()
        self._transport = self._writer.transport
        self._transport.set_protocol(self)
        show_progress(self._transport)
        if reader.at_eof() or reader._buffer:  # type: ignore[attr-defined]
            self._transport.abort()
            raise not_reached(Disconnected("The server hung up, or spoke unasked."))

    @property
    def stands(self) -> bool:
        """Whether a request may be sent: better known before than after that the server hung up, or said too much."""
        return self._error is None and not self._unasked and not self._transport.is_closing()

    @property
    def busy(self) -> bool:
        """Whether answers are still to come, perhaps for nobody."""
        return bool(self._expected)

    def send(self, request: bytes, limit: float) -> asyncio.Future[Any]:
        """Send a request; its answer, refusals and broken lines too, is the result. The limit is in seconds of silence."""
        answer = self.expect(limit)
        if self._error is None:
            self._write(request)
        return answer

    def _write(self, request: bytes) -> None:
        if len(request) <= PIECE and not self._unsent:
            self._transport.write(request)
            return
        self._unsent.append(memoryview(request))
        self._write_pieces()

    def _write_pieces(self) -> None:
        while self._unsent and not self._full:
            request = self._unsent.popleft()
            if len(request) > PIECE:
                self._unsent.appendleft(request[PIECE:])
            self._transport.write(request[:PIECE])

    def expect(self, limit: float) -> asyncio.Future[Any]:
        """The answer after those that are expected already."""
        answer: asyncio.Future[Any] = self._loop.create_future()
        if self._unasked:
            answer.set_result(self._unasked.popleft())
        elif self._error is not None:
            answer.set_result(self._error)
        else:
            deadline = self._loop.time() + limit
            self._expected.append((answer, deadline, limit))
            if deadline < self._due:
                self._arm(deadline)
        return answer

    def leave(self, answer: asyncio.Future[Any], whole: Callable[[], bytes], limit: float) -> None:
        """Nobody waits for this answer any more; a script that the server turns out not to have is still sent to it."""
        left = _Left(self, whole, limit)
        if not answer.cancelled():
            left.set_result(answer.result())  # it came just before its caller went
        for place, (expected, deadline, its) in enumerate(self._expected):
            if expected is answer:
                self._expected[place] = (left, deadline, its)

    async def caught_up(self, limit: float) -> None:
        """Wait until no answer is to come any more; the server answers in order."""
        while self.busy:
            await self.send(PING, limit)

    def ping(self) -> None:
        """Make the server say something; it is heard by who expects something already."""
        if self._error is None:
            self._write(PING)

    def hang_up(self) -> None:
        """The end of the line, for those who still wait as well."""
        if self._error is None:
            self._fail(Disconnected("The connection was given up."))

    async def hung_up(self) -> None:
        """Wait until nothing is left of the line."""
        await self._lost

    def _arm(self, deadline: float) -> None:
        """One alarm for all: it is set again when it rings too early, which is cheaper than one for each call."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._due, self._alarm = deadline, self._loop.call_at(deadline, self._look)

    def _look(self) -> None:
        self._due, self._alarm = math.inf, None
        if self._expected:
            deadline = min([max(deadline, self._moved + limit) for _, deadline, limit in self._expected])
            if deadline <= self._loop.time():
                self._fail(TimeoutError("no answer in time"))
            else:
                self._arm(deadline)

    def _fail(self, error: Exception) -> None:
        self._error = self._error or error
        expected, self._expected = self._expected, deque()
        for answer, *_ in expected:
            if not answer.done():
                answer.set_result(self._error)
        self._unsent.clear()
        self._transport.abort()

    # -- called by the transport

    def data_received(self, data: bytes) -> None:
        """Give answers to those who expect them, in order."""
        self._answers.feed(data)
        try:
            while (said := self._answers.gets()) is not _NOTHING:
                if self._expected:
                    answer, _, _ = self._expected.popleft()
                    if not answer.done():
                        answer.set_result(said)
                else:
                    self._unasked.append(said)
        except RedisError as error:
            self._fail(error)
        if self._expected:
            self._moved = self._loop.time()

    def pause_writing(self) -> None:
        """Keep what is unsent."""
        self._full = True

    def resume_writing(self) -> None:
        """Send more of it: the server has taken what it was sent."""
        self._full, self._moved = False, self._loop.time()
        self._write_pieces()

    def eof_received(self) -> None:
        """The server hung up."""
        self._fail(Disconnected("Connection closed by server."))

    def connection_lost(self, error: Exception | None) -> None:
        """Nothing comes any more."""
        self._fail(Disconnected(str(error or "Connection closed by server.")))
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if not self._lost.done():
            self._lost.set_result(None)


async def heard(answer: "asyncio.Future[Any]") -> Any:
    """The answer, or the error that it is."""
    said = await answer
    if isinstance(said, Exception):
        raise said
    return said
