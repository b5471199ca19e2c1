"""Jobs of tasks that a worker does not know."""

import pytest

from packhorse.engine.unknown_tasks import AVOID_US, MAX_REMEMBERED_JOBS, UnknownTasks
from packhorse.model.lease import Lease
from packhorse.model.outcome import Again, Wait
from packhorse.model.reason import WaitReason


def lease(number: int = 0, queue: str = "default") -> Lease:
    return Lease(
        id=number.to_bytes(16, "big"), token=bytes(16), until=0, task="strange", queue=queue, payload=b"{}",
        headers=b"{}", priority=10, attempt=1, lost=0, enqueued_at=0,
    )  # fmt: skip


@pytest.fixture
def unknown_tasks(clock):
    return UnknownTasks(clock)


def test_a_strange_job_waits_and_says_why(unknown_tasks):
    assert unknown_tasks.outcome(lease()) == Wait(WaitReason.UNROUTABLE, detail="strange")
    assert unknown_tasks.avoided_queues() == []


def test_one_that_was_released_is_left_to_those_who_know_it(unknown_tasks, clock):
    unknown_tasks.outcome(lease(queue="a"))

    assert unknown_tasks.outcome(lease(queue="a")) == Again(charged=False)
    assert unknown_tasks.avoided_queues() == ["a"]
    clock.turn(AVOID_US)
    assert unknown_tasks.avoided_queues() == []


def test_one_that_nobody_took_waits_again(unknown_tasks):
    unknown_tasks.outcome(lease())
    unknown_tasks.outcome(lease())

    assert isinstance(unknown_tasks.outcome(lease()), Wait)


def test_what_is_remembered_is_bounded(unknown_tasks):
    for number in range(2 * MAX_REMEMBERED_JOBS):
        unknown_tasks.outcome(lease(number))

    assert isinstance(unknown_tasks.outcome(lease(0)), Wait)
    assert unknown_tasks.outcome(lease(2 * MAX_REMEMBERED_JOBS - 1)) == Again(charged=False)
