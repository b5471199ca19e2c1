"""Waiters share a listener: what goes wrong with one of them, or with the store, takes nothing from the others."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from packhorse import App
from packhorse.errors import JobNotFound, StoreClosed, StoreFull, StoreUnavailable
from packhorse.jobs.ends import Ends
from packhorse.model.ids import parse_id
from packhorse.testing.faults import Delay, Fail, Faulty
from tests.features.making import SECOND

LOOKS = ("jobs.get", "jobs.watch")


async def disturb(app: App, decide: Callable[[str, tuple[Any, ...]], Fail | Delay | None]) -> None:
    """Let the waiters of an app look through a store that fails on purpose."""
    home = await app._homes.here()
    home.ends = Ends(Faulty(home.store, decide), app._clock)


async def test_a_job_that_cannot_be_looked_at_costs_its_own_waiter_alone(live):
    @live.task
    async def work(number: int) -> int:
        return number

    bad, *good = await live.enqueue(*(work.call(number) for number in range(5)))
    broken = UnicodeDecodeError("utf-8", b"\xe9", 0, 1, "a name in another encoding")
    await disturb(live, lambda name, args: Fail(broken) if name in LOOKS and parse_id(bad.id) in args[0] else None)
    waits = [asyncio.create_task(job.result(20)) for job in (*good, bad)]
    async with live.worker():
        outcomes = await asyncio.gather(*waits, return_exceptions=True)
        later = await work.enqueue(9)
        assert await later.result(20) == 9

    assert outcomes == [1, 2, 3, 4, broken]


async def test_ended_jobs_answer_although_the_store_is_full_and_others_wait(live, monkeypatch):
    monkeypatch.setattr("packhorse.jobs.ends.LOOK", SECOND // 20)
    go = asyncio.Event()

    @live.task
    async def quick() -> str:
        return "quick"

    @live.task
    async def slow() -> str:
        await go.wait()
        return "slow"

    await disturb(live, lambda name, args: Fail(StoreFull("full on purpose")) if name == "jobs.watch" else None)
    waiting = asyncio.create_task((await slow.enqueue()).result(20))
    soon = asyncio.create_task((await quick.using(delay=0.2).enqueue()).result(20))
    async with live.worker():
        assert await soon == "quick"
        assert await (await quick.enqueue()).result(20) == "quick"
        go.set()
        assert await waiting == "slow"


async def test_a_job_that_is_not_kept_is_there_for_those_who_wait_for_it(live):
    go = asyncio.Event()

    @live.task(keep_done=0)
    async def work(number: int) -> int:
        await go.wait()
        return number

    async def prune() -> None:
        while True:
            await store.jobs.prune(500)
            await asyncio.sleep(0.01)

    await disturb(live, lambda name, args: Delay(SECOND // 5) if name in LOOKS and go.is_set() else None)
    store, jobs = await live.store(), await live.enqueue(*(work.call(number) for number in range(20)))
    waits = [asyncio.create_task(job.result(20)) for job in jobs]
    await asyncio.sleep(0.2)  # they wait
    async with live.worker():
        pruning = asyncio.create_task(prune())
        go.set()
        assert await asyncio.gather(*waits) == list(range(20))
        pruning.cancel()


async def test_waiting_on_reads_no_payload_again_and_sees_a_job_that_was_removed(live, monkeypatch):
    monkeypatch.setattr("packhorse.jobs.ends.LOOK", SECOND // 20)
    job = await live.queue("nobody").enqueue("x", {"large": "x" * 1000})
    looks: list[str] = []
    await disturb(live, lambda name, args: looks.append(name))
    waiting = asyncio.create_task(job.result(20))
    while looks.count("jobs.watch") < 4:
        await asyncio.sleep(0.01)
    assert looks.count("jobs.get") == 1

    await (await live.store()).jobs.drop([parse_id(job.id)])
    with pytest.raises(JobNotFound):
        await waiting


@pytest.mark.parametrize("fault", [Fail(StoreUnavailable("away on purpose")), Delay(3600 * SECOND)])
async def test_a_wait_runs_out_in_time_although_the_store_does_not_answer(live, fault):
    job = await live.queue("nobody").enqueue("x")
    home = await live._homes.here()
    store, home.store = home.store, Faulty(home.store, lambda name, args: fault)
    home.ends = Ends(home.store, live._clock)
    async with asyncio.timeout(60):
        with pytest.raises(TimeoutError, match=f"{job.id} did not end within 0.05 s"):
            await job.result(0.05)
    home.store = store


async def test_closing_the_app_tells_its_waiters_so_and_cancels_nobody(live):
    job = await live.queue("nobody").enqueue("x")
    waits = [asyncio.create_task(job.result(20)) for _ in range(3)]
    await asyncio.sleep(0.05)

    await live.close()

    outcomes = await asyncio.gather(*waits, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [StoreClosed] * 3
    assert "app was closed" in str(outcomes[0])
    assert await job.status() == "ready"


async def test_two_workers_of_one_app_and_two_apps_of_one_loop_wake_each_others_waiters(live, make, monkeypatch):
    monkeypatch.setattr("packhorse.jobs.ends.LOOK", 3600 * SECOND)  # only hints bring answers
    other = make()

    @live.task(name="work")
    async def work(number: int) -> int:
        await asyncio.sleep(0.05)
        return number

    async with live.worker(["first"]), live.worker(["second"]):
        for number in range(3):
            queues = ("first", "second")
            jobs = [await work.using(queue=queue).enqueue(number) for queue in queues]
            waits = [app.job(job.id).result(20) for app in (live, other) for job in jobs]
            assert await asyncio.gather(*waits) == [number] * 4
