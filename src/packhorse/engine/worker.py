"""The worker: leases jobs, runs them, settles them, until it is stopped."""

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Self

import msgspec

from packhorse.engine import gc_tuning
from packhorse.engine.attempt import Phase
from packhorse.engine.attempt_runner import AttemptRunner, Middleware
from packhorse.engine.caretaker import Caretaker, Duty, duties
from packhorse.engine.context import Context, context_of
from packhorse.engine.deadlines import Deadlines
from packhorse.engine.exchange_loop import ExchangeLoop
from packhorse.engine.executors.process import ChildPool
from packhorse.engine.failures import FailureDetails
from packhorse.engine.held_leases import HeldLeases
from packhorse.engine.keeper import Keeper, LeaseHolder
from packhorse.engine.loop_monitor import LoopMonitor
from packhorse.engine.progress import ProgressWriter
from packhorse.engine.registry import Registry, Run
from packhorse.engine.runners import Runner, ThreadRunner
from packhorse.engine.settlement_queue import DeadHook, SettlementQueue, no_effects
from packhorse.engine.shares import Shares
from packhorse.engine.slots import Slots
from packhorse.engine.transactions import Transactions
from packhorse.engine.verdicts import Verdicts
from packhorse.engine.wakeup import Wakeup, first
from packhorse.errors import ConfigError, WorkerStuck
from packhorse.model import limits
from packhorse.model.clock import SYSTEM, Clock
from packhorse.model.codec import Codec
from packhorse.model.ids import new_token
from packhorse.model.job import LEASE_US, MAX_LOST
from packhorse.model.randomness import SYSTEM_RANDOMNESS, Randomness
from packhorse.model.worker import WorkerInfo
from packhorse.stores.contract import Store
from packhorse.telemetry.emit import Telemetry
from packhorse.telemetry.names import EventName

