"""Small builders for tests of the worker, and a recorder of events to wait on."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from packhorse.engine.policy import Policy
from packhorse.engine.registry import Entry, Registry, Run
from packhorse.engine.worker import Settings, Worker
from packhorse.model import codec
from packhorse.model.backoff import Backoff
from packhorse.model.job import NewJob
from packhorse.model.lease import Settlement
from packhorse.stores.contract import Store
from packhorse.telemetry.emit import Fields, Telemetry
from packhorse.telemetry.names import EventName
from packhorse.testing.faults import Fault, Faulty
from tests.factories import MINUTE, SECOND, Held, ask, new, put_in

AT_ONCE = Backoff(0)
PATIENCE = 20


class EventRecorder:
    """All that a worker says, to be waited for; it is recorded from several threads."""

    def __init__(self, telemetry: Telemetry) -> None:
        self.recorded: list[tuple[EventName, Fields]] = []
        self._loop, self._news = asyncio.get_running_loop(), asyncio.Event()
        telemetry.on(self._record)

    def _record(self, name: EventName, fields: Fields) -> None:
        self.recorded.append((name, fields))
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._news.set)

    def of(self, name: EventName, task: str | None = None) -> list[Fields]:
        """What was recorded under this name, of one task or of all."""
        recorded = [fields for reported, fields in tuple(self.recorded) if reported is name]
        return recorded if task is None else [fields for fields in recorded if fields["lease"].task == task]

    def count(self, name: EventName, task: str | None = None) -> int:
        """How often that was recorded."""
        return len(self.of(name, task))

    async def until(self, name: EventName, count: int = 1, *, task: str | None = None) -> list[Fields]:
        """Wait until something was recorded so often."""
        try:
            async with asyncio.timeout(PATIENCE):
                while self.count(name, task) < count:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            recent = [(reported.value, dict(fields)) for reported, fields in self.recorded[-10:]]
            raise AssertionError(f"{name} was recorded {self.count(name, task)} times, not {count}: {recent}") from None
        return self.of(name, task)


class Tasks(Registry):
    """A registry that is filled by a decorator; a try that failed is repeated at once."""

    def task(self, run: Run = Run.ASYNC, *, name: str = "", **options: Any) -> Callable[[Any], Any]:
        own = {word: options.pop(word) for word in ("aliases", "tune", "transaction") if word in options}

        def add(call: Any) -> Any:
            policy = Policy(**{"backoff": AT_ONCE, **options})
            self.add(Entry(name=name or call.__name__, call=call, run=run, policy=policy, **own))
            return call

        return add

    def many(self, calls: dict[str, Any], run: Run = Run.ASYNC, **options: Any) -> None:
        """Several tasks by their names."""
        for name, call in calls.items():
            self.task(run, name=name, **options)(call)


def at_once() -> Tasks:
    """A task that ends as it begins."""
    made = Tasks()

    @made.task()
    async def work() -> None:
        pass

    return made


class Crossing:
    """Decides what goes wrong on the way to the store, and counts what is asked of it."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.rules: dict[str, Callable[..., Fault | None]] = {}

    def __call__(self, name: str, args: tuple[Any, ...]) -> Fault | None:
        self.calls.append((name, args))
        rule = self.rules.get(name) or self.rules.get("*")
        return None if rule is None else rule(*args)

    def count(self, name: str) -> int:
        """How often this was asked."""
        return sum(called == name for called, _ in tuple(self.calls))

    def before(self, store: Store) -> Faulty:
        """The store behind these faults."""
        return Faulty(store, self)


class Once:
    """A fault for the first calls, then none."""

    def __init__(self, *faults: Fault | None) -> None:
        self._faults = list(faults)

    def __call__(self, *args: Any) -> Fault | None:
        return self._faults.pop(0) if self._faults else None


def settings(**options: Any) -> Settings:
    """Settings for a test: a short grace, whatever else is asked for."""
    return Settings(**{"grace": 5 * SECOND, **options})


def worker(
    store: Any, registry: Registry, telemetry: Telemetry | None = None, *, more: Any = None, **options: Any
) -> Worker:
    """A worker; ``more`` are its own arguments, the rest are settings."""
    return Worker(store, registry, settings(**options), telemetry=telemetry, **(more or {}))


def lease_ahead(working: Worker) -> None:
    """Have a worker believe that jobs are short, so that it leases up to forty more than it has slots."""
    working._exchanges._ahead.record_durations([0] * 20)


OPTIONS = {"id", "queue", "delay", "priority", "lane", "unique"}


def job(task: str, **given: Any) -> NewJob:
    """A job; what is no option of it is an argument of its task."""
    arguments = {name: value for name, value in given.items() if name not in OPTIONS}
    return new(task, payload=codec.encode(arguments), **{name: given[name] for name in OPTIONS & set(given)})


def jobs(count: int, task: str = "work", **options: Any) -> list[NewJob]:
    """Many jobs, each with its number."""
    return [job(task, number=number, **options) for number in range(count)]


async def lost(store: Store, times: int, task: str, count: int = 1, queue: str = "lost") -> list[bytes]:
    """Jobs that were lost so often before, each time after they had begun."""
    made = await put_in(store, *jobs(count, task, queue=queue))
    for _ in range(times):
        leases = (await store.jobs.exchange((), ask(count, queue, lease=1000))).leases
        await store.jobs.exchange([Settlement(lease, Held(1)) for lease in leases])
        left = count
        while left:
            left -= len(await store.jobs.reap(left))
            await asyncio.sleep(0.001)
    return made


class Inside:
    """How many handlers are at work, and the most that ever were."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self._counting = threading.Lock()

    def __enter__(self) -> None:
        with self._counting:
            self.now += 1
            self.most = max(self.most, self.now)

    def __exit__(self, *_: object) -> None:
        with self._counting:
            self.now -= 1


class Gate(Inside):
    """A handler that waits until the gate is opened."""

    def __init__(self) -> None:
        super().__init__()
        self._open = asyncio.Event()

    def open(self) -> None:
        self._open.set()

    async def __call__(self, **_: Any) -> None:
        with self:
            await self._open.wait()


__all__ = [
    "AT_ONCE",
    "MINUTE",
    "SECOND",
    "Crossing",
    "EventName",
    "EventRecorder",
    "Gate",
    "Inside",
    "Once",
    "Run",
    "Tasks",
    "Telemetry",
    "Worker",
    "at_once",
    "job",
    "jobs",
    "lease_ahead",
    "lost",
    "settings",
    "worker",
]  # fmt: skip
