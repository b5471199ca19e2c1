"""The retry rules of jobs, around one call: inside a handler or anywhere else."""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

from packhorse.engine.attempt import current_attempt_or_none
from packhorse.engine.judge import judge
from packhorse.engine.policy import Kinds, Policy
from packhorse.model.backoff import Backoff, exponential
from packhorse.model.clock import SYSTEM, Clock
from packhorse.model.lease import Lease
from packhorse.model.outcome import Again
from packhorse.model.randomness import SYSTEM_RANDOMNESS

R = TypeVar("R")

ATTEMPTS = 3
BACKOFF = exponential(2, jitter=0)


class Retrying:
    """How often and how patiently a call is tried."""

    def __init__(
        self,
        *,
        attempts: int = ATTEMPTS,
        backoff: Backoff = BACKOFF,
        retry_on: Kinds = (),
        dead_on: Kinds = (),
        clock: Clock = SYSTEM,
    ) -> None:
        self._policy = Policy(attempts=attempts, backoff=backoff, retry_on=retry_on, dead_on=dead_on)
        self._clock = clock

    async def call(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Call until it works, or until it is of no use any more; then its last error is raised."""
        attempt = 0
        while True:
            attempt += 1
            try:
                value = function(*args, **options)
                return await value if inspect.isawaitable(value) else value
            except Exception as error:
                pause = self._pause(error, attempt)
                if pause is None:
                    raise
            await self._clock.sleep(pause)

    def _pause(self, error: Exception, attempt: int) -> int | None:
        """Return the time until the next attempt; None if there is no other, or if the job times out before it."""
        lease = Lease(
            id=bytes(16), token=bytes(16), until=0, task="", queue="", payload=b"", headers=b"{}",
            priority=0, attempt=attempt, lost=0, enqueued_at=0,
        )  # fmt: skip
        chance, now = SYSTEM_RANDOMNESS(), self._clock.now()
        outcome = judge(self._policy, lease, error, stopped=None, chance=chance, now=now)
        if not isinstance(outcome, Again):
            return None
        running = current_attempt_or_none()
        deadline = None if running is None else running.deadline
        if deadline is not None and self._clock.steady() + outcome.delay >= deadline:
            return None
        return outcome.delay


@overload
async def retrying(
    function: Callable[..., Awaitable[R]],
    /,
    *args: Any,
    attempts: int = ...,
    backoff: Backoff = ...,
    retry_on: Kinds = ...,
    dead_on: Kinds = ...,
    **options: Any,
) -> R: ...
@overload
async def retrying(
    function: Callable[..., R],
    /,
    *args: Any,
    attempts: int = ...,
    backoff: Backoff = ...,
    retry_on: Kinds = ...,
    dead_on: Kinds = ...,
    **options: Any,
) -> R: ...
async def retrying(
    function: Callable[..., Any],
    /,
    *args: Any,
    attempts: int = ATTEMPTS,
    backoff: Backoff = BACKOFF,
    retry_on: Kinds = (),
    dead_on: Kinds = (),
    **options: Any,
) -> Any:
    """Call a function by the rules that jobs are retried by: by default three tries, 2 and 4 seconds apart.

    Inside a job it never waits past the job's own time: then the last error is raised at once.
    """
    patience = Retrying(attempts=attempts, backoff=backoff, retry_on=retry_on, dead_on=dead_on)
    return await patience.call(function, *args, **options)