MIN_LEASE_US = 100_000
SETTLE_GRACE_US = 400_000  # for stopped attempts to end, and again for the last settlements to reach the store
PARTS_END_SECONDS = 1.0  # for the parts of a worker to end once they are cancelled
SLOW_STORE_GRACE_US = 2_600_000  # and so much longer for those while the store answers, if slowly
FAREWELL_US = 5 * limits.SECOND  # for all calls of the store once attempts are stopped, also those of the keeper


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How a worker works.

    ``grace`` is for what runs when the worker stops, ``patience`` for code that was asked to stop before it is
    called stuck. ``origin`` is ``module:attribute`` of what holds the registry, for child processes.
    """

    queues: Mapping[str, int] = msgspec.field(default_factory=lambda: {"default": 1})
    concurrency: int = 10
    queue_concurrency: Mapping[str, int] = msgspec.field(default_factory=dict)
    lease: int = LEASE_US
    grace: int = 25 * limits.SECOND
    max_lost: int = MAX_LOST
    patience: int = 5 * limits.SECOND
    name: str = ""
    release: str | None = None
    origin: str | None = None

    def __post_init__(self) -> None:
        limits.within("concurrency", self.concurrency, 1, 10_000)
        limits.span("lease", self.lease, MIN_LEASE_US)
        limits.span("grace", self.grace)
        limits.span("patience", self.patience)
        limits.within("max_lost", self.max_lost, 2, limits.LOSSES)  # the first loss is nobody's proof
        for queue, most in self.queue_concurrency.items():
            limits.name("queue", queue)
            limits.within(f"queue_concurrency of {queue}", most, 1, self.concurrency)


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
        on_dead: DeadHook = no_effects,
        make_runner: Callable[..., AttemptRunner] = AttemptRunner,
        codec: Codec | None = None,
        clock: Clock = SYSTEM,
        chance: Randomness = SYSTEM_RANDOMNESS,
        place: Callable[[], Runner] = ThreadRunner,
    ) -> None:
        self.settings = settings or Settings()
        self.id = new_token()
        self.name = self.settings.name or f"{socket.gethostname()}:{os.getpid()}"
        self._store, self._registry, self._make_runner = store, registry, make_runner
        self._telemetry = (telemetry or Telemetry()).bind(worker=self.name)
        self._middleware, self._more_duties, self._on_dead = tuple(middleware), tuple(more_duties), on_dead
        self._codec, self._clock, self._chance = codec or Codec(), clock, chance
        self._keeper_runner, self._shares = place(), Shares(self.settings.queues)
        self._begun = 0
        self._stopping, self._hurry = asyncio.Event(), asyncio.Event()
        self._failure: BaseException | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._children: ChildPool | None = None

    # -- living

    async def run(self) -> None:
        """Work until SIGTERM or SIGINT: what runs may end within the grace. A second signal stops it now."""
        await self._start()
        with gc_tuning.relaxed_gc(), self._signals():
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
        """Take no more jobs and end; a second call does not wait for what runs."""
        if self._stopping.is_set():
            self._hurry.set()
        self._stopping.set()

    async def stopped(self) -> None:
        """Wait until it takes no more jobs: because it was stopped, or because a part of it failed."""
        await self._stopping.wait()

    @property
    def running(self) -> tuple[Context, ...]:
        """The attempts that run at this moment."""
        idle = (Phase.PENDING, Phase.FINISHED)
        held = tuple(self._slots.held.values())
        return tuple(context_of(attempt) for attempt in held if attempt.phase not in idle and not attempt.ended)

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
        self._clone = self._store.clone()
        self._assemble()
        parts: dict[str, Any] = {
            "exchange": self._exchanges.run,
            "hints": self._exchanges.listen,
            "deadlines": self._deadlines.run,
            "notes": self._notes.run,
            "caretaker": self._caretaker.run,
            "health": self._watch_slots,
        }
        self._keeper_runner.start("packhorse-keeper", self._keep)
        self._tasks += [self._begin_part(name, run) for name, run in parts.items()]
        self._telemetry.emit(EventName.WORKER_STARTED, detail=", ".join(self._shares.queues))

    def _begin_part(self, name: str, run: Callable[[], Coroutine[Any, Any, None]]) -> "asyncio.Task[None]":
        task = asyncio.create_task(run(), name=f"packhorse-{name}")
        task.add_done_callback(self._part_ended)
        return task

    def _assemble(self) -> None:
        settings, clock, chance, telemetry = self.settings, self._clock, self._chance, self._telemetry
        wakeup = Wakeup(clock)
        self._deadlines = Deadlines(clock)
        self._notes = ProgressWriter(self._store, clock=clock)
        if settings.origin is not None:
            self._children = ChildPool(settings.origin, size=settings.concurrency, clock=clock, telemetry=telemetry)
        runner = self._make_runner(
            codec=self._codec,
            middleware=self._middleware,
            clock=clock,
            chance=chance,
            loop_ends=self._loop_ends,
            details=FailureDetails(self.name, settings.release),
        )
        queue = SettlementQueue(wakeup, self._on_dead)
        held = HeldLeases(queue, telemetry)
        verdicts = Verdicts(self._store, held, runner, queue, telemetry)
        transactions = Transactions(
            self._store,
            runner,
            held,
            verdicts,
            queue,
            self._notes,
            lease=settings.lease,
            clock=clock,
            telemetry=telemetry,
        )
        self._slots = Slots(
            runner,
            self._registry,
            queue,
            held,
            slots=settings.concurrency,
            queue_slots=settings.queue_concurrency,
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
        self._exchanges = ExchangeLoop(
            self._store,
            self._slots,
            queue,
            self._shares,
            verdicts,
            self._notes,
            worker=self.id,
            lease=settings.lease,
            wakeup=wakeup,
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
            on_dead=self._on_dead,
        )
        self._caretaker = Caretaker([*common, *self._more_duties], clock=clock, chance=chance, telemetry=telemetry)
        self._kept = LeaseHolder(self._slots, self._notes)
        self._lag = LoopMonitor(self._slots.running_in, clock=clock, telemetry=telemetry, patience=settings.patience)

    def _check(self) -> None:
        if self._begun:
            raise ConfigError("This worker was already started: create a new one for each start")
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
            self._clone,
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

    def _member(self) -> WorkerInfo:
        return WorkerInfo(
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
        while self._slots.stuck < self.settings.concurrency:
            await self._clock.sleep(limits.SECOND)
        raise WorkerStuck(self._slots.stuck)

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
        self._telemetry.emit(EventName.WORKER_STOPPING, count=len(self._slots.held))
        try:
            await self._shut_down()
        except asyncio.CancelledError:
            self._hurry.set()
            await self._shut_down()
            raise
        finally:
            await self._let_go()
        self._telemetry.emit(EventName.WORKER_STOPPED)
        if self._failure is not None:
            raise self._failure

    async def _shut_down(self) -> None:
        """Take no more, let what runs end within the grace, then stop it; hand back what did not finish."""
        self._exchanges.stop_claiming()
        self._slots.drain()
        exchange = await self._exchanging()
        if not self._hurry.is_set():
            await first(_ended(exchange), self._hurry.wait(), self._clock.sleep(self.settings.grace))
        self._slots.stop_all()
        begun = self._clock.steady()
        self._kept.goodbye_until = begun + FAREWELL_US
        await first(_ended(exchange), self._clock.sleep(SETTLE_GRACE_US))
        self._slots.give_up_all()
        await first(_ended(exchange), self._clock.sleep(SETTLE_GRACE_US))
        if not exchange.done() and not self._exchanges.failing:
            await first(_ended(exchange), self._clock.sleep(SLOW_STORE_GRACE_US))
        left = begun + 2 * SETTLE_GRACE_US + SLOW_STORE_GRACE_US - self._clock.steady()
        await first(self._notes.flush(), self._clock.sleep(max(SETTLE_GRACE_US, left)))

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
        _, slow = await asyncio.wait(self._tasks, timeout=PARTS_END_SECONDS)
        for task in slow:
            task.cancel()
        await asyncio.wait(self._tasks)
        self._slots.close()
        if self._children is not None:
            await self._children.close()
        await self._keeper_runner.stop()

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Stop on SIGTERM and SIGINT, where the system and the thread allow handlers."""
        handled = []
        for number in (signal.SIGTERM, signal.SIGINT):
            with suppress(NotImplementedError, ValueError, RuntimeError):
                self._loop.add_signal_handler(number, self.stop)
                handled.append(number)
        try:
            yield
        finally:
            for number in handled:
                self._loop.remove_signal_handler(number)


async def _ended(task: "asyncio.Task[None]") -> None:
    await asyncio.wait([task])
