"""Jobs of a queue that are handled several at a time, each with a verdict of its own."""

from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, overload

from packhorse.engine.attempt import Attempt
from packhorse.engine.signals import Fail, Retry
from packhorse.jobs.job import Job, readable
from packhorse.model.duration import Duration

Handler = Callable[["Batch"], Coroutine[Any, Any, None]]


class Message:
    """One job of a batch. The first verdict counts, and is on its way to the store at once."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt, self._job = attempt, readable(attempt.lease)

    @property
    def job(self) -> Job:
        """The job itself: its id, headers, tenant and what else is known of it."""
        return self._job

    @property
    def task(self) -> str:
        """The name of the task."""
        return self.job.task

    @property
    def data(self) -> Any:
        """What the job was enqueued with."""
        return self.job.data

    @property
    def attempt(self) -> int:
        """Which try this is."""
        return self.job.attempt

    @property
    def cancelled(self) -> bool:
        """Whether somebody called the job off, or another worker has it by now."""
        return self._attempt.stop_cause is not None

    @property
    def settled(self) -> bool:
        """Whether it has its verdict."""
        return self._attempt.ended

    def done(self) -> None:
        """It worked."""
        self._attempt.conclude(None)

    def retry(self, delay: Duration | None = None) -> None:
        """Try it again, after this delay or by its backoff."""
        self._attempt.conclude(Retry(delay))

    def dead(self, why: str = "") -> None:
        """It failed for good."""
        self._attempt.conclude(Fail(why))


class Batch(Sequence[Message]):
    """The messages of one call. Those without a verdict are done when it returns, and tried again when it raises."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = tuple(messages)

    def __len__(self) -> int:
        return len(self._messages)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | Sequence[Message]:
        return self._messages[index]

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages)
