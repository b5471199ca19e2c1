"""Connections to the server: a small pool, calls that are repeated where that may help, time limits."""

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
from packhorse.stores.redis.address import Address
from packhorse.stores.redis.refusals import Kind, NotReached, broken, code_of, kind_of, may_be_elsewhere, refused
from packhorse.stores.redis.scripts import Script
from packhorse.stores.redis.topology import BROKEN, topology_of
from packhorse.stores.redis.wire import Wire, heard

CALL = 4  # seconds
POOL = 8
TRIES = 6
# Verbs of callers who are told that something is stored. What workers write is not waited for: a settlement that a
# failover loses is lost with its effects, and the job runs again.
LASTING = frozenset(
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
Whole = Callable[[], bytes]  # a request with the text of its script
DECLINED = None  # the answer of a short script that leaves the call to the whole one
_PAUSES = backoff.exponential(0.05, cap=1, jitter=0.5)


def evalsha(script: Script, keys: tuple[str, ...], *arguments: Any) -> bytes:
    """The request that runs a script by its checksum."""
    request: bytes = pack_command(("EVALSHA", script.sha, len(keys), *keys, *arguments))
    return request


def chance() -> float:
    """A number from 0 to 1, so that those who wait do not come back all at once."""
    return os.urandom(1)[0] / 255


class Connections:
    """As many connections as are needed at once, up to a cap; the others wait their turn."""

    def __init__(self, address: Address, tag: str) -> None:
        self._topology = topology_of(address, tag)
        self.replicas, self._patience = address.replicas, address.patience // 1000
        self._known = False  # whether the server ever did what it was asked
        self._idle: list[Wire] = []
        self._lent: set[Wire] = set()
        self._turns = asyncio.Semaphore(POOL)
        self._calls = 0
        self._quiet: asyncio.Event | None = None  # that no call runs; made by who waits for it, for it is closing time
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
            if ours:
                async with asyncio.timeout(CALL):
                    await self._ended()
        except TimeoutError:
            pass  # it is not waited for any longer
        finally:
            wires = (*self._idle, *self._lent)
            self._idle.clear()
            if ours:
                await _hung_up(wires)

    async def _ended(self) -> None:
        """Wait for calls that run, and for those that were given up but not by the server: it answers in order."""
        if self._calls:
            self._quiet = asyncio.Event()
            await self._quiet.wait()
        for wire in self._idle:
            await wire.caught_up(CALL)

    async def connect(self) -> Wire:
        """A connection outside the pool, for one who listens; to be given back with ``hang_up``."""
        self._check()
        wire = await self._topology.connect()
        self._lent.add(wire)
        return wire

    def hang_up(self, wire: Wire) -> None:
        """The end of a connection outside the pool."""
        self._lent.discard(wire)
        wire.hang_up()

    async def denied(self, *commands: tuple[Any, ...]) -> list[str]:
        """The names of those commands that the server does not allow this user, tried on a line of their own."""
        names = []
        try:
            wire = await self.connect()
        except BROKEN as error:
            raise refused(error, known=self._known) from error
        try:
            for command in commands:
                answer = await wire.send(pack_command(command), CALL)
                if isinstance(answer, ResponseError):
                    if kind_of(answer) is Kind.LOGIN:
                        names.append(command[0])
                elif isinstance(answer, Exception):
                    raise answer
        except BROKEN as error:
            self._topology.heard(error)
            raise broken(error, writes=False) from error
        finally:
            self.hang_up(wire)
        return names

    def heard(self, error: BaseException) -> None:
        """What one who listens met on its connection."""
        self._topology.heard(error)

    async def read(self, *command: Any) -> Any:
        """Send one command that changes nothing."""
        request = pack_command(command)
        return await self._patient(request, lambda: request, writes=False)

    async def run(self, script: Script, keys: tuple[str, ...], *arguments: Any) -> Any:
        """Run a script by its checksum, or whole where the server does not have it."""
        writes, lasting = script.writes, bool(self.replicas) and script.name in LASTING

        def whole() -> bytes:
            text: bytes = pack_command(("EVAL", script.text, len(keys), *keys, *arguments))
            return text

        try:
            request = evalsha(script, keys, *arguments)
            return await self._patient(request, whole, writes=writes, lasting=lasting)
        except NoScriptError:
            return await self._patient(whole(), whole, writes=writes, lasting=lasting)

    def _check(self) -> None:
        if self.is_closed():
            raise StoreClosed(
                "This store is not open in this process: call `await store.open()` in the process that uses it"
            )

    async def _patient(self, request: bytes, whole: Whole, *, writes: bool, lasting: bool = False) -> Any:
        self._check()
        self._calls += 1
        try:
            return await self._repeated(request, whole, writes=writes, lasting=lasting)
        finally:
            self._calls -= 1
            if self._quiet is not None and not self._calls:
                self._quiet.set()

    async def _repeated(self, request: bytes, whole: Whole, *, writes: bool, lasting: bool) -> Any:
        """Ask again, a few times, a server that is loading, busy or without its primary, or the one in its place."""
        for attempt in range(1, TRIES + 1):
            try:
                answer = await self._exchange(request, whole, writes=writes, lasting=lasting)
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

    async def _exchange(self, request: bytes, whole: Whole, *, writes: bool, lasting: bool) -> Any:
        async with self._turns:
            wire = self._lend() or await self._topology.connect()
            sound = True  # also if the caller goes away: the line keeps count of the answers to come
            try:
                if wire.busy:  # a call that was given up may be sent once more: it must not come after this one
                    await wire.caught_up(CALL)
                if lasting:
                    return await self._lasting(wire, request)
                expected = wire.send(request, CALL)
                try:
                    answer = await expected
                except asyncio.CancelledError:
                    wire.leave(expected, whole, CALL)
                    raise
                if isinstance(answer, Exception):
                    raise answer
                return answer
            except DurabilityNotMet as error:
                if error.__cause__ is not None:
                    sound = not may_be_elsewhere(error.__cause__)
                    self._topology.heard(error.__cause__)
                raise
            except ResponseError as error:
                sound = not may_be_elsewhere(error)
                self._topology.heard(error)
                raise
            except BROKEN as error:
                sound = False
                self._topology.heard(error)
                if code_of(error):
                    raise
                raise broken(error, writes=writes) from error
            finally:
                if sound and (self._process is not None or wire.busy):
                    self._idle.append(wire)
                else:
                    self._drop(wire)

    async def _lasting(self, wire: Wire, request: bytes) -> Any:
        """The answer, once enough replicas have what was written; both are asked for in one go."""
        limit = CALL + self._patience / 1000
        wait: Any = ("WAIT", self.replicas, self._patience)
        first = wire.send(request + pack_command(wait), limit)
        second = wire.expect(limit)
        answer = await heard(first)  # whatever is said of replicas after a refusal: nothing was written
        have = await second
        if answer is DECLINED:
            return answer  # nothing was written, so there is nothing for replicas to have
        if isinstance(have, ResponseError):
            raise DurabilityNotMet(
                f"The server does not tell how many replicas have it ({have}): it is stored on the primary and a failover "
                "may lose it; its user needs the right to WAIT, see docs/operate/redis.md"
            ) from have
        if isinstance(have, Exception):
            raise have
        if have < self.replicas:
            raise DurabilityNotMet(
                f"{have} of {self.replicas} replicas have it after {self._patience} ms: it is stored on the primary and "
                "a failover may lose it; repeat the call with the same ids to wait again"
            )
        return answer

    def _lend(self) -> Wire | None:
        while self._idle:
            wire = self._idle.pop()
            if wire.stands:
                return wire
            wire.hang_up()
        return None

    def _drop(self, wire: Wire) -> None:
        """One broken connection means that the others lead to the same place: make all of them anew."""
        idle, self._idle = self._idle, []
        for one in (wire, *idle):
            one.hang_up()


async def _hung_up(wires: Sequence[Wire]) -> None:
    """Hang up, and wait for it: nothing is left behind for a loop that ends now."""
    for wire in wires:
        wire.hang_up()
    for wire in wires:
        await wire.hung_up()
