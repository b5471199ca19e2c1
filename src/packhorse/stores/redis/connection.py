"""A connection to the server that sends requests as bytes and matches replies in order.

The driver connects and logs in. A call through the driver's streams costs more than the server's work for it; here a
call is a write and a future. A large request is written in pieces as fast as the server reads them, so that the loop is
free in between. A timeout is a limit of silence: while bytes move in either direction, no call times out.
The reply of a cancelled caller is discarded when it comes, so later replies still match their requests. Errors are
replies too: when a connection breaks, every caller gets the error as its reply.
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

from packhorse.stores.redis.errors import not_reached
from packhorse.stores.sockets import show_progress

PING = pack_command(("PING",))
PIECE = 256 << 10  # bytes given to the transport at once
_NO_REPLY = object()  # what the parser returns while a reply is incomplete


class _AbandonedReply:
    """Placeholder for a cancelled caller's reply.

    It is resolved synchronously, because the connection may be closed by the next iteration of the loop.
    """

    def __init__(self, connection: "Connection", whole: Callable[[], bytes], limit: float) -> None:
        self._connection, self._whole, self._limit = connection, whole, limit

    def done(self) -> bool:
        """Return False: the reply is still to come."""
        return False

    def set_result(self, reply: Any) -> None:
        """Send the whole script if the server does not have it; discard any other reply."""
        if isinstance(reply, NoScriptError):
            self._connection.send(self._whole(), self._limit)


class Connection(asyncio.Protocol):
    """Sends requests and matches replies on a socket that the driver has connected."""

    def __init__(self, connection: AbstractConnection) -> None:
        reader, self._writer = connection._reader, connection._writer
        connection._reader = connection._writer = None  # the driver neither reads from it nor closes it
        if reader is None or self._writer is None:
            raise not_reached(Disconnected("Connection closed by server."))
        self._loop = asyncio.get_running_loop()
        self._parser = Reader(
            protocolError=InvalidResponse,
            replyError=connection._parser.parse_error,
            notEnoughData=_NO_REPLY,
        )
        self._expected: deque[tuple[asyncio.Future[Any] | _AbandonedReply, float, float]] = (
            deque()
        )  # each with its deadline and its limit
        self._unsent: deque[memoryview] = deque()
        self._full = False  # whether the buffer of the transport is full
        self._last_progress = -math.inf  # when bytes last moved while a reply was expected
        self._unexpected: deque[Any] = deque()
        self._error: Exception | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf
        self._closed = self._loop.create_future()
        self._transport = self._writer.transport
        self._transport.set_protocol(self)
        show_progress(self._transport)
        if reader.at_eof() or reader._buffer:  # type: ignore[attr-defined]
            self._transport.abort()
            raise not_reached(Disconnected("The server closed the connection, or sent something unexpected."))

    @property
    def usable(self) -> bool:
        """Whether a request may be sent: the connection is open and no unexpected reply came."""
        return self._error is None and not self._unexpected and not self._transport.is_closing()

    @property
    def busy(self) -> bool:
        """Whether replies are still to come, perhaps only those of cancelled callers."""
        return bool(self._expected)

    async def call(self, request: bytes, whole: Callable[[], bytes], limit: float) -> Any:
        """Send a request behind all others and return its reply, which may be an error.

        If the caller is cancelled, a script that the server turns out not to have is still sent whole.
        """
        if self.busy:  # a cancelled call may be sent once more: it must not run after this one
            await self.wait_until_idle(limit)
        reply = self.send(request, limit)
        try:
            return await reply
        except asyncio.CancelledError:
            self.abandon(reply, whole, limit)
            raise

    def send(self, request: bytes, limit: float) -> asyncio.Future[Any]:
        """Send a request and return the future of its reply; ``limit`` is in seconds of silence."""
        reply = self.expect(limit)
        if self._error is None:
            self._write(request)
        return reply

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
        """Return the future of the next reply, after those that are expected already."""
        reply: asyncio.Future[Any] = self._loop.create_future()
        if self._unexpected:
            reply.set_result(self._unexpected.popleft())
        elif self._error is not None:
            reply.set_result(self._error)
        else:
            deadline = self._loop.time() + limit
            self._expected.append((reply, deadline, limit))
            if deadline < self._timer_at:
                self._set_timer(deadline)
        return reply

    def abandon(self, reply: asyncio.Future[Any], whole: Callable[[], bytes], limit: float) -> None:
        """Discard the reply of a cancelled caller, but send the whole script if the server lacks it."""
        abandoned = _AbandonedReply(self, whole, limit)
        if not reply.cancelled():
            abandoned.set_result(reply.result())  # it came just before the caller was cancelled
        for index, (expected, deadline, its_limit) in enumerate(self._expected):
            if expected is reply:
                self._expected[index] = (abandoned, deadline, its_limit)

    async def wait_until_idle(self, limit: float) -> None:
        """Wait until all replies have come, those of cancelled callers too; the server replies in order."""
        while self.busy:
            await self.send(PING, limit)

    def ping(self) -> None:
        """Make the server send something; the caller who expects a message receives the reply."""
        if self._error is None:
            self._write(PING)

    def close(self) -> None:
        """Close the connection; callers who wait for a reply get an error."""
        if self._error is None:
            self._fail(Disconnected("The connection was given up."))

    async def wait_closed(self) -> None:
        """Wait until the socket is closed."""
        await self._closed

    def _set_timer(self, deadline: float) -> None:
        """Set the timer of all calls: to set it again if it fires early is cheaper than one for each call."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at, self._timer = deadline, self._loop.call_at(deadline, self._check_deadlines)

    def _check_deadlines(self) -> None:
        self._timer_at, self._timer = math.inf, None
        if self._expected:
            deadline = min([max(deadline, self._last_progress + limit) for _, deadline, limit in self._expected])
            if deadline <= self._loop.time():
                self._fail(TimeoutError("no answer in time"))
            else:
                self._set_timer(deadline)

    def _fail(self, error: Exception) -> None:
        self._error = self._error or error
        expected, self._expected = self._expected, deque()
        for reply, *_ in expected:
            if not reply.done():
                reply.set_result(self._error)
        self._unsent.clear()
        self._transport.abort()

    # -- called by the transport

    def data_received(self, data: bytes) -> None:
        """Resolve expected replies in order."""
        self._parser.feed(data)
        try:
            while (reply := self._parser.gets()) is not _NO_REPLY:
                if self._expected:
                    expected, _, _ = self._expected.popleft()
                    if not expected.done():
                        expected.set_result(reply)
                else:
                    self._unexpected.append(reply)
        except RedisError as error:
            self._fail(error)
        if self._expected:
            self._last_progress = self._loop.time()

    def pause_writing(self) -> None:
        """Hold back unsent pieces: the buffer of the transport is full."""
        self._full = True

    def resume_writing(self) -> None:
        """Send more pieces: the server has read what it was sent."""
        self._full, self._last_progress = False, self._loop.time()
        self._write_pieces()

    def eof_received(self) -> None:
        """Fail all calls: the server closed the connection."""
        self._fail(Disconnected("Connection closed by server."))

    def connection_lost(self, error: Exception | None) -> None:
        """Fail all calls: the socket is closed."""
        self._fail(Disconnected(str(error or "Connection closed by server.")))
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._closed.done():
            self._closed.set_result(None)


async def value_of(reply: "asyncio.Future[Any]") -> Any:
    """Return the reply, or raise it if it is an error."""
    value = await reply
    if isinstance(value, Exception):
        raise value
    return value
