"""Waiters share a listener: what goes wrong with one of them, or with the store, takes nothing from the others."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from packhorse import App, JobHandle
from packhorse.errors import JobCancelled, JobNotFound, StoreClosed, StoreFull, StoreUnavailable
from packhorse.jobs.result_waiter import ResultWaiter
from packhorse.model.ids import parse_id
from packhorse.testing.faults import Delay, Faulty, RaiseError
from tests.features.factories import SECOND, run

LOOKS = ("jobs.get", "jobs.watch")


async def disturb(app: App, decide: Callable[[str, tuple[Any, ...]], RaiseError | Delay | None]) -> None:
    """Let the waiters of an app look through a store that fails on purpose."""
    home = await app.client.loop_store()
    home.waiter = ResultWaiter(Faulty(home.store, decide), app._clock)


async def test_a_job_that_cannot_be_looked_at_costs_its_own_waiter_alone(live):
    @live.task
    async def work(number: int) -> int:
        return number

    bad, *good = await live.enqueue(*(work.call(number) for number in range(5)))
    broken = UnicodeDecodeError("utf-8", b"\xe9", 0, 1, "a name in another encoding")
    await disturb(
        live, lambda name, args: RaiseError(broken) if name in LOOKS and parse_id(bad.id) in args[0] else None
    )
    waits = [asyncio.create_task(job.result(20)) for job in (*good, bad)]
    async with live.worker():
        outcomes = await asyncio.gather(*waits, return_exceptions=True)
        later = await work.enqueue(9)
        assert await later.result(20) == 9

    assert outcomes == [1, 2, 3, 4, broken]


async def test_ended_jobs_answer_although_the_store_is_full_and_others_wait(live, monkeypatch):
    monkeypatch.setattr("packhorse.jobs.result_waiter.POLL_US", SECOND // 20)
    go = asyncio.Event()

    @live.task
    async def quick() -> str:
        return "quick"

    @live.task
    async def slow() -> str:
        await go.wait()
        return "slow"

    await disturb(live, lambda name, args: RaiseError(StoreFull("full on purpose")) if name == "jobs.watch" else None)
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
    monkeypatch.setattr("packhorse.jobs.result_waiter.POLL_US", SECOND // 20)
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


class Crowd:
    """Many who wait for jobs that nobody runs. Each look for a part of them takes a while."""

    def __init__(self, app: App) -> None:
        self._app, self.looks = app, 0
        self.parts: list[list[bytes]] = []
        self._ends: list[JobHandle[Any]] = []

    def slowly(self, name: str, args: tuple[Any, ...]) -> Delay | None:
        """What the store of the waiters does."""
        self.looks += name == "jobs.watch"
        self.parts += [list(args[0])] if name == "jobs.watch" else []
        return Delay(SECOND // 20) if name == "jobs.watch" and len(args[0]) > 1 else None

    async def wait(self, count: int) -> list[asyncio.Task[Any]]:
        """Let so many wait, and as many more as there are hints to be given."""
        queue = self._app.queue("nobody")
        jobs = [job for _ in range(0, count, 500) for job in await self._app.enqueue(*[queue.call("x")] * 500)]
        self._ends = jobs[:50]
        waits = [asyncio.create_task(job.result()) for job in jobs]
        while self.looks < count // 500:
            await asyncio.sleep(0.01)
        return waits

    async def hint(self) -> None:
        """End a job, and wait for the second look after that; hints may be missed, so try again with another one."""
        until = self.looks + 2
        while self.looks < until:
            await self._ends.pop().cancel()
            for _ in range(500):
                if self.looks < until:
                    await asyncio.sleep(0.001)


async def test_a_job_that_ends_while_many_begin_to_wait_is_not_missed(live, monkeypatch):
    monkeypatch.setattr("packhorse.jobs.result_waiter.POLL_US", 3600 * SECOND)  # only hints bring answers
    jobs = [job for _ in range(3) for job in await live.enqueue(*[live.queue("nobody").call("x")] * 500)]
    crowd = Crowd(live)
    await disturb(live, crowd.slowly)
    async with live.worker(["elsewhere"]):  # it listens already
        waits = [asyncio.create_task(job.result(60)) for job in jobs]
        while crowd.looks < 3:
            await asyncio.sleep(0.001)
        await jobs[0].cancel()  # the first look has passed it, and the third is under way
        with pytest.raises(JobCancelled):
            await asyncio.wait_for(waits[0], 20)
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)


@pytest.mark.parametrize("place", ["new", "newest", "oldest"])
async def test_an_answer_does_not_wait_until_all_other_waiters_were_looked_for(live, monkeypatch, place):
    monkeypatch.setattr("packhorse.jobs.result_waiter.POLL_US", 3600 * SECOND)  # only hints bring answers
    crowd, job = Crowd(live), await live.queue("nobody").enqueue("x")
    await disturb(live, crowd.slowly)
    waits = [asyncio.create_task(job.result(60))] if place == "oldest" else []
    waits += await crowd.wait(3000)
    if place == "newest":
        waits.append(asyncio.create_task(job.result(60)))
        while crowd.looks < 7:
            await asyncio.sleep(0.001)
    await crowd.hint()  # a round is under way
    await job.cancel()
    before = crowd.looks
    if place == "oldest":
        while not waits[0].done():  # further hints do not keep the rounds from their ends
            await crowd.hint()
    with pytest.raises(JobCancelled):
        await (job.result(60) if place == "new" else waits[0 if place == "oldest" else -1])

    assert crowd.looks - before <= (30 if place == "oldest" else 3)
    for wait in waits:
        wait.cancel()
    await asyncio.gather(*waits, return_exceptions=True)


async def test_after_a_hint_the_newest_waiters_are_looked_for_and_then_those_who_have_waited_longest(live, monkeypatch):
    monkeypatch.setattr("packhorse.jobs.result_waiter.POLL_US", 3600 * SECOND)  # only hints bring answers
    crowd = Crowd(live)
    await disturb(live, crowd.slowly)
    waits = await crowd.wait(3000)
    oldest, newest = crowd.parts[0][0], crowd.parts[5][-1]
    await crowd.hint()

    first, second = crowd.parts[6:8]
    assert newest in first
    assert oldest in second
    for wait in waits:
        wait.cancel()
    await asyncio.gather(*waits, return_exceptions=True)


@pytest.mark.parametrize("fault", [RaiseError(StoreUnavailable("away on purpose")), Delay(3600 * SECOND)])
async def test_a_wait_runs_out_in_time_although_the_store_does_not_answer(live, fault):
    job = await live.queue("nobody").enqueue("x")
    home = await live.client.loop_store()
    store, home.store = home.store, Faulty(home.store, lambda name, args: fault)
    home.waiter = ResultWaiter(home.store, live._clock)
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
    assert await job.state() == "ready"


async def test_two_workers_of_one_app_and_two_apps_of_one_loop_wake_each_others_waiters(live, make, monkeypatch):
    monkeypatch.setattr("packhorse.jobs.result_waiter.POLL_US", 3600 * SECOND)  # only hints bring answers
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


async def test_a_watch_lasts_longer_than_the_pause_between_looks_of_many_waiters(memory, clock, monkeypatch):
    monkeypatch.setattr("packhorse.jobs.result_waiter.PER_WAITER", 70 * SECOND)
    looks: list[str] = []

    def decide(name: str, args: tuple[Any, ...]) -> Delay | None:
        looks.append(name)
        return Delay(0) if name == "wakes" else None  # every hint is lost

    @memory.task(keep_done=0)
    async def work() -> str:
        return "done"

    await disturb(memory, decide)
    job, begun = await work.enqueue(), clock.now()
    waiting = asyncio.create_task(job.result())
    async with asyncio.timeout(20):
        while looks.count("jobs.watch") < 2:  # the next look is 71 seconds after the second one
            clock.turn(SECOND // 100)
            await asyncio.sleep(0)

    clock.to(begun + 65 * SECOND)
    await run(memory)
    await (await memory.store()).jobs.prune(500)
    clock.turn(80 * SECOND)

    async with asyncio.timeout(20):
        assert await waiting == "done"
