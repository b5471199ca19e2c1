"""A pool of connections to the server; calls have a timeout and are repeated where that can help."""

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import Any

from hiredis import pack_command  # redis-py packs in Python: a quarter of a profiled exchange
from redis.exceptions import ConnectionError as Disconnected
from redis.exceptions import NoScriptError, ResponseError

from packhorse.errors import DurabilityNotMet, StoreClosed, StoreUnavailable
from packhorse.model import backoff
from packhorse.model.clock import SYSTEM
from packhorse.stores.redis.address import RedisAddress
from packhorse.stores.redis.connection import Connection
from packhorse.stores.redis.errors import ErrorKind, NotReached, broken, code_of, kind_of, may_be_elsewhere, refused
from packhorse.stores.redis.scripts import Script
from packhorse.stores.redis.topology import BROKEN, topology_of

CALL_TIMEOUT_SECONDS = 4  # of silence
POOL_SIZE = 8
MAX_TRIES = 6
# Verbs whose callers are promised that something is stored. What workers write does not wait for replicas: a settlement
# that a failover loses is lost with its effects, and the job runs again.
DURABLE_VERBS = frozenset(
    (
        "enqueue",
        "enqueue_plain",
        "put",
        "drop_records",
        "publish",
        "cancel",
        "replay",
        "promote",
        "drop",
        "pause",
        "resume",
    )
)
DECLINED = None  # the reply of a fast path that leaves the call to the script of the verb
_RETRY_BACKOFF = backoff.exponential(0.05, cap=1, jitter=0.5)
WholeRequest = Callable[[], bytes]  # makes the request with the text of its script


def evalsha(script: Script, keys: tuple[str, ...], *arguments: Any) -> bytes:
    """Return the request that runs a script by its checksum."""
    request: bytes = pack_command(("EVALSHA", script.sha, len(keys), *keys, *arguments))
    return request


def randomness() -> float:
    """Return a number from 0 to 1, so that clients do not try again all at once."""
    return os.urandom(1)[0] / 255


