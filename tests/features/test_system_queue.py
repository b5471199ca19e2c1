"""Jobs of Packhorse's own run beside those of users, in a queue and a worker of their own."""

import asyncio

import pytest

from packhorse.errors import ConfigError
from packhorse.model.lease import ClaimRequest
from packhorse.system_queue import SYSTEM_QUEUE
from packhorse.telemetry.names import EventName


def own_task(app, ran):
    @app.system.task(name="packhorse.deliver")
    async def deliver(number: int) -> None:
        ran.append(number)

    return deliver


async def test_an_app_that_requires_the_system_queue_runs_it_from_its_start(live):
    ran: list[int] = []
    deliver = own_task(live, ran)
    live.system.require()
    async with live.worker(concurrency=1):
        job = await deliver.enqueue(1)
        await job.result(timeout=10)
    assert ran == [1]


async def test_a_worker_of_an_app_that_requires_nothing_runs_own_jobs_once_there_are_some(live):
    ran: list[int] = []
    deliver = own_task(live, ran)
    async with live.worker(concurrency=1):
        job = await deliver.enqueue(1)
        await job.result(timeout=20)
    assert ran == [1]


async def test_the_system_queue_is_not_among_those_of_the_app_and_its_worker_takes_no_other_jobs(live):
    ran: list[int] = []
    own_task(live, ran)
    assert SYSTEM_QUEUE not in live.queues
    live.system.require()
    async with live.worker(name="w"):
        fleet: dict[str, tuple[str, ...]] = {}
        async with asyncio.timeout(10):
            while len(fleet) < 2:
                await asyncio.sleep(0.01)
                fleet = {each.name: each.queues for each in await (await live.store()).fleet.workers()}
    assert fleet == {"w": ("default",), "w system": (SYSTEM_QUEUE,)}


async def test_jobs_of_users_go_on_while_the_worker_of_the_system_queue_fails(live, monkeypatch):
    failed = asyncio.Event()
    live.telemetry.on(lambda name, fields: failed.set(), EventName.DUTY_FAILED)

    @live.task
    async def work() -> int:
        return 1

    store = await live.store()
    exchange = store.jobs.exchange

    async def refuse(settlements, ask: ClaimRequest | None = None):
        if ask is not None and SYSTEM_QUEUE in {share.queue for share in ask.shares}:
            raise MemoryError
        return await exchange(settlements, ask)

    monkeypatch.setattr(store.jobs, "exchange", refuse)
    live.system.require()
    async with live.worker():
        async with asyncio.timeout(10):
            await failed.wait()
        assert await (await work.enqueue()).result(timeout=10) == 1


async def test_a_worker_that_is_stopped_ends_that_of_the_system_queue_within_its_own_grace(live):
    begun = asyncio.Event()

    @live.system.task(name="packhorse.deliver")
    async def deliver() -> None:
        begun.set()
        await asyncio.Event().wait()

    live.system.require()
    async with live.worker(concurrency=1, grace=0.1):
        job = await deliver.enqueue()
        async with asyncio.timeout(10):
            await begun.wait()
    info = await job.info()
    assert (info.state, info.attempt) == ("ready", 0)


@pytest.mark.parametrize("required", [False, True])
async def test_a_worker_that_cannot_start_says_so_and_leaves_nothing_behind(live, required):
    @live.task(run="process")
    def work() -> None: ...

    if required:
        live.system.require()
    before = asyncio.all_tasks()
    async with asyncio.timeout(10):
        with pytest.raises(ConfigError, match="child process"):
            await live.worker().run()
        with pytest.raises(ConfigError, match="child process"):
            async with live.worker():
                pass
    assert {task for task in asyncio.all_tasks() - before if task.get_name() == "packhorse-system"} == set()
