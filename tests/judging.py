"""Judging one attempt in one line."""

from packhorse.engine.judge import judge
from packhorse.engine.policy import Policy
from packhorse.model import limits
from packhorse.model.backoff import exponential
from packhorse.model.job import Retention
from packhorse.model.lease import Lease
from packhorse.model.outcome import Again, Dead
from packhorse.model.reason import DeadReason

SECOND = limits.SECOND
EXACT = exponential(1, cap="1h", jitter=0)
KEPT = Retention(7, SECOND)
BURIED = Retention(8, SECOND)
POLICY = Policy(attempts=3, backoff=EXACT, keep_done=KEPT, keep_dead=BURIED)


def lease(attempt=1):
    """The lease of an attempt."""
    return Lease(
        id=bytes(16), token=bytes(16), until=0, task="work", queue="default", payload=b'{"password":"hunter2"}',
        headers=b"{}", priority=10, attempt=attempt, lost=0, enqueued_at=0,
    )  # fmt: skip


def judged(error, policy=POLICY, *, attempt=1, stopped=None, chance=0.5, now=None):
    """The outcome of an attempt that ended with this error."""
    return judge(policy, lease(attempt), error, stopped=stopped, chance=chance, now=now)


def retried(outcome, delay=SECOND):
    """Whether it is tried again after this delay, at the price of an attempt."""
    return isinstance(outcome, Again) and outcome.charged and outcome.delay == delay and outcome.error is not None


def died(outcome, reason=DeadReason.FINAL):
    """Whether it is dead for this reason and kept as the policy says."""
    return isinstance(outcome, Dead) and outcome.reason is reason and outcome.keep == BURIED
