"""One attempt, a straight pipe from lease to settlement: open, decode, call, encode; every failure is judged."""

import asyncio
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from types import TracebackType
from typing import Any, Literal

import msgspec

from packhorse.engine.attempt import Attempt, Phase, enter_batch
from packhorse.engine.context import Context, context_of
from packhorse.engine.django import DJANGO, close_broken_connections_of_coroutines, close_old_connections
from packhorse.engine.executors.child_process import ChildNotStarted
from packhorse.engine.executors.process import ChildPool
from packhorse.engine.failures import FailureDetails
from packhorse.engine.judge import Cause, judge
from packhorse.engine.settlement_queue import SettlementQueue
from packhorse.engine.signals import SettleAs
from packhorse.errors import OutcomeUnknown, StoreUnavailable, TooManyBytes, TooManyEffects
from packhorse.model import limits
from packhorse.model.clock import Clock
from packhorse.model.codec import Codec, JobIdentity
from packhorse.model.exception_text import failure_of
from packhorse.model.lease import Settlement
from packhorse.model.outcome import Again, Dead, Done, Outcome, Wait
from packhorse.model.randomness import Randomness
from packhorse.model.reason import WaitReason

NOTHING_AROUND = nullcontext()
Middleware = Callable[[Context], AbstractContextManager[Any]]


