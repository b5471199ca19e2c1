"""Attempts that fail: when the next one comes, and what is kept of the last."""

from typing import Any

import pytest

from packhorse.engine.context import current
from packhorse.engine.policy import BACKOFF
from packhorse.engine.signals import Cancel, Retry, Snooze
from packhorse.model import backoff
from packhorse.model.job import Retention, State
from packhorse.model.reason import DeadReason
from packhorse.testing import run_until_idle
from tests.engine.factories import SECOND, Tasks, job, jobs
from tests.factories import DAY, one, put_in, state


class Failing:
    """A handler that raises what it is given, one after the other, and then works."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.tries: list[int] = []

    async def __call__(self, **_: Any) -> str:
        self.tries.append(current().attempt)
        if self.errors:
            raise self.errors.pop(0)
        return "at last"


def failing(*errors: BaseException, **options: Any) -> tuple[Tasks, Failing]:
    tasks, handler = Tasks(), Failing(*errors)
    tasks.task(name="work", **{"backoff": BACKOFF, **options})(handler)
    return tasks, handler


async def test_retries_come_after_one_two_and_four_seconds(store, clock):
    tasks, handler = failing(*[ValueError(f"no {number}") for number in range(3)], attempts=4)
    [failed] = await put_in(store, job("work"))
    await run_until_idle(store, tasks, clock=clock)

    for delay in (1, 2, 4):
        found = await one(store, failed)
        assert (found.state, found.since) == (State.SCHEDULED, clock.now() + delay * SECOND)
        clock.turn(delay * SECOND - 1)
        await run_until_idle(store, tasks, clock=clock)
        assert await state(store, failed) is State.SCHEDULED
        clock.turn(1)
        await run_until_idle(store, tasks, clock=clock)

    found = await one(store, failed)
    assert handler.tries == [1, 2, 3, 4]
    assert (found.state, found.attempt, found.result) == (State.DONE, 4, b'"at last"')


async def test_a_job_that_fails_at_every_try_is_dead_with_its_failures(store, clock):
    tasks, handler = failing(
        *[ValueError(f"no {number}") for number in range(9)], attempts=3, backoff=backoff.constant(0)
    )
    [failed] = await put_in(store, job("work"))

    await run_until_idle(store, tasks, clock=clock)

    found = await one(store, failed)
    assert handler.tries == [1, 2, 3]
    assert (found.state, found.reason, found.attempt) == (State.DEAD, DeadReason.EXHAUSTED, 3)
    assert [(each.type, each.message, each.attempt) for each in found.failures] == [
        ("ValueError", "no 0", 1),
        ("ValueError", "no 1", 2),
        ("ValueError", "no 2", 3),
    ]
    assert "test_retries.py" in found.failures[-1].traceback


async def test_retry_comes_when_it_says_and_counts(store, clock):
    tasks, handler = failing(Retry("20s"), Retry())
    [again] = await put_in(store, job("work"))
    await run_until_idle(store, tasks, clock=clock)
    assert (await one(store, again)).since == clock.now() + 20 * SECOND

    clock.turn(20 * SECOND)
    await run_until_idle(store, tasks, clock=clock)
    assert (await one(store, again)).since == clock.now() + 2 * SECOND
    clock.turn(2 * SECOND)
    await run_until_idle(store, tasks, clock=clock)

    assert handler.tries == [1, 2, 3]
    assert await state(store, again) is State.DONE


async def test_snooze_comes_when_it_says_and_does_not_count(store, clock):
    tasks, handler = failing(*[Snooze("5m")] * 5, attempts=1)
    [later] = await put_in(store, job("work"))
    for _ in range(5):
        await run_until_idle(store, tasks, clock=clock)
        found = await one(store, later)
        assert (found.state, found.since, found.attempt) == (State.SCHEDULED, clock.now() + 300 * SECOND, 0)
        assert found.failures == ()
        clock.turn(300 * SECOND)

    await run_until_idle(store, tasks, clock=clock)

    assert handler.tries == [1] * 6
    assert await state(store, later) is State.DONE


async def test_cancel_calls_the_job_off(store, clock):
    tasks, _ = failing(Cancel("no longer needed"))
    [called_off] = await put_in(store, job("work"))

    await run_until_idle(store, tasks, clock=clock)

    found = await one(store, called_off)
    assert (found.state, [each.message for each in found.failures]) == (State.CANCELLED, ["no longer needed"])


async def test_what_a_task_dies_on_is_not_tried_again(store, clock):
    tasks, handler = failing(KeyError("k"), dead_on=(LookupError,))
    [failed] = await put_in(store, job("work"))

    await run_until_idle(store, tasks, clock=clock)

    found = await one(store, failed)
    assert handler.tries == [1]
    assert (found.state, found.reason, found.failures[-1].type) == (State.DEAD, DeadReason.FINAL, "KeyError")


async def test_a_job_runs_by_an_alias_of_its_task(store, clock):
    tasks, ran = Tasks(), []

    @tasks.task(name="new-name", aliases=("old-name", "older-name"))
    async def work() -> None:
        ran.append(current().task)

    await put_in(store, job("old-name"), job("new-name"), job("older-name"))

    await run_until_idle(store, tasks, clock=clock)

    assert sorted(ran) == ["new-name", "old-name", "older-name"]


async def test_as_many_done_jobs_are_kept_as_the_task_says(store, clock):
    tasks, _ = failing(keep_done=Retention(2, DAY))
    ids = await put_in(store, *jobs(5))
    await run_until_idle(store, tasks, clock=clock)

    await store.jobs.prune(100)

    assert sum(found is not None for found in await store.jobs.get(ids)) == 2


async def test_dead_jobs_are_kept_for_as_long_as_the_task_says(store, clock):
    tasks, _ = failing(ValueError(), attempts=1, keep_dead=Retention(100, 60 * SECOND))
    [failed] = await put_in(store, job("work"))
    await run_until_idle(store, tasks, clock=clock)
    clock.turn(59 * SECOND)
    await store.jobs.prune(100)
    assert await state(store, failed) is State.DEAD

    clock.turn(2 * SECOND)
    await store.jobs.prune(100)

    assert await state(store, failed) is None


async def test_a_replayed_job_has_all_its_tries_again(store, clock):
    tasks, handler = failing(*[ValueError()] * 3, attempts=2, backoff=backoff.constant(0))
    [failed] = await put_in(store, job("work"))
    await run_until_idle(store, tasks, clock=clock)

    await store.jobs.replay([failed])
    await run_until_idle(store, tasks, clock=clock)

    assert handler.tries == [1, 2, 1, 2]
    assert await state(store, failed) is State.DONE


@pytest.mark.parametrize("delay", [0, 1, 1000, SECOND])
async def test_a_job_that_is_due_later_runs_when_its_moment_has_come(store, clock, delay):
    tasks, handler = failing()
    [later] = await put_in(store, job("work", delay=delay))
    await run_until_idle(store, tasks, clock=clock)
    assert len(handler.tries) == (delay == 0)

    clock.turn(delay)
    await run_until_idle(store, tasks, clock=clock)

    assert handler.tries == [1]
    assert await state(store, later) is State.DONE
