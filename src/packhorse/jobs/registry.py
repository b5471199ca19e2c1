"""The tasks and handlers of an app, as its workers look them up."""

import inspect
from collections.abc import Callable
from typing import Any

import msgspec

from packhorse.engine.policy import Policy
from packhorse.engine.registry import Batching, Entry, Registry, Run
from packhorse.errors import ConfigError
from packhorse.jobs.children import COLLECT, ChildResults
from packhorse.jobs.children import entry as collect_entry
from packhorse.jobs.client import Client
from packhorse.jobs.handlers import call_of_batch, call_of_handler, no_arguments
from packhorse.jobs.metadata import NO_METADATA, metadata_of
from packhorse.jobs.options import NO_OPTIONS, JobOptions
from packhorse.jobs.task import Task
from packhorse.stores.contract import Store


class AppRegistry(Registry):
    """Finds what runs a job of a queue: the task of that name, else the queue's handler.

    Options of attempts differ from queue to queue, so an entry is made for each pair, once.
    """

    def __init__(self, client: Client, store: Callable[[], Store]) -> None:
        super().__init__()
        self._levels, self._store = client.builder.levels, store
        self._tasks: dict[str, Task[..., Any]] = {}
        self._handlers: dict[str, Entry] = {}
        self._batches: dict[str, Entry] = {}
        self._collect, self._fetch = collect_entry(client), ChildResults(client)
        self._found: dict[tuple[str, str], Entry] = {}

    def add_task(self, task: Task[..., Any]) -> None:
        """Make a task known; one that wants a transaction is refused where the store has none."""
        if task.transaction is not None:
            task.transaction.check(self._store())
        self.add(task.entry(NO_OPTIONS))
        self._tasks |= dict.fromkeys((task.name, *task.aliases), task)
        self._found = {}

    def add_handler(self, queue: str, function: Callable[..., Any]) -> None:
        """Let a function have all jobs of a queue that have no task of their own."""
        if queue in self._handlers:
            raise ConfigError(f"The queue {queue!r} has a handler already: match on job.task inside it")
        coroutine = inspect.iscoroutinefunction(function)
        self._handlers[queue] = Entry(
            name=f"handler of {queue}",
            call=call_of_handler(function),
            run=Run.ASYNC if coroutine else Run.THREAD,
            policy=self._levels.merged(queue).policy(),
            decode=no_arguments,
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
            call=call_of_batch(function),
            policy=self._levels.merged(queue).policy(),
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
        if name == COLLECT:
            return self._collect
        if queue in self._batches:
            return self._batches[queue]
        task = self._tasks.get(name)
        if task is None:
            return self._handlers.get(queue)
        options = self._levels.merged(queue, task.options)
        found = msgspec.structs.replace(task.entry(options), tune=tuned, fetch=self._fetch)
        self._found[name, queue] = found  # tasks of the app only: other names may be made from data, and never end
        return found

    @property
    def queues(self) -> tuple[str, ...]:
        """Every queue that a task, a handler or the app names."""
        named = [task.call_options.queue for task in self._tasks.values() if task.call_options.queue is not None]
        return tuple(dict.fromkeys((*named, *self._handlers, *self._batches, *self._levels.queues)))

    @property
    def modules(self) -> tuple[str, ...]:
        """Where the functions of the tasks stand that run in child processes."""
        apart = [task for task in self._tasks.values() if task.run is Run.PROCESS]
        return tuple(dict.fromkeys(task.function.__module__ for task in apart))

    def task(self, name: str) -> Task[..., Any] | None:
        """The task with this name or alias."""
        return self._tasks.get(name)


def tuned(policy: Policy, headers: bytes) -> Policy:
    """Change the policy by the options of one call."""
    metadata = metadata_of(headers)
    if metadata is NO_METADATA or not metadata.options:
        return policy
    options = metadata.options
    fields = {name: getattr(options, name) for name in JobOptions.__struct_fields__ if name != "priority"}
    return msgspec.structs.replace(policy, **{name: value for name, value in fields.items() if value is not None})
