"""Jobs of one key run in order; so many at a time as the queue says; what becomes of the rest when one fails for good."""

import asyncio

import pytest

from packhorse import App, ConfigError, constant
from packhorse.engine.attempt import current_attempt
from tests.engine.factories import Inside
from tests.features.factories import SECOND, everything, run


class Lane:
    """Jobs of keys that note how they went."""

    def __init__(self, app: App, **options) -> None:
        self.app, self.order = app, []
        self.failing: set[int] = set()

        @app.task(name="step", queue="lanes", backoff=constant(1), **options)
        async def step(key: str, number: int) -> None:
            self.order.append((key, number))
            if number in self.failing:
                raise ValueError("no")

        self._step = step

    async def add(self, key: str, *numbers: int) -> list:
        return [await self._step.using(key=key).enqueue(key, number) for number in numbers]

    def of(self, key: str) -> list[int]:
        return [number for its, number in self.order if its == key]


async def test_jobs_of_a_key_run_in_the_order_they_came(app):
    lane = Lane(app)
    for number in range(10):
        for key in ("a", "b", "c"):
            await lane.add(key, number)
    await run(app, concurrency=10)

    for key in ("a", "b", "c"):
        assert lane.of(key) == list(range(10))


async def test_the_order_of_a_key_survives_retries(app, clock):
    lane = Lane(app)
    lane.failing = {1}
    await lane.add("a", 0, 1, 2, 3)
    await lane.add("b", 10, 11)
    await run(app)
    assert (lane.of("a"), lane.of("b")) == ([0, 1], [10, 11])
    clock.turn(SECOND)
    lane.failing = set()
    await run(app)

    assert lane.of("a") == [0, 1, 1, 2, 3]


async def test_the_order_of_a_key_is_that_of_arrival_whatever_the_priority(app):
    lane = Lane(app)
    for number, priority in enumerate((100, 1, 50)):
        await lane._step.using(key="a", priority=priority).enqueue("a", number)
    await run(app)

    assert lane.of("a") == [0, 1, 2]


@pytest.mark.parametrize("per_key", [1, 3])
async def test_as_many_jobs_of_a_key_run_at_once_as_the_queue_says(live, per_key):
    live.queue("lanes", per_key=per_key)
    inside = {key: Inside() for key in ("a", "b")}

    @live.task(queue="lanes")
    async def step(key: str) -> None:
        with inside[key]:
            await asyncio.sleep(0.01)

    jobs = await live.enqueue(*(step.using(key=key).call(key) for _ in range(10) for key in ("a", "b")))
    async with live.worker("lanes", concurrency=20):
        for job in jobs:
            await job.result(20)

    assert [inside[key].most for key in ("a", "b")] == [per_key, per_key]


async def test_a_key_that_waits_holds_up_no_other(live):
    go, running = asyncio.Event(), asyncio.Event()

    @live.task
    async def step(key: str) -> str:
        if key == "slow":
            running.set()
            await go.wait()
        return key

    first, second = await step.using(key="slow").enqueue("slow"), await step.using(key="slow").enqueue("slow")
    async with live.worker():
        await running.wait()
        assert await (await step.using(key="fast").enqueue("fast")).result(20) == "fast"
        assert ((await second.info()).state, (await second.info()).reason) == ("waiting", "lane")
        go.set()
        await second.result(20)
    assert await first.state() == "done"


async def test_a_job_that_fails_for_good_is_passed_over(app, clock):
    lane = Lane(app, attempts=2)
    lane.failing = {1}
    jobs = await lane.add("a", 0, 1, 2)
    await run(app)
    clock.turn(SECOND)
    await run(app)

    assert lane.of("a") == [0, 1, 1, 2]
    assert [await job.state() for job in jobs] == ["done", "dead", "done"]


async def halted(app: App, clock) -> tuple[Lane, list]:
    """A lane whose second job has used up its tries."""
    lane = Lane(app, attempts=2, lane_on_dead="halt")
    lane.failing = {1}
    jobs = await lane.add("a", 0, 1, 2, 3)
    await run(app)
    clock.turn(SECOND)
    await run(app)
    assert lane.of("a") == [0, 1, 1]
    return lane, jobs


async def test_a_lane_that_halts_waits_for_a_person(app, clock):
    lane, jobs = await halted(app, clock)
    clock.turn(3600 * SECOND)
    await run(app)

    assert lane.of("a") == [0, 1, 1]
    [found] = await everything(app, reason="intervention")
    assert (found.id, found.state, found.detail) == (jobs[1].id, "waiting", "exhausted: ValueError: no")
    assert [await job.state() for job in jobs[2:]] == ["waiting", "waiting"]
    await lane.add("b", 10)
    await run(app)
    assert lane.of("b") == [10]


async def test_a_promoted_job_of_a_halted_lane_runs_again_and_the_lane_goes_on(app, clock):
    lane, jobs = await halted(app, clock)
    assert await jobs[1].promote()
    await run(app)
    assert lane.of("a") == [0, 1, 1, 1]  # it failed once more, and waits once more
    assert (await jobs[1].info()).reason == "intervention"

    lane.failing = set()
    assert await jobs[1].promote()
    await run(app)
    assert lane.of("a") == [0, 1, 1, 1, 1, 2, 3]
    assert {await job.state() for job in jobs} == {"done"}


async def test_a_cancelled_job_of_a_halted_lane_lets_the_lane_go_on(app, clock):
    lane, jobs = await halted(app, clock)
    assert await jobs[1].cancel() == "cancelled"
    await run(app)

    assert lane.of("a") == [0, 1, 1, 2, 3]
    assert [await job.state() for job in jobs] == ["done", "cancelled", "done", "done"]


async def test_a_job_without_a_key_does_not_halt_anything(app):
    @app.task(attempts=1, lane_on_dead="halt")
    async def fails() -> None:
        raise ValueError("no")

    job = await fails.enqueue()
    await run(app)

    assert await job.state() == "dead"


def test_another_word_for_what_to_do_is_refused():
    with pytest.raises(ConfigError, match="halt"):
        App("sqlite:///:memory:").task(lane_on_dead="hope")(test_another_word_for_what_to_do_is_refused)  # type: ignore[call-overload]


async def test_a_cancelled_job_in_line_is_passed_over(app):
    lane = Lane(app)
    jobs = await lane.add("a", 0, 1, 2)
    await jobs[1].cancel()
    await run(app)

    assert lane.of("a") == [0, 2]


async def test_a_scheduled_job_of_a_key_takes_its_place_when_its_moment_has_come(app, clock):
    lane = Lane(app)
    await lane._step.using(key="a", delay=5).enqueue("a", 0)
    await lane.add("a", 1)
    await run(app)
    assert lane.of("a") == [1]
    clock.turn(5 * SECOND)
    await run(app)

    assert lane.of("a") == [1, 0]


async def test_a_handler_knows_nothing_of_other_keys(app):
    seen = []

    @app.task
    async def step() -> None:
        seen.append(current_attempt().lease.lane)

    await step.using(key="a").enqueue()
    await run(app)

    assert seen == ["a"]
