"""The worker: leases jobs, runs them, settles them, until it is told to stop."""

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Self

import msgspec

from packhorse.engine import garbage
from packhorse.engine.apart import OnThread, Place
from packhorse.engine.attempt import Attempts, Middleware
from packhorse.engine.bell import Bell, first
from packhorse.engine.caretaker import Caretaker, Duty, duties
from packhorse.engine.context import Context
from packhorse.engine.crew import Crew
from packhorse.engine.deadlines import Deadlines
from packhorse.engine.exchange import Exchanges
from packhorse.engine.executors.process import Children
from packhorse.engine.feeder import Shares
from packhorse.engine.keeper import Keeper, Kept
from packhorse.engine.lag import Lag
from packhorse.engine.notes import Notes
from packhorse.engine.registry import Registry, Run
from packhorse.engine.settler import Deaths, Ended, Settler, untold
from packhorse.engine.transactions import Transactions
from packhorse.engine.verdicts import Verdicts
from packhorse.errors import ConfigError, StoreError, WorkerStuck
from packhorse.model import caps
from packhorse.model.chance import SYSTEM_CHANCE, Chance
from packhorse.model.clock import SYSTEM, Clock
from packhorse.model.codec import Codec
from packhorse.model.ids import new_token
from packhorse.model.job import LEASE, MAX_LOST
from packhorse.model.lease import Verdict
from packhorse.model.worker import Worker as Member
from packhorse.stores.contract import Store
from packhorse.telemetry.emit import Telemetry
from packhorse.telemetry.names import Name

