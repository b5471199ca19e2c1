"""What user code raises on purpose to say how its attempt is to end; none of these is an error of Packhorse."""

from packhorse.model.duration import Duration, micros
from packhorse.model.outcome import Outcome


class Retry(Exception):
    """Try again: after this delay, or after the one the task's backoff gives. The attempt counts."""

    def __init__(self, delay: Duration | None = None) -> None:
        super().__init__(*(() if delay is None else (delay,)))
        self.delay = None if delay is None else micros(delay, "delay")


class Snooze(Exception):
    """Not now: run it again after this delay. The attempt does not count."""

    def __init__(self, delay: Duration) -> None:
        super().__init__(delay)
        self.delay = micros(delay, "delay")


class Cancel(Exception):
    """Cancel the job: it ends as cancelled, and keeps these words as its last failure."""

    def __init__(self, why: str = "") -> None:
        super().__init__(*((why,) if why else ()))
        self.why = why


class Failed(Exception):
    """It failed and will not get better: the job is dead at once."""


class Aside(BaseException):
    """Ends an attempt with an outcome and its effects: for the features that are built of jobs, not for user code."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__("the attempt stands aside")
        self.outcome = outcome
