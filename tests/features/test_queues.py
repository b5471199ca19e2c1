"""What can be done to a queue as a whole, and enqueueing several calls at once."""

import asyncio

import pytest

from packhorse import App, chain, group
from packhorse.errors import PayloadTooLarge, TooManyItems
from tests.features.factories import everything, run

NONE = {"scheduled": 0, "ready": 0, "running": 0, "waiting": 0, "done": 0, "dead": 0, "cancelled": 0}


@pytest.fixture
def ran() -> list[object]:
    return []


@pytest.fixture
def work(app: App, ran):
    """A task of the queue ``email`` that notes its argument, and fails if that is None."""

    @app.task(name="work", queue="email", attempts=1)
    async def work(what: object = "x") -> None:
        ran.append(what)
        if what is None:
            raise ValueError("no")

    return work


async def test_a_paused_queue_takes_jobs_and_gives_none_until_it_is_resumed(app, work, ran, make, clock):
    email = app.queue("email")
    await email.pause()
    job = await make(clock=clock).queue("email").enqueue("work", {"what": 1})
    await work.using(queue="other").enqueue(2)
    await run(app, ["email", "other"])
    assert (ran, await job.state()) == ([2], "ready")

    await email.resume()
    await run(app)
    assert ran == [2, 1]


async def test_a_queue_paused_or_resumed_elsewhere_is_noticed_by_a_worker_that_lives(live, make):
    other = make().queue("email")

    @live.task(queue="email")
    async def work() -> str:
        return "done"

    await other.pause()
    async with live.worker("email"):
        job = await work.enqueue()
        with pytest.raises(TimeoutError):
            await job.result(0.3)
        await other.resume()
        assert await job.result(20) == "done"


async def test_counts_say_how_many_jobs_stand_in_each_state(app, work):
    email = app.queue("email")
    assert await email.counts() == NONE
    await work.enqueue("done")
    await work.enqueue(None)
    await (await work.enqueue("off")).cancel()
    await email.enqueue("unknown")
    await run(app)
    await work.using(delay="1h").enqueue()
    await work.enqueue()
    await work.using(queue="other").enqueue()

    assert await email.counts() == NONE | {
        "done": 1, "dead": 1, "cancelled": 1, "waiting": 1, "scheduled": 1, "ready": 1
    }  # fmt: skip


async def test_cancel_pending_cancels_what_has_not_begun(app, work, ran):
    email = app.queue("email")
    done = await work.enqueue("done")
    await run(app)
    waiting = [await work.enqueue(), await work.using(delay="1h").enqueue(), *[await work.enqueue() for _ in range(20)]]
    laned = [await work.using(key="k").enqueue() for _ in range(3)]
    elsewhere = await work.using(queue="other").enqueue("other")

    assert await email.cancel_pending() == 25
    assert {await job.state() for job in (*waiting, *laned)} == {"cancelled"}
    assert (await done.state(), await elsewhere.state()) == ("done", "ready")
    await run(app, ["email", "other"])
    assert ran == ["done", "other"]
    assert await email.cancel_pending() == 0


async def test_cancel_pending_leaves_what_runs(live):
    running, go = asyncio.Event(), asyncio.Event()

    @live.task(queue="email")
    async def work() -> str:
        running.set()
        await go.wait()
        return "done"

    first = await work.enqueue()
    async with live.worker("email", concurrency=1):
        await running.wait()
        second = await work.enqueue()
        assert await live.queue("email").cancel_pending() == 1
        go.set()
        assert await first.result(20) == "done"
    assert await second.state() == "cancelled"


async def test_purge_removes_every_job_of_the_queue(app, work):
    email = app.queue("email")
    kept = await work.using(queue="other").enqueue()
    for what in ("done", None):
        await work.enqueue(what)
    await run(app, ["email"])
    jobs = [await work.enqueue() for _ in range(10)]
    await work.using(delay="1h", id="chosen").enqueue()

    assert await email.purge() == 13
    assert await email.counts() == NONE
    assert await jobs[0].state() == "unknown"
    assert await kept.state() == "ready"
    assert (await work.using(id="chosen").enqueue()).created


async def test_purge_removes_jobs_behind_lanes_and_jobs_that_wait_for_others(app, work):
    email = app.queue("email")
    await app.enqueue(*(work.using(key=key).call() for key in ("a", "b") for _ in range(200)))
    await group(*(work.call(number) for number in range(5))).enqueue()
    await chain(work.call(1), work, work).enqueue()

    assert await email.purge() == 400 + 6 + 3
    assert await email.counts() == NONE


async def test_several_calls_are_enqueued_together(app, work, ran):
    @app.task(name="other", queue="other")
    async def other(number: int) -> int:
        return number

    calls = [
        work.call("a"),
        other.call(7),
        app.queue("email").call("work", {"what": "b"}),
        work.using(delay="1h").call("c"),
    ]
    a, seven, b, later = await app.enqueue(*calls)
    await run(app)

    assert sorted(map(str, ran)) == ["a", "b"]
    assert (await seven.result(1), await later.state()) == (7, "scheduled")
    assert (await a.state(), await b.state()) == ("done", "done")


async def test_calls_and_plans_are_enqueued_together(app):
    @app.task
    async def double(number: int) -> int:
        return 2 * number

    one, many = await app.enqueue(double.call(1), group(double.call(2), double.call(3)))
    await run(app)

    assert (await one.result(1), await many.result(1)) == (2, [4, 6])


async def test_of_several_calls_all_are_stored_or_none(app, work):
    with pytest.raises(TooManyItems):
        await app.enqueue(*(work.call() for _ in range(501)))
    with pytest.raises(PayloadTooLarge):
        await app.enqueue(work.call(), app.queue("email").call("work", {"what": "x" * (1 << 20)}))

    assert await everything(app) == []


async def test_nothing_at_all_may_be_enqueued(app):
    assert await app.enqueue() == ()