MIN_LEASE_US = 100_000
LAST_WORDS = 400_000  # for stopped attempts to end, and again for the last settlements to reach the store
LETTING_GO = 1.0  # seconds for the parts of a worker to end once they are cancelled
SLOW_STORE = 2_600_000  # and so much longer for those while the store answers, if slowly


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How a worker works.

    ``grace`` is for what runs when the worker is told to stop, ``patience`` for code that was told to stop before it is
    called stuck. ``origin`` is ``module:attribute`` of what holds the registry, for child processes.
    """

    queues: Mapping[str, int] = msgspec.field(default_factory=lambda: {"default": 1})
    concurrency: int = 10
    slots: Mapping[str, int] = msgspec.field(default_factory=dict)
    lease: int = LEASE
    grace: int = 25 * caps.SECOND
    max_lost: int = MAX_LOST
    patience: int = 5 * caps.SECOND
    name: str = ""
    release: str | None = None
    origin: str | None = None

    def __post_init__(self) -> None:
        caps.within("concurrency", self.concurrency, 1, 10_000)
        caps.span("lease", self.lease, MIN_LEASE_US)
        caps.span("grace", self.grace)
        caps.span("patience", self.patience)
        caps.within("max_lost", self.max_lost, 2, caps.LOSSES)  # the first loss is nobody's proof
        for queue, slots in self.slots.items():
            caps.name("queue", queue)
            caps.within(f"slots of {queue}", slots, 1, self.concurrency)


class Worker:
    """One life of a worker. ``run`` works until a signal; as a context manager it works beside other code of the loop."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        settings: Settings | None = None,
        *,
        telemetry: Telemetry | None = None,
        middleware: Sequence[Middleware] = (),
        more_duties: Sequence[Duty] = (),
        deaths: Deaths = untold,
        codec: Codec | None = None,
        clock: Clock = SYSTEM,
        chance: Chance = SYSTEM_CHANCE,
        place: Callable[[], Place] = OnThread,
    ) -> None:
        self.settings = settings or Settings()
        self.id = new_token()
        self.name = self.settings.name or f"{socket.gethostname()}:{os.getpid()}"
        self._store, self._registry = store, registry
        self._telemetry = (telemetry or Telemetry()).saying(worker=self.name)
        self._middleware, self._more_duties, self._deaths = tuple(middleware), tuple(more_duties), deaths
        self._codec, self._clock, self._chance = codec or Codec(), clock, chance
        self._place = place()
        self._shares = Shares(self.settings.queues)
        self._begun = 0
        self._stopping, self._hurry = asyncio.Event(), asyncio.Event()
        self._failure: BaseException | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._children: Children | None = None

    # -- living

    async def run(self) -> None:
        """Work until SIGTERM or SIGINT: what runs may end within the grace. A second signal stops it now."""
        await self._start()
        with garbage.seldom(), self._signals():
            try:
                await self.stopped()
            finally:
                await self._end()

    async def __aenter__(self) -> Self:
        await self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end()

    def stop(self) -> None:
        """Take no more jobs and come to an end; said again, without waiting for what runs."""
        if self._stopping.is_set():
            self._hurry.set()
        self._stopping.set()

    async def stopped(self) -> None:
        """Wait until it takes no more jobs: because it was told to stop, or because a part of it failed."""
        await self._stopping.wait()

    @property
    def running(self) -> tuple[Context, ...]:
        """The attempts that run at this moment."""
        return tuple(ctx for ctx in tuple(self._crew.held.values()) if ctx.begun and not ctx.ended)

    @property
    def silence(self) -> int:
        """Microseconds since the store last answered an exchange: the measure of whether this worker lives."""
        return self._clock.steady() - self._exchanges.last

    async def idle(self) -> None:
        """Wait until nothing runs and the store had nothing more to run; a worker that fails ends the wait."""
        await first(self._exchanges.idle.wait(), self._stopping.wait())

    @property
    def stopping(self) -> bool:
        """Whether it takes no more jobs."""
        return self._stopping.is_set()

    # -- the parts

    async def _start(self) -> None:
        self._check()
        self._begun, self._loop = self._clock.now(), asyncio.get_running_loop()
        self._twin = self._store.twin()
        self._assemble()
        parts: dict[str, Any] = {
            "exchange": self._exchanges.run,
            "hints": self._exchanges.hear,
            "deadlines": self._deadlines.run,
            "notes": self._notes.run,
            "caretaker": self._caretaker.run,
            "health": self._watch_slots,
        }
        self._place.start("packhorse-keeper", self._keep)
        self._tasks += [self._begin_part(name, run) for name, run in parts.items()]
        self._telemetry.emit(Name.WORKER_STARTED, detail=", ".join(self._shares.queues))

    def _begin_part(self, name: str, run: Callable[[], Coroutine[Any, Any, None]]) -> "asyncio.Task[None]":
        task = asyncio.create_task(run(), name=f"packhorse-{name}")
        task.add_done_callback(self._part_ended)
        return task

    def _assemble(self) -> None:
        settings, clock, chance, telemetry = self.settings, self._clock, self._chance, self._telemetry
        bell = Bell(clock)
        self._deadlines = Deadlines(clock)
        self._notes = Notes(self._store, clock=clock)
        if settings.origin is not None:
            self._children = Children(settings.origin, size=settings.concurrency, clock=clock, telemetry=telemetry)
        attempts = Attempts(
            codec=self._codec, middleware=self._middleware, clock=clock, chance=chance, loop_ends=self._loop_ends
        )
        settler = Settler(bell, self._deaths)

        def heard(ended: Ended, verdict: Verdict) -> None:
            verdicts.heard([ended], [verdict])
            self._exchanges.look()

        transactions = Transactions(
            self._store,
            attempts,
            lease=settings.lease,
            clock=clock,
            telemetry=telemetry,
            heard=heard,
            failed=lambda ctx, settlement: self._crew.settle(ctx, settlement),  # noqa: PLW0108 - it comes next
        )
        self._crew = Crew(
            attempts,
            self._registry,
            settler,
            slots=settings.concurrency,
            queue_slots=settings.slots,
            lease=settings.lease,
            max_lost=settings.max_lost,
            patience=settings.patience,
            clock=clock,
            deadlines=self._deadlines,
            telemetry=telemetry,
            children=self._children,
            transactions=transactions,
            note=self._notes.put,
        )
        verdicts = Verdicts(self._store, self._crew, attempts, settler, telemetry)
        self._exchanges = Exchanges(
            self._store,
            self._crew,
            settler,
            self._shares,
            verdicts,
            self._notes,
            worker=self.id,
            lease=settings.lease,
            bell=bell,
            clock=clock,
            chance=chance,
            telemetry=telemetry,
        )
        common = duties(
            self._store,
            lambda: None if self._registry.takes_any else self._registry.names,
            lease=settings.lease,
            max_lost=settings.max_lost,
            ended=lambda: self._exchanges.settled,
            telemetry=telemetry,
            deaths=self._deaths,
        )
        self._caretaker = Caretaker([*common, *self._more_duties], clock=clock, chance=chance, telemetry=telemetry)
        self._kept = Kept(self._crew, self._notes)
        self._lag = Lag(self._crew.running_in, clock=clock, telemetry=telemetry, patience=settings.patience)

    def _check(self) -> None:
        if self._begun:
            raise ConfigError("This worker was started before: make a new one for every start")
        for entry in self._registry.entries:
            if entry.transaction is not None:
                entry.transaction.check(self._store)
        names = [entry.name for entry in self._registry.entries if entry.run is Run.PROCESS]
        if names and self.settings.origin is None:
            raise ConfigError(
                f"The task {names[0]!r} runs in a child process, which has to import it: keep the app and its tasks in "
                'a module of their own, not in the script that is started, or say run="thread"'
            )

    async def _keep(self) -> None:
        """What runs apart: leases are renewed, and the loop is watched, whatever the loop does."""
        keeper = Keeper(
            self._twin,
            self._kept,
            self._member,
            lease=self.settings.lease,
            clock=self._clock,
            chance=self._chance,
            telemetry=self._telemetry,
        )
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(keeper.run())
                both.create_task(self._lag.run(keeper.relieve))
        except Exception as error:  # noqa: BLE001 - without it every lease would run out
            self._loop.call_soon_threadsafe(self._fail, error)

    def _member(self) -> Member:
        return Member(
            id=self.id,
            name=self.name,
            host=socket.gethostname(),
            pid=os.getpid(),
            slots=self.settings.concurrency,
            release=self.settings.release,
            queues=self._shares.queues,
            tasks=self._registry.names,
            started=self._begun,
        )

    async def _watch_slots(self) -> None:
        """A worker whose every slot is held by something that does not stop is of no use: end it, loudly."""
        while self._crew.stuck < self.settings.concurrency:
            await self._clock.sleep(caps.SECOND)
        raise WorkerStuck(self._crew.stuck)

    def _part_ended(self, task: "asyncio.Task[None]") -> None:
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self._failure = self._failure or error
        self._stopping.set()

    # -- ending

    async def _end(self) -> None:
        self._stopping.set()
        self._telemetry.emit(Name.WORKER_STOPPING, count=len(self._crew.held))
        try:
            await self._shut_down()
        except asyncio.CancelledError:
            self._hurry.set()
            await self._shut_down()
            raise
        finally:
            await self._let_go()
        self._telemetry.emit(Name.WORKER_STOPPED)
        if self._failure is not None:
            raise self._failure

    async def _shut_down(self) -> None:
        """Take no more, let what runs end within the grace, then stop it; hand back what did not finish."""
        self._exchanges.stop_claiming()
        self._crew.drain()
        exchange = await self._exchanging()
        if not self._hurry.is_set():
            await first(_ended(exchange), self._hurry.wait(), self._clock.sleep(self.settings.grace))
        self._crew.stop_all()
        await first(_ended(exchange), self._clock.sleep(LAST_WORDS))
        self._crew.give_up_all()
        await first(_ended(exchange), self._clock.sleep(LAST_WORDS))
        if not exchange.done() and not self._exchanges.failing:
            await first(_ended(exchange), self._clock.sleep(SLOW_STORE))
        with suppress(StoreError):
            await self._notes.flush()

    def _loop_ends(self) -> bool:
        """Whether somebody else cancels the tasks of this worker, as ``asyncio.run`` does at its end."""
        return self._tasks[0].cancelling() > 0

    async def _exchanging(self) -> "asyncio.Task[None]":
        """The part that settles; begun anew if it was cancelled with all tasks of the loop."""
        if self._loop_ends():
            await asyncio.wait([self._tasks[0]])
            self._tasks[0] = self._begin_part("exchange", self._exchanges.run)
        return self._tasks[0]

    async def _let_go(self) -> None:
        for task in self._tasks:
            if not task.cancelling():  # one that is may be letting go of a connection
                task.cancel()
        _, slow = await asyncio.wait(self._tasks, timeout=LETTING_GO)
        for task in slow:
            task.cancel()
        await asyncio.wait(self._tasks)
        self._crew.close()
        if self._children is not None:
            await self._children.close()
        await self._place.stop()

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """SIGTERM and SIGINT mean stop, where the system and the thread allow to hear them."""
        heard = []
        for number in (signal.SIGTERM, signal.SIGINT):
            with suppress(NotImplementedError, ValueError, RuntimeError):
                self._loop.add_signal_handler(number, self.stop)
                heard.append(number)
        try:
            yield
        finally:
            for number in heard:
                self._loop.remove_signal_handler(number)


async def _ended(task: "asyncio.Task[None]") -> None:
    await asyncio.wait([task])
