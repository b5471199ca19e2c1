"""How often a task is tried, how long it may take, and what is kept of it."""

import msgspec

from packhorse.errors import InvalidOption
from packhorse.model import limits
from packhorse.model.backoff import Backoff, checked, exponential
from packhorse.model.job import KEEP_DEAD, KEEP_DONE, Retention

ATTEMPTS = 3
MOST_ATTEMPTS = 1_000_000
BACKOFF = exponential(1, cap="1h", jitter=0.1)

Kinds = tuple[type[BaseException], ...]


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """The rules for every attempt of a task.

    ``attempts`` counts every try, ``timeout`` is in microseconds. ``retry_on`` and ``dead_on`` are asked before the
    general rules about errors; of two classes that both match, the one nearer to the error's own class decides.
    """

    attempts: int = ATTEMPTS
    backoff: Backoff = BACKOFF
    timeout: int | None = None
    retry_on: Kinds = ()
    dead_on: Kinds = ()
    keep_done: Retention = KEEP_DONE
    keep_dead: Retention = KEEP_DEAD

    def __post_init__(self) -> None:
        limits.within("attempts", self.attempts, 1, MOST_ATTEMPTS)
        checked(self.backoff)
        if self.timeout is not None:
            limits.span("timeout", self.timeout, 1)
        _kinds("retry_on", self.retry_on)
        _kinds("dead_on", self.dead_on)
        if both := set(self.retry_on) & set(self.dead_on):
            raise InvalidOption("retry_on", both.pop(), "it is in dead_on too: choose one")
        _keep("keep_done", self.keep_done)
        _keep("keep_dead", self.keep_dead)


def _kinds(what: str, given: object) -> None:
    if not isinstance(given, tuple):
        raise InvalidOption(what, given, "give a tuple of exception classes")
    for kind in given:
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise InvalidOption(what, kind, "give classes of exceptions only")


def _keep(what: str, given: object) -> None:
    if not isinstance(given, Retention):
        raise InvalidOption(what, given, "give Keep(count, age)")
