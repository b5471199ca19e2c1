"""Exceptions by which user code chooses how its attempt ends; none of these is an error of Packhorse."""

from packhorse.model.duration import Duration, micros
from packhorse.model.outcome import Outcome


class Retry(Exception):
    """Retry the job after this delay, or without one after that of the task's backoff. The attempt counts."""

    def __init__(self, delay: Duration | None = None) -> None:
        super().__init__(*(() if delay is None else (delay,)))
        self.delay = None if delay is None else micros(delay, "delay")


class Snooze(Exception):
    """Run the job again after this delay. The attempt does not count."""

    def __init__(self, delay: Duration) -> None:
        super().__init__(delay)
        self.delay = micros(delay, "delay")


class Cancel(Exception):
    """Cancel the job: it ends as cancelled, and the text is its last failure."""

    def __init__(self, why: str = "") -> None:
        super().__init__(*((why,) if why else ()))
        self.why = why


class Fail(Exception):
    """Fail for good: the job is dead now, whatever attempts are left, and the text is its last failure."""

    def __init__(self, why: str = "") -> None:
        super().__init__(*((why,) if why else ()))
        self.why = why


class SettleAs(BaseException):
    """Ends an attempt with an outcome and its effects: for the features that are built of jobs, not for user code."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__("the attempt ends with an outcome of its own")
        self.outcome = outcome
