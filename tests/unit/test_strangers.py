"""Jobs of tasks that a worker does not know."""

import pytest

from packhorse.engine.strangers import MOMENT, REMEMBERED, Strangers
from packhorse.model.lease import Lease
from packhorse.model.outcome import Again, Wait
from packhorse.model.reason import WaitReason


def lease(number: int = 0, queue: str = "default") -> Lease:
    return Lease(
        id=number.to_bytes(16, "big"), token=bytes(16), until=0, task="strange", queue=queue, payload=b"{}",
        headers=b"{}", priority=10, attempt=1, lost=0, born=0,
    )  # fmt: skip


@pytest.fixture
def strangers(clock):
    return Strangers(clock)


def test_a_strange_job_waits_and_says_why(strangers):
    assert strangers.outcome(lease()) == Wait(WaitReason.UNROUTABLE, detail="strange")
    assert strangers.shunned() == []


def test_one_that_was_released_is_left_to_those_who_know_it(strangers, clock):
    strangers.outcome(lease(queue="a"))

    assert strangers.outcome(lease(queue="a")) == Again(charged=False)
    assert strangers.shunned() == ["a"]
    clock.turn(MOMENT)
    assert strangers.shunned() == []


def test_one_that_nobody_took_waits_again(strangers):
    strangers.outcome(lease())
    strangers.outcome(lease())

    assert isinstance(strangers.outcome(lease()), Wait)


def test_what_is_remembered_is_bounded(strangers):
    for number in range(2 * REMEMBERED):
        strangers.outcome(lease(number))

    assert isinstance(strangers.outcome(lease(0)), Wait)
    assert strangers.outcome(lease(2 * REMEMBERED - 1)) == Again(charged=False)