class AttemptRunner:
    """Runs attempts. Middleware stands around the call of every one, the first outermost."""

    def __init__(
        self,
        *,
        codec: Codec,
        middleware: Sequence[Middleware],
        clock: Clock,
        chance: Randomness,
        loop_ends: Callable[[], bool] = lambda: False,
        details: FailureDetails | None = None,
    ) -> None:
        self._codec, self._loop_ends = codec, loop_ends
        self._details = details or FailureDetails()
        self._middleware = tuple(middleware)
        self._clock = clock
        self._chance = chance

    async def run(self, attempt: Attempt) -> Settlement | None:
        """Run an attempt on the loop; whatever the user's code does becomes an outcome. None: it is no longer ours."""
        attempt.enter()
        try:
            attempt.raise_if_stopped()
            args, options = attempt.entry.decode(self.payload(attempt))
            with self._around(attempt):
                value = await attempt.entry.call(*args, **options)
            return self._settled(attempt, Done(attempt.entry.encode(value), attempt.policy.keep_done))
        except SettleAs as aside:
            return self._settled(attempt, aside.outcome)
        except BaseException as error:  # noqa: BLE001 - also SystemExit and the like: the job failed, the worker lives
            return self.judged(attempt, error)
        finally:
            if DJANGO in sys.modules:
                close_broken_connections_of_coroutines()

    def run_here(self, attempt: Attempt) -> Settlement | None:
        """Run an attempt in the calling thread."""
        attempt.enter(Phase.RUNNING_IN_THREAD)
        if DJANGO in sys.modules:
            close_old_connections()
        try:
            attempt.raise_if_stopped()
            args, options = attempt.entry.decode(self.payload(attempt))
            with self._around(attempt):
                value = attempt.entry.call(*args, **options)
            return self._settled(attempt, Done(attempt.entry.encode(value), attempt.policy.keep_done))
        except SettleAs as aside:
            return self._settled(attempt, aside.outcome)
        except BaseException as error:  # noqa: BLE001
            return self.judged(attempt, error)
        finally:
            if DJANGO in sys.modules:
                close_old_connections()

    async def run_apart(self, attempt: Attempt, children: ChildPool) -> Settlement | None:
        """Run an attempt in a child process, which decodes, encodes and judges by itself."""
        attempt.enter()
        try:
            attempt.raise_if_stopped()
            with self._around(attempt):
                settlement = await children.call(attempt, self.payload(attempt), self.headers_in_child(attempt))
            if settlement is None or isinstance(settlement.outcome, Done):
                return settlement
            return msgspec.structs.replace(settlement, outcome=self._details.sign(settlement.outcome))
        except ChildNotStarted as error:
            return self._not_begun(attempt, error, error.delay)
        except BaseException as error:  # noqa: BLE001
            return self.judged(attempt, error)

    async def run_together(self, attempts: Sequence[Attempt]) -> list[Settlement | None]:
        """Run attempts as one call. Those that were settled meanwhile stay so; the others share the end of the call.

        Those that should not begin are left out of it, and end each for its own reason.
        """
        enter_batch()
        left_out: dict[Attempt, Settlement | None] = {}
        for attempt in attempts:
            attempt.phase = Phase.RUNNING
            try:
                attempt.raise_if_stopped()
            except BaseException as error:  # noqa: BLE001
                left_out[attempt] = self.judged(attempt, error)
        live = [attempt for attempt in attempts if attempt not in left_out]
        try:
            if live:
                with self._around(live[0]):
                    await live[0].entry.call(live)
        except BaseException as error:  # noqa: BLE001
            ended = {attempt: self.judged(attempt, error) for attempt in live}
        else:
            ended = {attempt: self.done(attempt) for attempt in live}
        finally:
            if DJANGO in sys.modules:
                close_broken_connections_of_coroutines()
        return [(left_out | ended)[attempt] for attempt in attempts]

    def done(self, attempt: Attempt) -> Settlement | None:
        """The settlement of an attempt that ended well and has no result."""
        return self._settled(attempt, Done(None, attempt.policy.keep_done))

    def _settled(self, attempt: Attempt, outcome: Outcome) -> Settlement | None:
        if attempt.stop_cause is Cause.LOST:
            return None
        try:
            return Settlement(attempt.lease, outcome, tuple(attempt.effects))
        except (TooManyEffects, TooManyBytes) as error:
            return self.judged(attempt, error)

    def judged(self, attempt: Attempt, error: BaseException) -> Settlement | None:
        """The settlement of an attempt that failed: its effects are dropped."""
        if attempt.stop_cause is None and isinstance(error, asyncio.CancelledError) and self._loop_ends():
            attempt.stop_cause = Cause.SHUTDOWN
        policy, chance, now = attempt.policy, self._chance(), self._clock.now()
        outcome = judge(policy, attempt.lease, error, stopped=attempt.stop_cause, chance=chance, now=now)
        if outcome is not None:
            outcome = self._details.add(outcome, attempt, error, self._time_of(attempt))
        if isinstance(outcome, Dead) and attempt.entry.halts and attempt.lease.lane is not None:
            outcome = _halted(outcome)
        return None if outcome is None else Settlement(attempt.lease, outcome)

    def payload(self, attempt: Attempt) -> bytes:
        """The payload without its seals, and with what was fetched for it."""
        if attempt.payload is not None:
            return attempt.payload
        lease = attempt.lease
        if self._codec.passes(lease.payload):
            return lease.payload
        return self._codec.open(lease.payload, JobIdentity(lease.id, lease.task))

    def headers_in_child(self, attempt: Attempt) -> bytes:
        """The headers that an attempt has in a child process."""
        return attempt.lease.headers

    async def record(self, attempt: Attempt, queue: SettlementQueue) -> Settlement | None:
        """Have it recorded that an attempt begins; if it was stopped meanwhile, this is its settlement."""
        attempt.phase = Phase.PREPARING
        try:
            attempt.raise_if_stopped()
            await queue.record(attempt)
            attempt.raise_if_stopped()
        except BaseException as error:  # noqa: BLE001
            return self.judged(attempt, error)
        return None

    async def fetch(self, attempt: Attempt) -> Settlement | None:
        """Complete the payload of an attempt; if that cannot be done it has none, and this is its settlement."""
        assert attempt.entry.fetch is not None
        attempt.phase = Phase.PREPARING
        try:
            attempt.raise_if_stopped()
            attempt.payload = await attempt.entry.fetch.payload(attempt.lease, self.payload(attempt))
        except SettleAs as aside:
            return self._settled(attempt, aside.outcome)
        except (StoreUnavailable, OutcomeUnknown) as error:
            return self._not_begun(attempt, error, limits.SECOND)
        except BaseException as error:  # noqa: BLE001
            return self.judged(attempt, error)
        return None

    def _not_begun(self, attempt: Attempt, error: Exception, delay: int) -> Settlement | None:
        """The settlement of an attempt that could not begin, through no fault of its job."""
        if attempt.stop_cause is not None:
            return self.judged(attempt, error)
        outcome = Again(delay, failure_of(error), charged=False)
        return Settlement(attempt.lease, self._details.add(outcome, attempt, error, self._time_of(attempt)))

    def _time_of(self, attempt: Attempt) -> int:
        """How long an attempt has run."""
        return self._clock.steady() - attempt.started_at if attempt.started_at else 0

    def _around(self, attempt: Attempt) -> AbstractContextManager[Any]:
        if not self._middleware:
            return NOTHING_AROUND
        stack = ExitStack()
        with stack:
            for around in self._middleware:
                stack.enter_context(around(context_of(attempt)))
            return _Around(stack.pop_all())


class _Around:
    """Middleware around a call. It sees what the call raises and may raise something else, but cannot swallow it."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]:
        self._stack.__exit__(kind, error, trace)
        return False


def _halted(dead: Dead) -> Wait:
    """Its lane stands still until a person has looked: a job that waits keeps its slot."""
    why = f"{dead.reason}: {dead.error.type}: {dead.error.message}".encode()[: limits.DETAIL].decode(errors="ignore")
    return Wait(WaitReason.INTERVENTION, detail=why)
