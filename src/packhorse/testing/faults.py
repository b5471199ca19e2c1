"""A store whose calls go wrong on purpose: requests and replies are dropped, delayed, refused."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Any, cast

import msgspec

from packhorse.errors import OutcomeUnknown, StoreUnavailable
from packhorse.model.clock import SYSTEM, Clock
from packhorse.model.finding import Finding
from packhorse.model.layout import MigrationStep
from packhorse.model.lease import Exchange
from packhorse.stores.contract import (
    Fleet,
    Jobs,
    ParkedClaims,
    Queues,
    Records,
    Store,
    Streams,
    Topic,
    Transaction,
    WorkHint,
    WorkListener,
)


class DropRequest(msgspec.Struct, frozen=True):
    """The call never reaches the store."""


class DropReply(msgspec.Struct, frozen=True):
    """The store does what it was asked, and the answer is lost."""


class Delay(msgspec.Struct, frozen=True):
    """The call reaches the store this much later, in microseconds."""

    duration: int


class DelayReply(msgspec.Struct, frozen=True):
    """The store does what it was asked, and the answer comes this much later."""

    duration: int


class RaiseError(msgspec.Struct, frozen=True):
    """The store does nothing, and the call raises this error."""

    error: Exception


Fault = DropRequest | DropReply | Delay | DelayReply | RaiseError
Decide = Callable[[str, tuple[Any, ...]], Fault | None]


class Faulty:
    """A store in front of another. ``decide`` is asked at every call, with its name (``jobs.exchange``) and arguments.

    It is asked for every hint too, as ``wakes``: ``RaiseError`` ends the listener with its error, any other fault loses the hint.
    """

    def __init__(self, store: Store, decide: Decide, *, clock: Clock = SYSTEM) -> None:
        self._store, self._decide, self._clock = store, decide, clock
        self.jobs = cast(Jobs, _Facet(self, "jobs"))
        self.queues = cast(Queues, _Facet(self, "queues"))
        self.records = cast(Records, _Facet(self, "records"))
        self.streams = cast(Streams, _Facet(self, "streams"))
        self.fleet = cast(Fleet, _Facet(self, "fleet"))

    async def open(self) -> None:
        """Connect."""
        await self._store.open()

    async def close(self) -> None:
        """Let go of everything."""
        await self._store.close()

    async def migrate(self) -> list[str]:
        """Bring the layout up to date."""
        return await self._store.migrate()

    async def steps(self) -> list[MigrationStep]:
        """Answer the steps of the layout, or not."""
        return list(await self.call("steps", self._store.steps))

    async def examine(self) -> list[Finding]:
        """Answer what is in force below the store, or not."""
        return list(await self.call("examine", self._store.examine))

    async def ping(self) -> int:
        """Answer with the store's time, or not."""
        return int(await self.call("ping", self._store.ping))

    async def maintain(self) -> list[str]:
        """Tidy up, or not."""
        return list(await self.call("maintain", self._store.maintain))

    def clone(self) -> "Faulty":
        """Answer a second store of the same place, with the same faults."""
        return Faulty(self._store.clone(), self._decide, clock=self._clock)

    def transaction(self, limit: int) -> Transaction:
        """Answer a transaction whose calls go wrong, as ``transaction.settle``."""
        return cast(Transaction, _Transaction(self, self._store.transaction(limit)))

    async def wakes(self, topic: Topic) -> AsyncIterator[None]:
        """Yield the store's hints, or not."""
        async with aclosing(cast(AsyncGenerator[None, None], self._store.wakes(topic))) as hints:
            async for _ in hints:
                if not self.loses_hint(topic):
                    yield

    @property
    def parked_claims(self) -> "ParkedClaims | None":
        """The claims that wait at the store in front, if it has any."""
        parking = self._store.parked_claims
        return None if parking is None else _ParkedClaims(self, parking)

    def loses_hint(self, topic: str) -> bool:
        """Say whether a hint goes missing, or fail."""
        fault = self._decide("wakes", (topic,))
        if isinstance(fault, RaiseError):
            raise fault.error
        return fault is not None

    async def call(self, name: str, verb: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Call a verb of the store, with what goes wrong on the way."""
        fault = self._decide(name, args)
        match fault:
            case DropRequest():
                raise StoreUnavailable(f"The request for {name} was dropped on purpose")
            case RaiseError(error):
                raise error
            case Delay(duration):
                await self._clock.sleep(duration)
        answer = await verb(*args, **options)
        if isinstance(fault, DelayReply):
            await self._clock.sleep(fault.duration)
        if isinstance(fault, DropReply):
            raise OutcomeUnknown(f"The reply of {name} was dropped on purpose")
        return answer


class _Facet:
    """One facet of the store in front."""

    def __init__(self, faulty: Faulty, name: str) -> None:
        self._faulty, self._name = faulty, name

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        real: Callable[..., Any] = getattr(getattr(self._faulty._store, self._name), verb)

        async def call(*args: Any, **options: Any) -> Any:
            return await self._faulty.call(f"{self._name}.{verb}", real, *args, **options)

        async def hints(stream: str) -> AsyncGenerator[None, None]:
            async with aclosing(real(stream)) as found:
                async for _ in found:
                    if not self._faulty.loses_hint(stream):
                        yield

        if verb == "wakes":
            return hints
        return real if verb == "within" else call  # what runs on the caller's own connection does not pass here


class _Transaction:
    """A transaction of the store in front."""

    def __init__(self, faulty: Faulty, real: Transaction) -> None:
        self._faulty, self._real = faulty, real

    @property
    def begun(self) -> bool:
        return self._real.begun

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        async def call(*args: Any) -> Any:
            return await self._faulty.call(f"transaction.{verb}", getattr(self._real, verb), *args)

        return call


class _ParkedClaims:
    """The claims that wait at the store in front."""

    def __init__(self, faulty: Faulty, real: ParkedClaims) -> None:
        self._faulty, self._real = faulty, real

    def listener(self, worker: bytes) -> WorkListener:
        return _WorkListener(self._faulty, self._real.listener(worker))


class _WorkListener:
    """A listener of the store in front; what it brings may be lost."""

    def __init__(self, faulty: Faulty, real: WorkListener) -> None:
        self._faulty, self._real = faulty, real
        self.park = real.park

    async def events(self) -> AsyncIterator[Exchange | WorkHint]:
        async with aclosing(cast(AsyncGenerator[Exchange | WorkHint, None], self._real.events())) as events:
            async for event in events:
                if event is WorkHint.WAITING or not self._faulty.loses_hint(Topic.WORK):
                    yield event
