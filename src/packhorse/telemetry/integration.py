"""What connects Packhorse with packages for tracing and error tracking."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from types import TracebackType
from typing import Literal

import msgspec

from packhorse.errors import InvalidOption
from packhorse.model.clock import Clock
from packhorse.model.job import Failure, NewJob
from packhorse.model.lease import Lease, Settlement
from packhorse.model.outcome import Again, Dead, Outcome
from packhorse.model.rule import Rule
from packhorse.model.trace_context import together, with_context
from packhorse.telemetry.emit import Telemetry
from packhorse.telemetry.redact import redacted

RuleOf = Callable[[str], Rule | None]
"""The rule of a schedule that is declared in this process."""

_LOG = logging.getLogger("packhorse.telemetry")


class Sending:
    """Jobs on their way to the store; ``duration`` is known at the end."""

    def __init__(self, jobs: Sequence[NewJob]) -> None:
        self.jobs, self.duration = jobs, 0

    @property
    def queue(self) -> str | None:
        """The queue of the jobs; None if there are several."""
        queues = {job.queue for job in self.jobs}
        return queues.pop() if len(queues) == 1 else None


class JobRun:
    """One call of user code, for a job or for the jobs of a batch; settlements and ``duration`` are known at the end."""

    def __init__(self, leases: Sequence[Lease], began: int) -> None:
        self.leases, self.began, self.duration = leases, began, 0
        self.settlements: Sequence[Settlement | None] = ()

    @property
    def queue(self) -> str:
        """The queue of the jobs."""
        return self.leases[0].queue

    @property
    def failure(self) -> Failure | None:
        """The first failure of these attempts."""
        failures = (failure_in(each.outcome) for each in self.settlements if each is not None)
        return next((each for each in failures if each is not None), None)


class AttemptFailure(msgspec.Struct, frozen=True):
    """An attempt that failed, as it was judged. The exception is None if it was raised in another process."""

    lease: Lease
    payload: bytes
    outcome: Outcome
    error: BaseException | None


def failure_in(outcome: Outcome) -> Failure | None:
    """The failure of an attempt that was not cancelled."""
    return outcome.error if isinstance(outcome, Again | Dead) else None


def shown_message(kind: str, message: str) -> str:
    """The message of an error without secrets; none of those that quote arguments."""
    return "" if kind.endswith("ValidationError") else redacted(message)


class Integration:
    """Does nothing in any of its methods: a subclass has those that it needs.

    What a method raises is logged, and harms no job.
    """

    def listen(self, telemetry: Telemetry, rule_of: RuleOf) -> None:
        """Subscribe to events, once for each app."""

    def carried(self) -> Mapping[str, str]:
        """The headers by which a job continues the trace of the code that enqueues it."""
        return {}

    def sending(self, _sending: Sending) -> AbstractContextManager[object]:
        """Stand around the call that stores jobs."""
        return nullcontext()

    def running(self, _run: JobRun) -> AbstractContextManager[object]:
        """Stand around an attempt, from before its payload is decoded until it is judged."""
        return nullcontext()

    def continued(self, _headers: Mapping[str, str]) -> AbstractContextManager[object]:
        """Stand around the part of an attempt that runs in a child process."""
        return nullcontext()

    def failed(self, failure: AttemptFailure) -> None:
        """Note a failed attempt."""


class Integrations:
    """The integrations of an app, as one; false if there are none."""

    def __init__(self, given: Sequence[Integration], clock: Clock) -> None:
        for each in given:
            if not isinstance(each, Integration):
                raise InvalidOption("integration", each, "give objects such as OpenTelemetry() or Sentry()")
        self._given, self._clock = tuple(given), clock
        self._logged: set[tuple[Integration, str]] = set()

    def __bool__(self) -> bool:
        return bool(self._given)

    def listen(self, telemetry: Telemetry, rule_of: RuleOf) -> None:
        """Have all subscribe to events."""
        for each in self._given:
            each.listen(telemetry, rule_of)

    def carried(self) -> dict[str, str]:
        """The headers of all of them."""
        found: dict[str, str] = {}
        for each in self._given:
            try:
                carried = each.carried()
            except Exception as error:  # noqa: BLE001 - the job is stored without them
                self._log(each, "carried", error)
            else:
                found = together(found, carried)
        return found

    @contextmanager
    def sending(self, jobs: Sequence[NewJob]) -> Iterator[list[NewJob]]:
        """Stand around the call that stores jobs; gives the jobs with the context of that call."""
        sending, begun = Sending(jobs), self._clock.steady()
        with ExitStack() as stack:
            for each in self._given:
                stack.enter_context(_Guarded(self, each, "sending", each.sending(sending)))
            carried = self.carried()
            try:
                yield [msgspec.structs.replace(job, headers=with_context(job.headers, carried)) for job in jobs]
            finally:
                sending.duration = self._clock.steady() - begun

    @contextmanager
    def running(self, leases: Sequence[Lease]) -> Iterator[JobRun]:
        """Stand around attempts that run as one call."""
        run, begun = JobRun(leases, self._clock.now()), self._clock.steady()
        with ExitStack() as stack:
            for each in self._given:
                stack.enter_context(_Guarded(self, each, "running", each.running(run)))
            try:
                yield run
            finally:
                run.duration = self._clock.steady() - begun

    @contextmanager
    def continued(self, headers: Mapping[str, str]) -> Iterator[None]:
        """Stand around what runs in a child process."""
        with ExitStack() as stack:
            for each in self._given:
                stack.enter_context(_Guarded(self, each, "continued", each.continued(headers)))
            yield

    def failed(self, failure: AttemptFailure) -> None:
        """Note a failed attempt."""
        for each in self._given:
            try:
                each.failed(failure)
            except Exception as error:  # noqa: BLE001 - the failure is stored all the same
                self._log(each, "failed", error)

    def _log(self, integration: Integration, method: str, error: BaseException) -> None:
        if (integration, method) in self._logged:
            return
        self._logged.add((integration, method))
        with suppress(Exception):  # handlers and filters are the user's code
            _LOG.error(
                "%s failed in %s; its further failures there are not logged",
                type(integration).__name__,
                method,
                exc_info=error,
            )


class _Guarded:
    """A context manager of an integration. What the code inside raises goes on; what it raises itself is logged."""

    def __init__(
        self, integrations: Integrations, integration: Integration, method: str, inner: AbstractContextManager[object]
    ) -> None:
        self._integrations, self._integration, self._method = integrations, integration, method
        self._inner, self._entered = inner, False

    def __enter__(self) -> None:
        try:
            self._inner.__enter__()
            self._entered = True
        except Exception as error:  # noqa: BLE001
            self._integrations._log(self._integration, self._method, error)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]:
        if self._entered:
            try:
                self._inner.__exit__(kind, error, trace)
            except Exception as own:  # noqa: BLE001
                if own is not error:
                    self._integrations._log(self._integration, self._method, own)
        return False
