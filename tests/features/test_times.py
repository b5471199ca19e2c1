"""When a job may run, and which of those that may runs first."""

import asyncio
import re
from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from packhorse import InvalidInput, Keep, Unique
from packhorse.testing.clock import START_US
from tests.features.factories import HOUR, SECOND, run

MOMENT = datetime.fromtimestamp(START_US / SECOND, UTC)


@pytest.fixture
def ran() -> list[object]:
    return []


@pytest.fixture
def work(app, ran):
    """A task that notes its argument."""

    @app.task(name="work")
    async def work(what: object = None) -> None:
        ran.append(what)

    return work


WAYS_TO_SAY_AN_HOUR = (
    {"delay": "1h"},
    {"delay": 3600},
    {"delay": 3600.0},
    {"delay": timedelta(hours=1)},
    {"at": MOMENT + timedelta(hours=1)},
    {"at": (MOMENT + timedelta(hours=1)).astimezone(timezone(timedelta(hours=9)))},
)


async def test_s06_a_job_is_not_claimable_before_its_moment_and_is_right_after(app, work, ran, clock):
    jobs = [await work.using(**when).enqueue(number) for number, when in enumerate(WAYS_TO_SAY_AN_HOUR)]
    for job in jobs:
        assert (await job.state(), (await job.info()).due_at) == ("scheduled", MOMENT + timedelta(hours=1))
    clock.turn(HOUR - 1)
    await run(app)
    assert ran == []

    clock.turn(1)
    await run(app)
    assert sorted(ran) == [0, 1, 2, 3, 4, 5]


async def test_s06_an_idle_worker_starts_a_job_within_a_second_of_its_moment(live):
    @live.task
    async def late() -> float:
        return asyncio.get_running_loop().time()

    async with live.worker():
        due = asyncio.get_running_loop().time() + 0.4
        job = await late.using(delay=0.4).enqueue()
        began = await job.result(20)

    assert due - 0.005 <= began <= due + 1


async def test_s06_jobs_run_in_the_order_of_their_moments(app, work, ran, clock):
    for delay in (3, 1, 2):
        await work.using(delay=delay).enqueue(delay)
    clock.turn(10 * SECOND)
    await run(app, concurrency=1)

    assert ran == [1, 2, 3]


LONG_AGO = (
    MOMENT - timedelta(days=1),
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, tzinfo=UTC),
    datetime.min.replace(tzinfo=timezone(timedelta(hours=23))),
)


async def test_s06_a_moment_in_the_past_is_now(app, work, ran):
    for at in LONG_AGO:
        await work.using(at=at).enqueue("now")
    await run(app)

    assert ran == ["now"] * len(LONG_AGO)


@pytest.mark.parametrize(
    "wrong",
    [
        {"delay": -1},
        {"delay": "soon"},
        {"at": datetime(2024, 1, 1)},
        {"delay": 1, "at": MOMENT},
        {"at": datetime(2200, 1, 1, tzinfo=UTC)},
        {"at": "2030-01-01"},
        {"at": date(2030, 1, 1)},
        {"at": 0},
        {"unique": Unique(within=0)},
    ],
    ids=str,
)
async def test_s06_moments_that_mean_nothing_are_refused(memory, wrong):
    @memory.task
    async def work() -> None: ...

    with pytest.raises(InvalidInput) as refused:
        await work.using(**wrong).enqueue()
    assert "microsecond" not in str(refused.value)
    assert any(str(refused.value).startswith(name) for name in wrong)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"delay": -5}, "delay -5 is refused: give 0 seconds or more, up to a hundred years"),
        ({"delay": "-5s"}, "delay '-5s' is refused: give a timedelta, a number of seconds, or text like"),
        ({"timeout": 0}, "timeout 0 is refused: give more than 0 seconds, up to a hundred years"),
        ({"keep_done": Keep(age=-1)}, "keep_done age -1 is refused: give 0 seconds or more"),
        ({"at": datetime(2200, 1, 1, tzinfo=UTC)}, "give a moment before the year 2100"),
    ],
)
async def test_s06_a_refusal_names_the_option_and_speaks_in_the_units_of_the_caller(memory, wrong, message):
    @memory.task
    async def work() -> None: ...

    with pytest.raises(InvalidInput, match=re.escape(message)):
        work.using(**wrong)


async def test_a_promoted_job_runs_now(app, work, ran):
    job = await work.using(delay="1h").enqueue("promoted")
    assert await job.promote() is True
    assert await job.state() == "ready"
    await run(app)

    assert ran == ["promoted"]
    assert await job.promote() is False


async def test_a_retry_can_be_promoted_from_another_program(app, make, clock):
    tried = []

    @app.task
    async def flaky() -> None:
        tried.append(1)
        raise ValueError("no")

    job = await flaky.enqueue()
    await run(app)
    assert await make(clock=clock).job(job.id).promote()
    await run(app)

    assert (len(tried), (await job.info()).attempt) == (2, 2)


async def test_s08_the_most_urgent_job_starts_next(live):
    order, running, go = [], asyncio.Event(), asyncio.Event()

    @live.task
    async def work(what: str) -> None:
        order.append(what)
        running.set()
        await go.wait()

    for _ in range(2):
        await live.enqueue(*(work.using(priority=100).call("low") for _ in range(500)))
    async with live.worker(concurrency=1):
        await running.wait()
        high = await work.using(priority=1).enqueue("high")
        go.set()
        await high.result(20)

    assert order[:2] == ["low", "high"]


async def test_s08_lower_numbers_first_then_in_the_order_they_came(app, work, ran):
    given = [50, 10, 1, 10, 0, 8191, 1]
    for number, priority in enumerate(given):
        await work.using(priority=priority).enqueue((priority, number))
    await run(app, concurrency=1)

    assert ran == sorted([priority, number] for number, priority in enumerate(given))


@pytest.mark.parametrize("wrong", [-1, 8192, 1.5, "high"])
async def test_s08_a_priority_out_of_range_is_refused(memory, wrong):
    @memory.task
    async def work() -> None: ...

    with pytest.raises(InvalidInput):
        work.using(priority=wrong)
