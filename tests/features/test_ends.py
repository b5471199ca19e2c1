"""How jobs end and what is kept of them: dead ones with all that is needed to judge them, done ones for a while."""

from datetime import UTC, datetime

import pytest

from packhorse import App, JobFailed, Keep
from packhorse.testing.clock import START_US
from tests.features.factories import DAY, HOUR, MINUTE, SECOND, everything, run, until

MOMENT = datetime.fromtimestamp(START_US / SECOND, UTC)


async def test_s20_after_the_last_try_a_job_is_dead_with_all_there_is_to_know(app, clock):
    tried = []

    @app.task(name="poison", queue="orders")
    async def poison(order_id: str) -> None:
        tried.append(order_id)
        raise ValueError(f"no such order: {order_id}")

    job = await poison.using(tenant="t1", headers={"source": "shop"}).enqueue("o-1")
    for _ in range(5):
        await run(app)
        clock.turn(MINUTE)

    assert tried == ["o-1"] * 3
    [letter] = await everything(app, state="dead")
    assert (letter.id, letter.task, letter.queue) == (job.id, "poison", "orders")
    assert (letter.data, letter.tenant, letter.headers["source"]) == ({"order_id": "o-1"}, "t1", "shop")
    assert (letter.reason, letter.attempt) == ("exhausted", 3)
    assert [failure.attempt for failure in letter.failures] == [1, 2, 3]
    last = letter.failures[-1]
    assert (last.type, last.message) == ("ValueError", "no such order: o-1")
    assert "raise ValueError" in last.traceback
    assert [failure.at - START_US for failure in letter.failures] == [0, MINUTE, 2 * MINUTE]
    assert letter.ended_at.timestamp() * SECOND == last.at
    assert letter.enqueued_at == MOMENT


async def test_s20_whoever_waits_is_reported_why(app):
    @app.task(attempts=1)
    async def poison() -> None:
        raise ValueError("no such order")

    job = await poison.enqueue()
    await run(app)

    with pytest.raises(JobFailed) as caught:
        await job.result(1)
    reported = caught.value
    assert (reported.job_id, reported.task, reported.reason, reported.error) == (
        job.id, poison.name, "exhausted", "ValueError: no such order"
    )  # fmt: skip
    assert "raise ValueError" in reported.traceback
    assert job.id in str(reported)


async def test_s20_an_error_the_task_calls_final_is_dead_at_once(app):
    @app.task(dead_on=(LookupError,))
    async def poison() -> None:
        raise KeyError("k")

    job = await poison.enqueue()
    await run(app)

    info = await job.info()
    assert (info.state, info.reason, info.attempt) == ("dead", "final", 1)


class LeaseHolder:
    """Jobs that end well or badly, and what is left of them after pruning."""

    def __init__(self, app: App, **given) -> None:
        self._app = app
        app.queue("orders", attempts=1, **given)

        @app.task(name="end", queue="orders")
        async def end(well: bool, number: int) -> None:
            if not well:
                raise ValueError("no")

        self._end = end

    async def add(self, count: int, *, well: bool) -> None:
        await self._app.enqueue(*(self._end.call(well, number) for number in range(count)))
        await run(self._app, concurrency=1)

    async def left(self) -> tuple[int, int]:
        """How many done and dead ones are left."""
        while (await (await self._app.store()).jobs.prune(500)).more:
            pass
        counts = await self._app.queue("orders").counts()
        return counts["done"], counts["dead"]


async def test_s25_done_jobs_are_kept_by_count_and_by_age_whichever_comes_first(app, clock):
    kept = LeaseHolder(app, keep_done=Keep(count=10, age="24h"))
    await kept.add(3, well=False)
    await kept.add(6, well=True)
    clock.turn(HOUR)
    await kept.add(5, well=True)
    assert await kept.left() == (10, 3)
    older = [job.data["number"] for job in await everything(app, state="done") if job.ended_at == MOMENT]
    assert sorted(older) == [1, 2, 3, 4, 5]  # the first of all is gone

    clock.turn(DAY - HOUR + 1)
    assert await kept.left() == (5, 3)
    clock.turn(HOUR)
    assert await kept.left() == (0, 3)


async def test_s26_failures_have_a_retention_of_their_own(app, clock):
    kept = LeaseHolder(app, keep_done=10, keep_dead=50)
    await kept.add(15, well=True)
    await kept.add(60, well=False)
    assert await kept.left() == (10, 50)

    clock.turn(30 * DAY)
    assert await kept.left() == (10, 50)


async def test_s26_failures_are_kept_by_age_too(app, clock):
    kept = LeaseHolder(app, keep_dead=Keep(age="7d"))
    await kept.add(5, well=False)
    clock.turn(7 * DAY - 1)
    assert await kept.left() == (0, 5)
    clock.turn(2)
    assert await kept.left() == (0, 0)


async def test_s25_what_one_call_asks_to_keep_holds_for_it_alone(app, clock):
    @app.task(name="work")
    async def work() -> None: ...

    brief = await work.using(keep_done=Keep(age=0)).enqueue()
    usual = await work.enqueue()
    await run(app)
    clock.turn(1)
    await (await app.store()).jobs.prune(500)

    assert (await brief.state(), await usual.state()) == ("unknown", "done")


async def test_s25_workers_prune_by_themselves(live):
    @live.task(keep_done=0)
    async def work() -> None: ...

    async with live.worker(lease=1):
        job = await work.enqueue()

        async def gone() -> bool:
            return await job.state() == "unknown"

        await until(gone)