class ConnectionPool:
    """Opens as many connections as are needed at once, up to a limit; further calls wait for one of them."""

    def __init__(self, address: RedisAddress, tag: str) -> None:
        self._topology = topology_of(address, tag)
        self.replicas, self._replica_timeout_ms = address.replicas, address.patience // 1000
        self._known = False  # whether the server ever answered a call with a value
        self._idle: list[Connection] = []
        self._lent: set[Connection] = set()
        self._turns = asyncio.Semaphore(POOL_SIZE)
        self._calls = 0
        self._no_calls: asyncio.Event | None = None  # set when no call runs; made when the pool is closed
        self._process: int | None = None

    def open(self) -> None:
        """Accept calls, in this process only."""
        self._process = os.getpid()

    def is_closed(self) -> bool:
        """Return whether calls are refused."""
        return self._process != os.getpid()

    async def close(self) -> None:
        """Wait for running calls, then close all connections, those lent to listeners too."""
        ours, self._process = not self.is_closed(), None
        try:
            if ours:
                async with asyncio.timeout(CALL_TIMEOUT_SECONDS):
                    await self._wait_for_calls()
        except TimeoutError:
            pass  # closing does not wait longer than this
        finally:
            connections = (*self._idle, *self._lent)
            self._idle.clear()
            if ours:
                await _close_all(connections)

    async def _wait_for_calls(self) -> None:
        """Wait for running calls, and for cancelled ones that the server still runs."""
        if self._calls:
            self._no_calls = asyncio.Event()
            await self._no_calls.wait()
        for connection in self._idle:
            await connection.wait_until_idle(CALL_TIMEOUT_SECONDS)

    async def connect(self) -> Connection:
        """Return a connection outside the pool, for a listener; give it back with ``close_connection``."""
        self._refuse_if_closed()
        connection = await self._topology.connect()
        self._lent.add(connection)
        return connection

    def close_connection(self, connection: Connection) -> None:
        """Close a connection outside the pool."""
        self._lent.discard(connection)
        connection.close()

    async def denied(self, *commands: tuple[Any, ...]) -> list[str]:
        """Return the names of the commands that the server denies this user."""
        names = []
        try:
            connection = await self.connect()
        except BROKEN as error:
            raise refused(error, known=self._known) from error
        try:
            for command in commands:
                reply = await connection.send(pack_command(command), CALL_TIMEOUT_SECONDS)
                if isinstance(reply, ResponseError):
                    if kind_of(reply) is ErrorKind.LOGIN:
                        names.append(command[0])
                elif isinstance(reply, Exception):
                    raise reply
        except BROKEN as error:
            self.report(error)
            raise broken(error, writes=False) from error
        finally:
            self.close_connection(connection)
        return names

    def report(self, error: BaseException) -> None:
        """Look for the primary again if this error of a connection means that it may have moved."""
        self._topology.report(error)

    async def read(self, *command: Any) -> Any:
        """Send a command that changes nothing, and return its reply."""
        request = pack_command(command)
        return await self._call(request, lambda: request, writes=False)

    async def run(self, script: Script, keys: tuple[str, ...], *arguments: Any) -> Any:
        """Run a script by its checksum, or by its text if the server does not have it."""
        writes, durable = script.writes, bool(self.replicas) and script.name in DURABLE_VERBS

        def whole() -> bytes:
            text: bytes = pack_command(("EVAL", script.text, len(keys), *keys, *arguments))
            return text

        try:
            request = evalsha(script, keys, *arguments)
            return await self._call(request, whole, writes=writes, durable=durable)
        except NoScriptError:
            return await self._call(whole(), whole, writes=writes, durable=durable)

    def _refuse_if_closed(self) -> None:
        if self.is_closed():
            raise StoreClosed(
                "This store is not open in this process: call `await store.open()` in the process that uses it"
            )

    async def _call(self, request: bytes, whole: WholeRequest, *, writes: bool, durable: bool = False) -> Any:
        """Call the server; try again, a few times, while it is loading, busy or without its primary."""
        self._refuse_if_closed()
        self._calls += 1
        try:
            for attempt in range(1, MAX_TRIES + 1):
                try:
                    return await self._call_once(request, whole, writes=writes, durable=durable)
                except NoScriptError:
                    raise
                except (ResponseError, Disconnected) as error:  # LOADING and the like come as the latter
                    if attempt == MAX_TRIES or not self._worth_repeating(error):
                        raise refused(error, known=self._known) from error
                    if code_of(error) == "MOVED" and attempt == 1:
                        continue  # the error names the server to ask
                except NotReached as error:
                    if attempt == MAX_TRIES or not self._topology.moves:
                        raise StoreUnavailable(str(error)) from error.__cause__
                await SYSTEM.sleep(_RETRY_BACKOFF.delay(attempt, randomness()))
            raise AssertionError("the last try returns or raises")
        finally:
            self._calls -= 1
            if self._no_calls is not None and not self._calls:
                self._no_calls.set()

    def _worth_repeating(self, error: BaseException) -> bool:
        kind = kind_of(error)
        return kind is ErrorKind.PASSING or (kind is ErrorKind.ELSEWHERE and self._topology.moves)

    async def _call_once(self, request: bytes, whole: WholeRequest, *, writes: bool, durable: bool) -> Any:
        """Call the server on a connection of the pool, and return the reply or raise the error that it is."""
        async with self._turns:
            connection = self._take_idle() or await self._topology.connect()
            error = None  # stays so if the caller is cancelled: the connection keeps count of the replies to come
            try:
                call = (
                    self._call_durably(connection, request)
                    if durable
                    else connection.call(request, whole, CALL_TIMEOUT_SECONDS)
                )
                reply = await call
                error = reply if isinstance(reply, Exception) else None
            finally:
                if (error is None or self._usable_after(error)) and (self._process is not None or connection.busy):
                    self._idle.append(connection)
                else:
                    self._close_idle(connection)
        if error is None:
            self._known = True
            return reply
        if not isinstance(error, ResponseError | DurabilityNotMet) and not code_of(error):
            raise broken(error, writes=writes) from error
        raise error

    def _usable_after(self, error: Exception) -> bool:
        """Report an error to the topology, and return whether its connection is to be used again."""
        cause = error.__cause__ if isinstance(error, DurabilityNotMet) else error
        if cause is None:
            return True
        self.report(cause)
        return isinstance(cause, ResponseError) and not may_be_elsewhere(cause)

    async def _call_durably(self, connection: Connection, request: bytes) -> Any:
        """Call the server and wait until enough replicas have what was written; return the reply or an error.

        Both requests are sent at once.
        """
        await connection.wait_until_idle(CALL_TIMEOUT_SECONDS)
        limit = CALL_TIMEOUT_SECONDS + self._replica_timeout_ms / 1000
        wait: Any = ("WAIT", self.replicas, self._replica_timeout_ms)
        first = connection.send(request + pack_command(wait), limit)
        second = connection.expect(limit)
        reply = await first
        if isinstance(reply, Exception):
            return reply  # nothing was written, whatever the reply to WAIT is
        copies = await second
        if reply is DECLINED:
            return reply  # nothing was written, so there is nothing to copy
        if isinstance(copies, ResponseError):
            error = DurabilityNotMet(
                f"The server does not report how many replicas have it ({copies}): it is stored on the primary and a failover "
                "may lose it; its user needs the right to WAIT, see docs/operate/redis.md"
            )
            error.__cause__ = copies
            return error
        if isinstance(copies, Exception):
            return copies
        if copies >= self.replicas:
            return reply
        return DurabilityNotMet(
            f"{copies} of {self.replicas} replicas have it after {self._replica_timeout_ms} ms: it is stored on the primary and "
            "a failover may lose it; repeat the call with the same ids to wait again"
        )

    def _take_idle(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                return connection
            connection.close()
        return None

    def _close_idle(self, broken: Connection) -> None:
        """Close a broken connection and all idle ones, which lead to the same place."""
        idle, self._idle = self._idle, []
        for connection in (broken, *idle):
            connection.close()


async def _close_all(connections: Sequence[Connection]) -> None:
    """Close connections, and wait until they are: the loop may end now."""
    for connection in connections:
        connection.close()
    for connection in connections:
        await connection.wait_closed()
