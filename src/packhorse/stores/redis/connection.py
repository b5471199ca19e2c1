"""Connections to the server: a small pool, calls that survive the cancellation of their caller, time limits."""

import asyncio
import os
from typing import Any

from hiredis import pack_command  # redis-py packs in Python: a quarter of a profiled exchange
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ConnectionError as Disconnected
from redis.exceptions import NoScriptError, ResponseError

from packhorse.errors import DurabilityNotMet, StoreClosed, StoreUnavailable
from packhorse.model import backoff
from packhorse.model.clock import SYSTEM
from packhorse.stores.redis.address import Address
from packhorse.stores.redis.refusals import Kind, NotReached, broken, code_of, kind_of, may_be_elsewhere, refused
from packhorse.stores.redis.scripts import Script
from packhorse.stores.redis.topology import BROKEN, topology_of

CALL = 4  # seconds
POOL = 8
TRIES = 6
# Verbs of callers who are told that something is stored. What workers write is not waited for: a settlement that a
# failover loses is lost with its effects, and the job runs again.
LASTING = frozenset(
    ("enqueue", "put", "drop_records", "publish", "cancel", "replay", "promote", "drop", "pause", "resume")
)
_PAUSES = backoff.exponential(0.05, cap=1, jitter=0.5)


def chance() -> float:
    """A number from 0 to 1, so that those who wait do not come back all at once."""
    return os.urandom(1)[0] / 255


