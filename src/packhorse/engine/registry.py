"""What a worker can run: tasks by name."""

import threading
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Protocol

import msgspec

from packhorse.engine.failures import Fingerprint
from packhorse.engine.policy import Policy
from packhorse.engine.tx import Opens
from packhorse.errors import ConfigError, DuplicateTask, NoTransactions
from packhorse.model import codec, limits
from packhorse.model.lease import Lease

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


class Run(StrEnum):
    """Where a task runs: on the event loop, in a thread, in a process that can be killed."""

    ASYNC = "async"
    THREAD = "thread"
    PROCESS = "process"


def keywords(payload: bytes) -> Arguments:
    """Arguments of a payload that is a JSON object: each by its name."""
    return (), codec.decode(payload, dict[str, Any])


def plain(value: object) -> bytes | None:
    """A result as it is stored; no value, no result."""
    return None if value is None else codec.encode(value)


def as_it_is(policy: Policy, _headers: bytes) -> Policy:
    """The policy of a task whose jobs do not ask for another one."""
    return policy


class Fetch(Protocol):
    """Completes the payload of a job with something that only the store knows."""

    def wanted(self, headers: bytes) -> bool:
        """Whether there is anything to fetch for a job; asked for every one."""

    async def payload(self, lease: Lease, payload: bytes) -> bytes:
        """The payload, completed."""


class Batching(msgspec.Struct, frozen=True):
    """How many jobs are run together at most, and how long the first may wait for the others (microseconds)."""

    size: int
    wait: int

    def __post_init__(self) -> None:
        limits.within("batch size", self.size, 1, limits.ITEMS)
        limits.span("batch wait", self.wait)


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A task as the engine sees it: a name, a function and how to treat them.

    ``call`` is called with what ``decode`` gives, wherever the job runs; nothing else calls the code of a job.
    ``tune`` makes the policy of one job from the task's and the job's headers, if it has any. If it ``halts``, a job that
    fails for good holds up its lane until a person has looked. With ``batching``, the function gets the contexts of all
    jobs run together. With a ``transaction``, what the function writes in it is committed with the settlement. A
    ``fingerprint``, text or a function of the exception, replaces the one that failures of the task get.
    """

    name: str
    call: Callable[..., Any]
    run: Run = Run.ASYNC
    policy: Policy = msgspec.field(default_factory=Policy)
    aliases: tuple[str, ...] = ()
    fetch: Fetch | None = None
    decode: Callable[[bytes], Arguments] = keywords
    tune: Callable[[Policy, bytes], Policy] = as_it_is
    encode: Callable[[Any], bytes | None] = plain
    halts: bool = False
    batching: Batching | None = None
    transaction: Opens | None = None
    fingerprint: Fingerprint | None = None

    def __post_init__(self) -> None:
        for name in (self.name, *self.aliases):
            limits.name("task", name)
        if not callable(self.call):
            raise ConfigError(f"The task {self.name!r} has nothing to call: give a function")
        if self.transaction is not None and (self.run is Run.PROCESS or self.batching is not None):
            raise NoTransactions(
                f"the task {self.name!r} runs in a child process, or with others in a batch, where none reaches it; "
                'make it async, or say run="thread"'
            )


class Registry:
    """Tasks by name and by alias. Safe to fill from several threads."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._adding = threading.Lock()

    def add(self, entry: Entry) -> None:
        """Make a task known; two under one name are refused."""
        with self._adding:
            taken = [name for name in (entry.name, *entry.aliases) if name in self._entries]
            if taken:
                raise DuplicateTask(taken[0])
            self._entries |= dict.fromkeys((entry.name, *entry.aliases), entry)

    def find(self, task: str, queue: str = "default") -> Entry | None:  # noqa: ARG002 - an app's differs by queue
        """What runs a job of this task in this queue."""
        return self._entries.get(task)

    @property
    def takes_any(self) -> bool:
        """Whether it may run jobs of tasks it does not name."""
        return False

    def batching(self, queue: str) -> Batching | None:  # noqa: ARG002 - an app's differs by queue
        """How the jobs of a queue are run together, if they are."""
        return None

    @property
    def queues(self) -> tuple[str, ...]:
        """Every queue that it names."""
        return ()

    @property
    def names(self) -> tuple[str, ...]:
        """Every name that jobs may carry."""
        return tuple(self._entries)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Every task, once."""
        return tuple({id(entry): entry for entry in self._entries.values()}.values())
