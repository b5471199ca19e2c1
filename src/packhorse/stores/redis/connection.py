"""Connections to the server: a small pool, calls that survive the cancellation of their caller, time limits."""

import asyncio
import os
from typing import Any
from urllib.parse import urlsplit

from hiredis import pack_command  # redis-py packs in Python: a quarter of a profiled exchange
from redis.asyncio.connection import AbstractConnection, Connection, parse_url
from redis.exceptions import ConnectionError as Disconnected
from redis.exceptions import NoScriptError, RedisError, ResponseError

from packhorse.errors import ConfigError, StoreClosed
from packhorse.model import backoff
from packhorse.model.clock import SYSTEM
from packhorse.stores.redis.refusals import ELSEWHERE, PASSING, broken, code_of, not_reached, refused
from packhorse.stores.redis.scripts import Script

CONNECT, CALL = 5, 10  # seconds
POOL = 8
TRIES = 6
_SCHEMES = {"valkey": "redis", "valkeys": "rediss"}
_PAUSES = backoff.exponential(0.05, cap=1, jitter=0.5)


def chance() -> float:
    """A number from 0 to 1, so that those who wait do not come back all at once."""
    return os.urandom(1)[0] / 255


class Connections:
    """As many connections as are needed at once, up to a cap; the others wait their turn."""

    def __init__(self, url: str) -> None:
        self._make, self._options = _address(url)
        self._idle: list[AbstractConnection] = []
        self._turns = asyncio.Semaphore(POOL)
        self._running: set[asyncio.Task[Any]] = set()
        self._lent: set[AbstractConnection] = set()
        self._process: int | None = None

    def open(self) -> None:
        """Let calls through, in this process only."""
        self._process = os.getpid()

    def is_closed(self) -> bool:
        """Whether calls are refused."""
        return self._process != os.getpid()

    async def close(self) -> None:
        """Let calls that run come to their end, then hang up; also on those who listen."""
        ours, self._process = not self.is_closed(), None
        if ours and self._running:
            await asyncio.wait(self._running, timeout=CALL)
        for connection in (*self._idle, *self._lent):
            if ours:
                await connection.disconnect()
        self._idle.clear()

    async def connect(self) -> AbstractConnection:
        """A connection outside the pool, for one who listens; to be given back with ``hang_up``."""
        self._check()
        connection = await self._connected(self._make(**self._options))
        self._lent.add(connection)
        return connection

    async def hang_up(self, connection: AbstractConnection) -> None:
        """The end of a connection outside the pool."""
        self._lent.discard(connection)
        await connection.disconnect(nowait=True)

    async def read(self, *command: Any) -> Any:
        """Send one command that changes nothing."""
        return await self._shielded(command, writes=False)

    async def run(self, script: Script, *arguments: Any) -> Any:
        """Run a script by its checksum, or whole where the server does not have it."""
        try:
            return await self._shielded(("EVALSHA", script.sha, 1, *arguments), writes=script.writes)
        except NoScriptError:
            return await self._shielded(("EVAL", script.text, 1, *arguments), writes=script.writes)

    async def _shielded(self, command: tuple[Any, ...], *, writes: bool) -> Any:
        """A cancelled caller goes its way while the call comes to its end, so no answer is left for the next one."""
        self._check()
        task = asyncio.create_task(self._patient(command, writes=writes))
        self._running.add(task)
        task.add_done_callback(self._done)
        return await asyncio.shield(task)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()

    def _check(self) -> None:
        if self.is_closed():
            raise StoreClosed(
                "This store is not open in this process: call `await store.open()` in the process that uses it"
            )

    async def _patient(self, command: tuple[Any, ...], *, writes: bool) -> Any:
        """Ask again, a few times, a server that is loading, busy or without its primary."""
        for attempt in range(1, TRIES + 1):
            try:
                return await self._exchange(command, writes=writes)
            except NoScriptError:
                raise
            except (ResponseError, Disconnected) as error:  # LOADING and the like come as the latter, but are answers
                if code_of(error) not in PASSING or attempt == TRIES:
                    raise refused(error) from error
            await SYSTEM.sleep(_PAUSES.delay(attempt, chance()))
        raise AssertionError("the last try returns or raises")

    async def _exchange(self, command: tuple[Any, ...], *, writes: bool) -> Any:
        async with self._turns:
            connection = await self._lend()
            sound = False
            try:
                async with asyncio.timeout(CALL):
                    await connection.send_packed_command(pack_command(command), check_health=False)
                    answer = await connection.read_response()
                sound = True
                return answer
            except ResponseError as error:
                sound = code_of(error) not in ELSEWHERE
                raise
            except (RedisError, OSError, TimeoutError, EOFError) as error:
                if code_of(error):
                    sound = True
                    raise
                raise broken(error, writes=writes) from error
            finally:
                if sound:
                    self._idle.append(connection)
                else:
                    await self._drop(connection)

    async def _lend(self) -> AbstractConnection:
        while self._idle:
            connection = self._idle.pop()
            if not _ended(connection):
                return connection
            await connection.disconnect(nowait=True)
        return await self._connected(self._make(**self._options))

    async def _drop(self, connection: AbstractConnection) -> None:
        """One broken connection means that the others lead to the same place: make all of them anew."""
        idle, self._idle = self._idle, []
        for one in (connection, *idle):
            await one.disconnect(nowait=True)

    @staticmethod
    async def _connected(connection: AbstractConnection) -> AbstractConnection:
        try:
            await connection.connect()  # type: ignore[no-untyped-call]
        except (RedisError, OSError, TimeoutError, EOFError) as error:
            await connection.disconnect(nowait=True)
            raise not_reached(error) from error
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        return connection


def _ended(connection: AbstractConnection) -> bool:
    """Whether the server hung up while nobody looked: better known before a request than after it."""
    reader = getattr(connection, "_reader", None)
    return reader is None or bool(reader.at_eof())


def _address(url: str) -> tuple[type[AbstractConnection], dict[str, Any]]:
    parts = urlsplit(url)
    plain = parts._replace(scheme=_SCHEMES.get(parts.scheme, parts.scheme)).geturl()
    try:
        options: dict[str, Any] = dict(parse_url(plain))
    except ValueError as error:
        raise ConfigError(f"The address of the Redis store is not understood: {error}") from error
    made = options.pop("connection_class", Connection)
    # Time limits are set around whole calls, and answers to scripts need no newer protocol.
    options |= {"socket_timeout": None, "socket_connect_timeout": CONNECT, "protocol": 2}
    return made, options