class Connections:
    """As many connections as are needed at once, up to a cap; the others wait their turn."""

    def __init__(self, address: Address, tag: str) -> None:
        self._topology = topology_of(address, tag)
        self.replicas, self._patience = address.replicas, address.patience // 1000
        self._known = False  # whether the server ever did what it was asked
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
        try:
            if ours and self._running:
                await asyncio.wait(self._running, timeout=CALL)
        finally:
            for connection in (*self._idle, *self._lent):
                if ours:
                    await connection.disconnect()
            self._idle.clear()

    async def connect(self) -> AbstractConnection:
        """A connection outside the pool, for one who listens; to be given back with ``hang_up``."""
        self._check()
        connection = await self._topology.connect()
        self._lent.add(connection)
        return connection

    async def hang_up(self, connection: AbstractConnection) -> None:
        """The end of a connection outside the pool."""
        self._lent.discard(connection)
        await connection.disconnect(nowait=True)

    async def denied(self, *commands: tuple[Any, ...]) -> list[str]:
        """The names of those commands that the server does not allow this user, tried on a line of their own."""
        names = []
        try:
            connection = await self.connect()
        except BROKEN as error:
            raise refused(error, known=self._known) from error
        try:
            async with asyncio.timeout(CALL):
                for command in commands:
                    await connection.send_command(*command, check_health=False)
                    answer = await _answered(connection)
                    if isinstance(answer, ResponseError) and kind_of(answer) is Kind.LOGIN:
                        names.append(command[0])
        except BROKEN as error:
            self._topology.heard(error)
            raise broken(error, writes=False) from error
        finally:
            await self.hang_up(connection)
        return names

    def heard(self, error: BaseException) -> None:
        """What one who listens met on its connection."""
        self._topology.heard(error)

    async def read(self, *command: Any) -> Any:
        """Send one command that changes nothing."""
        return await self._shielded(command, writes=False)

    async def run(self, script: Script, keys: tuple[str, ...], *arguments: Any) -> Any:
        """Run a script by its checksum, or whole where the server does not have it."""
        wants = {"writes": script.writes, "lasting": bool(self.replicas) and script.name in LASTING}
        try:
            return await self._shielded(("EVALSHA", script.sha, len(keys), *keys, *arguments), **wants)
        except NoScriptError:
            return await self._shielded(("EVAL", script.text, len(keys), *keys, *arguments), **wants)

    async def _shielded(self, command: tuple[Any, ...], *, writes: bool, lasting: bool = False) -> Any:
        """A cancelled caller goes its way while the call comes to its end, so no answer is left for the next one."""
        self._check()
        task = asyncio.create_task(self._patient(command, writes=writes, lasting=lasting))
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

    async def _patient(self, command: tuple[Any, ...], *, writes: bool, lasting: bool) -> Any:
        """Ask again, a few times, a server that is loading, busy or without its primary, or the one in its place."""
        for attempt in range(1, TRIES + 1):
            try:
                answer = await self._exchange(command, writes=writes, lasting=lasting)
                self._known = True
                return answer
            except NoScriptError:
                raise
            except (ResponseError, Disconnected) as error:  # LOADING and the like come as the latter, but are answers
                if attempt == TRIES or not self._worth_repeating(error):
                    raise refused(error, known=self._known) from error
                if code_of(error) == "MOVED" and attempt == 1:
                    continue  # it says where to go
            except NotReached as error:
                if attempt == TRIES or not self._topology.moves:
                    raise StoreUnavailable(str(error)) from error.__cause__
            await SYSTEM.sleep(_PAUSES.delay(attempt, chance()))
        raise AssertionError("the last try returns or raises")

    def _worth_repeating(self, error: BaseException) -> bool:
        kind = kind_of(error)
        return kind is Kind.PASSING or (kind is Kind.ELSEWHERE and self._topology.moves)

    async def _exchange(self, command: tuple[Any, ...], *, writes: bool, lasting: bool) -> Any:
        async with self._turns:
            connection = await self._lend()
            sound = False
            try:
                async with asyncio.timeout(CALL + (self._patience / 1000 if lasting else 0)):
                    answer = await (self._lasting if lasting else _asked)(connection, command)
                sound = True
                return answer
            except DurabilityNotMet as error:
                sound = error.__cause__ is None or not may_be_elsewhere(error.__cause__)
                if error.__cause__ is not None:
                    self._topology.heard(error.__cause__)
                raise
            except ResponseError as error:
                sound = not may_be_elsewhere(error)
                self._topology.heard(error)
                raise
            except BROKEN as error:
                self._topology.heard(error)
                if code_of(error):
                    raise
                raise broken(error, writes=writes) from error
            finally:
                if sound and not self.is_closed():
                    self._idle.append(connection)
                else:
                    await self._drop(connection)

    async def _lasting(self, connection: AbstractConnection, command: tuple[Any, ...]) -> Any:
        """The answer, once enough replicas have what was written; both are asked for in one go."""
        wait: Any = ("WAIT", self.replicas, self._patience)
        await connection.send_packed_command(pack_command(command) + pack_command(wait), check_health=False)
        answer, have = await _answered(connection), await _answered(connection)
        if isinstance(answer, ResponseError):
            raise answer  # whatever was said of replicas then: nothing was written
        if isinstance(have, ResponseError):
            raise DurabilityNotMet(
                f"The server does not tell how many replicas have it ({have}): it is stored on the primary and a failover "
                "may lose it; its user needs the right to WAIT, see docs/operate/redis.md"
            ) from have
        if have < self.replicas:
            raise DurabilityNotMet(
                f"{have} of {self.replicas} replicas have it after {self._patience} ms: it is stored on the primary and "
                "a failover may lose it; repeat the call with the same ids to wait again"
            )
        return answer

    async def _lend(self) -> AbstractConnection:
        while self._idle:
            connection = self._idle.pop()
            if not _ended(connection):
                return connection
            await connection.disconnect(nowait=True)
        return await self._topology.connect()

    async def _drop(self, connection: AbstractConnection) -> None:
        """One broken connection means that the others lead to the same place: make all of them anew."""
        idle, self._idle = self._idle, []
        for one in (connection, *idle):
            await one.disconnect(nowait=True)


async def _asked(connection: AbstractConnection, command: tuple[Any, ...]) -> Any:
    await connection.send_packed_command(pack_command(command), check_health=False)
    return await connection.read_response()


async def _answered(connection: AbstractConnection) -> Any:
    """The next answer, also if it is a refusal: another one comes after it."""
    try:
        return await connection.read_response()
    except ResponseError as error:
        return error


def _ended(connection: AbstractConnection) -> bool:
    """Whether the server hung up while nobody looked: better known before a request than after it."""
    reader = getattr(connection, "_reader", None)
    return reader is None or bool(reader.at_eof())
