"""The tasks and handlers of an app, as its workers look them up."""

import inspect
from collections.abc import Callable
from typing import Any

import msgspec

from packhorse.engine.context import current
from packhorse.engine.policy import Policy
from packhorse.engine.registry import Arguments, Batching, Entry, Registry, Run
from packhorse.errors import ConfigError
from packhorse.jobs import envelope
from packhorse.jobs.batch import together
from packhorse.jobs.desk import Desk
from packhorse.jobs.gather import GATHER, Deliveries
from packhorse.jobs.gather import entry as gather_entry
from packhorse.jobs.options import NOTHING, Options, over
from packhorse.jobs.task import Task
from packhorse.jobs.view import of_lease
from packhorse.stores.contract import Store


class AppRegistry(Registry):
    """Finds what runs a job of a queue: the task of that name, else the queue's handler.

    What is said about attempts differs from queue to queue, so an entry is made for each pair, once.
    """

    def __init__(self, desk: Desk, store: Callable[[], Store]) -> None:
        super().__init__()
        self._desk, self._store = desk, store
        self._tasks: dict[str, Task[..., Any]] = {}
        self._handlers: dict[str, Entry] = {}
        self._batches: dict[str, Entry] = {}
        self._gather, self._fetch = gather_entry(desk), Deliveries(desk)
        self._found: dict[tuple[str, str], Entry] = {}

    def add_task(self, task: Task[..., Any]) -> None:
        """Make a task known; one that wants a transaction is refused where the store has none."""
        if task.transaction is not None:
            task.transaction.check(self._store())
        self.add(task.entry(NOTHING))
        self._tasks |= dict.fromkeys((task.name, *task.aliases), task)
        self._found = {}

    def add_handler(self, queue: str, function: Callable[..., Any], said: Options) -> None:
        """Let a function have all jobs of a queue that no task is there for."""
        if queue in self._handlers:
            raise ConfigError(f"The queue {queue!r} has a handler already: match on job.task inside it")
        coroutine = inspect.iscoroutinefunction(function)
        self._handlers[queue] = Entry(
            name=f"handler of {queue}",
            call=_with_job(function, coroutine=coroutine),
            run=Run.ASYNC if coroutine else Run.THREAD,
            policy=over(said, self._desk.queues.get(queue, NOTHING), self._desk.app).policy(),
            decode=_nothing,
            tune=tuned,
        )
        self._found = {}

    def add_batch(self, queue: str, function: Callable[..., Any], batching: Batching) -> None:
        """Let a function have all jobs of a queue, several at a time."""
        if not inspect.iscoroutinefunction(function):
            raise ConfigError(f"The batch handler of {queue!r} must be async: await asyncio.to_thread(…) inside it")
        if queue in self._batches:
            raise ConfigError(f"The queue {queue!r} has a batch handler already: match on message.task inside it")
        self._batches[queue] = Entry(
            name=f"batches of {queue}",
            call=together(function),
            policy=over(self._desk.queues.get(queue, NOTHING), self._desk.app).policy(),
            tune=tuned,
            batching=batching,
        )
        self._found = {}

    @property
    def takes_any(self) -> bool:
        """Whether some queue has a handler for whatever comes."""
        return bool(self._handlers or self._batches)

    def batching(self, queue: str) -> Batching | None:
        """How the jobs of a queue are run together, if they are."""
        entry = self._batches.get(queue)
        return None if entry is None else entry.batching

    def find(self, task: str, queue: str = "default") -> Entry | None:
        """What runs a job of this task in this queue."""
        return self._found.get((task, queue)) or self._look(task, queue)

    def _look(self, name: str, queue: str) -> Entry | None:
        if name == GATHER:
            return self._gather
        if queue in self._batches:
            return self._batches[queue]
        task = self._tasks.get(name)
        if task is None:
            return self._handlers.get(queue)
        said = over(task.options, self._desk.queues.get(queue, NOTHING), self._desk.app)
        found = msgspec.structs.replace(task.entry(said), tune=tuned, fetch=self._fetch)
        self._found[name, queue] = found  # tasks of the app only: other names may be made from data, and never end
        return found

    @property
    def queues(self) -> tuple[str, ...]:
        """Every queue that a task, a handler or the app names."""
        named = [task.wish.queue for task in self._tasks.values() if task.wish.queue is not None]
        return tuple(dict.fromkeys((*named, *self._handlers, *self._batches, *self._desk.queues)))

    @property
    def modules(self) -> tuple[str, ...]:
        """Where the functions of the tasks stand that run in child processes."""
        apart = [task for task in self._tasks.values() if task.run is Run.PROCESS]
        return tuple(dict.fromkeys(task.function.__module__ for task in apart))

    def task(self, name: str) -> Task[..., Any] | None:
        """The task with this name or alias."""
        return self._tasks.get(name)


def tuned(policy: Policy, headers: bytes) -> Policy:
    """The policy with what was said about this one call."""
    own = envelope.own(headers)
    if own is envelope.NONE or not own.options:
        return policy
    said = own.options
    fields = {name: getattr(said, name) for name in Options.__struct_fields__ if name != "priority"}
    return msgspec.structs.replace(policy, **{name: value for name, value in fields.items() if value is not None})


def _with_job(function: Callable[..., Any], *, coroutine: bool) -> Callable[..., Any]:
    if coroutine:

        async def handle() -> Any:
            return await function(of_lease(current().lease))

        return handle
    return lambda: function(of_lease(current().lease))


def _nothing(_payload: bytes) -> Arguments:
    return (), {}
