"""Runs attempts within the integrations of an app; an app without any has a plain ``AttemptRunner``."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from packhorse.engine.attempt import Attempt
from packhorse.engine.attempt_runner import AttemptRunner
from packhorse.engine.executors.process import ChildPool
from packhorse.model.lease import Settlement
from packhorse.model.trace_context import text_headers, with_context
from packhorse.telemetry.integration import AttemptFailure, Integrations, JobRun, failure_in


def runner_maker(integrations: Integrations) -> Callable[..., AttemptRunner]:
    """Give what makes the runner of a worker."""
    return partial(ObservedRunner, integrations) if integrations else AttemptRunner


class ObservedRunner(AttemptRunner):
    """Runs attempts within integrations, and tells these of failed ones."""

    def __init__(self, integrations: Integrations, **options: Any) -> None:
        super().__init__(**options)
        self._integrations = integrations
        self._judged_in_child: set[Attempt] = set()

    async def run(self, attempt: Attempt) -> Settlement | None:
        """Run an attempt on the loop."""
        with self._integrations.running([attempt.lease]) as run:
            return _ended(run, await super().run(attempt))

    def run_here(self, attempt: Attempt) -> Settlement | None:
        """Run an attempt in the calling thread."""
        with self._integrations.running([attempt.lease]) as run:
            return _ended(run, super().run_here(attempt))

    async def run_apart(self, attempt: Attempt, children: ChildPool) -> Settlement | None:
        """Run an attempt in a child process."""
        with self._integrations.running([attempt.lease]) as run:
            self._judged_in_child.add(attempt)
            settlement = await super().run_apart(attempt, children)
            if attempt in self._judged_in_child:
                self._judged_in_child.discard(attempt)
                self._report(attempt, settlement, None)
            return _ended(run, settlement)

    async def run_together(self, attempts: Sequence[Attempt]) -> list[Settlement | None]:
        """Run attempts as one call."""
        with self._integrations.running([attempt.lease for attempt in attempts]) as run:
            run.settlements = settlements = await super().run_together(attempts)
            return settlements

    def judged(self, attempt: Attempt, error: BaseException) -> Settlement | None:
        """The settlement of an attempt that failed."""
        self._judged_in_child.discard(attempt)
        settlement = super().judged(attempt, error)
        self._report(attempt, settlement, error)
        return settlement

    def headers_in_child(self, attempt: Attempt) -> bytes:
        """The headers with the context of this attempt, for its part in the child process."""
        return with_context(attempt.lease.headers, self._integrations.carried())

    def _report(self, attempt: Attempt, settlement: Settlement | None, error: BaseException | None) -> None:
        if settlement is None or failure_in(settlement.outcome) is None:
            return
        try:
            payload = self.payload(attempt)
        except Exception:  # noqa: BLE001 - it is why the attempt failed
            payload = b""
        self._integrations.failed(AttemptFailure(attempt.lease, payload, settlement.outcome, error))


class ContinuedRunner(AttemptRunner):
    """Runs attempts in a child process, within what the worker has begun."""

    def __init__(self, integrations: Integrations, **options: Any) -> None:
        super().__init__(**options)
        self._integrations = integrations

    async def run(self, attempt: Attempt) -> Settlement | None:
        """Run an attempt on the loop."""
        with self._continued(attempt):
            return await super().run(attempt)

    def run_here(self, attempt: Attempt) -> Settlement | None:
        """Run an attempt in the calling thread."""
        with self._continued(attempt):
            return super().run_here(attempt)

    @contextmanager
    def _continued(self, attempt: Attempt) -> Iterator[None]:
        with self._integrations.continued(text_headers(attempt.lease.headers)):
            yield


def _ended(run: JobRun, settlement: Settlement | None) -> Settlement | None:
    run.settlements = (settlement,)
    return settlement
