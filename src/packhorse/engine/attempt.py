"""One attempt of one job as the engine sees it, from its lease to its settlement."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from enum import Enum
from typing import TYPE_CHECKING

from packhorse.engine.deadlines import Deadline
from packhorse.engine.emitted import EmittedEffects
from packhorse.engine.judge import Cause
from packhorse.engine.policy import Policy
from packhorse.engine.registry import Entry
from packhorse.engine.tx import AttemptTransaction
from packhorse.errors import NotInAJob
from packhorse.model.effect import Effect
from packhorse.model.job import EMPTY
from packhorse.model.lease import Lease, Settlement

if TYPE_CHECKING:
    from packhorse.engine.context import Context

CURRENT_ATTEMPT: ContextVar["Attempt | None"] = ContextVar("packhorse_attempt")


class Phase(Enum):
    """How far an attempt has come. A thread that runs an attempt moves it on, else only the worker's loop does.

    What the keeper takes back from its own thread is decided by who pops the attempt (from the queue of the threads, the
    pending ones, or the started tasks), and who may settle it by ``Attempt.try_end``; neither is decided by the phase.
    """

    PENDING = "pending"  # leased: waits for a slot, for the rest of its batch, or to run alone
    QUEUED_IN_THREAD = "queued in thread"
    RUNNING_IN_THREAD = "running in thread"
    STARTING = "starting"  # its task waits for its first turn of the loop, or its transaction is being opened
    PREPARING = "preparing"  # its start is recorded, or its payload is fetched
    RUNNING = "running"  # on the loop, or in a child process
    FINISHED = "finished"  # it has left its slot, or will never have one


class Attempt:
    """What the engine knows of an attempt. User code sees it as a ``Context``.

    ``stop_cause`` says why the engine wants it to stop; ``deadline`` is the steady moment at which its time is up.
    Whoever ends it first, the attempt itself or the engine on its behalf, settles it.
    """

    context: "Context | None" = None  # once user code has asked for it
    transaction: AttemptTransaction | None = None
    payload: bytes | None = None  # once something had to be fetched for it
    stop_cause: Cause | None = None
    phase = Phase.PENDING
    settlement_refused = False
    started_at = duration = valid_until = held_steps = 0
    deadline: int | None = None
    timer: Deadline | None = None
    emitted: EmittedEffects | None = None  # once it emits something: few attempts do
    committed = False  # its settlement was written by its own transaction
    start_timeout: Callable[[], None] | None = None
    write_progress: "Callable[[Attempt, bytes], None] | None" = None
    write_effects: "Callable[[Attempt], None] | None" = None
    settle_early: "Callable[[Attempt, BaseException | None], None] | None" = None
    followers: "tuple[Attempt, ...]" = ()
    start_recorded: "asyncio.Future[None] | None" = None  # of a job lost before: the store knows that it begins

    def __init__(self, lease: Lease, entry: Entry) -> None:
        self.lease = lease
        self.entry = entry
        self.policy, self._fault = (entry.policy, None) if lease.headers == EMPTY else _tuned(entry, lease)
        self.effects: list[Effect] = []
        self._ending = threading.Lock()

    @property
    def with_followers(self) -> "list[Attempt]":
        """This attempt and those of its batch that it leads."""
        return [self, *self.followers]

    def enter(self, phase: Phase = Phase.RUNNING) -> None:
        """Make it the current attempt of the caller's context."""
        self.phase = phase
        CURRENT_ATTEMPT.set(self)

    def raise_if_stopped(self) -> None:
        """Raise if this attempt should come to its end, or should never have begun."""
        if self._fault is not None:
            raise self._fault
        if self.stop_cause is not None:
            raise asyncio.CancelledError(self.stop_cause.value)

    def emit(self, effects: Sequence[Effect]) -> None:
        """Have effects written while the attempt goes on; from any thread."""
        if (emitted := self.emitted) is None:
            made = EmittedEffects(self.lease, self.held_steps, kept=self.transaction is not None)
            emitted = vars(self).setdefault("emitted", made)  # one of several threads makes it
        emitted.add(effects)
        if self.write_effects is not None:
            self.write_effects(self)

    def take_emitted(self) -> tuple[Effect, ...]:
        """Take a bounded part of the effects to be written while the attempt goes on."""
        return () if self.emitted is None else self.emitted.take()

    def next_held_step(self) -> Settlement | None:
        """Take the next held step with emitted effects; None if all were taken."""
        return None if self.emitted is None else self.emitted.next_step()

    def unwritten_steps(self) -> list[Settlement]:
        """The held steps with emitted effects that are not known to be written."""
        return [] if self.emitted is None else self.emitted.unwritten()

    def held_step_written(self, step: int) -> None:
        """Forget the effects of a held step that the store has written."""
        if self.emitted is not None:
            self.emitted.written(step)

    def settled_by_commit(self) -> None:
        """Note that its own transaction has settled it, with all that it emitted."""
        self.committed = True
        if self.emitted is not None:
            self.emitted.drop()

    def conclude(self, error: BaseException | None) -> None:
        """Settle this attempt before the others of its batch: it succeeded, or failed with this error."""
        if self.settle_early is not None:
            self.settle_early(self, error)

    def try_end(self) -> bool:
        """Take the right to settle this attempt; False if it was taken before."""
        return self._ending.acquire(blocking=False)

    @property
    def ended(self) -> bool:
        """Whether the right to settle it was taken."""
        return self._ending.locked()


def _tuned(entry: Entry, lease: Lease) -> tuple[Policy, Exception | None]:
    """The policy of this job; headers that make no sense fail the job, not the code that reads them."""
    try:
        return entry.tune(entry.policy, lease.headers), None
    except Exception as error:  # noqa: BLE001 - headers may come from anywhere
        return entry.policy, error


def enter_batch() -> None:
    """Leave the caller's context without a current attempt: several run in it."""
    CURRENT_ATTEMPT.set(None)


def current_attempt_or_none() -> Attempt | None:
    """The attempt this code runs in, if it runs in one."""
    return CURRENT_ATTEMPT.get(None)


def current_attempt() -> Attempt:
    """The attempt this code runs in; in a batch there are several, and none is current."""
    try:
        attempt = CURRENT_ATTEMPT.get()
    except LookupError:
        raise NotInAJob from None
    if attempt is None:
        raise NotInAJob("Several jobs run here together: use the messages of the batch")
    return attempt
