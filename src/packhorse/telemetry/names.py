"""The names of events and of their fields.

Each name comes with those of these fields that are known: ``lease`` (the attempt it is about), ``job`` (an id, where
there is no lease), ``worker`` (a name), ``duration`` and ``delay`` (microseconds), ``reason``, ``error`` (a failure or an
exception), ``count`` (jobs, losses, or failures in a row), ``detail`` (which part or place of the code it is about). Of a
lost job also ``holder``, the name of the worker that held it, if known, and ``attempts``, those it has had.
"""

from enum import StrEnum


class EventName(StrEnum):
    """What happened, as a worker sees it."""

    # attempts
    STARTED = "started"
    DONE = "done"
    RETRYING = "retrying"
    WAITING = "waiting"
    DEAD = "dead"
    CANCELLED = "cancelled"
    HANDED_BACK = "handed_back"  # not run, or stopped by shutdown: no attempt is charged
    LOST = "lost"  # a lease ran out and the job was taken back, from whichever worker
    ROLLED_BACK = "rolled_back"  # what an attempt wrote in its transaction, for it was lost or took too long
    LEASE_LOST = "lease_lost"  # an attempt of this worker may not be settled any more
    SETTLEMENT_REFUSED = "settlement_refused"  # an expectation failed, or the store does not take it

    # the worker
    WORKER_STARTED = "worker_started"
    WORKER_STOPPING = "worker_stopping"
    WORKER_STOPPED = "worker_stopped"
    EXCHANGE_FAILED = "exchange_failed"
    RENEWAL_FAILED = "renewal_failed"
    STORE_RECOVERED = "store_recovered"

    # duties
    RELEASED = "released"
    PRUNED = "pruned"
    DEAD_UNSEEN = "dead_unseen"  # dead jobs were pruned before anything has looked at them; the detail is their queue
    MAINTAINED = "maintained"  # what the store's upkeep did
    DUTY_FAILED = "duty_failed"

    # schedules; the detail is the name of the schedule and its tick
    FIRED = "fired"
    RUN_LATE = "run_late"  # a run has not ended by when it was expected
    RUN_MISSED = "run_missed"  # it has failed, was cancelled, or was never enqueued

    DECLARATION_IGNORED = "declaration_ignored"  # a declaration was left out, for a higher release has another

    # what does not go as it should
    HANDLER_FAILED = "handler_failed"  # a function of ``@app.on``; the detail is its name
    EVENTS_DROPPED = "events_dropped"  # such a function is too slow; the count is of all that it has missed
    LOOP_BLOCKED = "loop_blocked"
    ATTEMPT_STUCK = "attempt_stuck"  # it was cancelled and goes on
    THREAD_STUCK = "thread_stuck"  # the same, and it holds a thread for good
    CHILD_DIED = "child_died"
    CHILD_RECYCLED = "child_recycled"
