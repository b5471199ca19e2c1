"""Jobs that were lost before: it is recorded that they begin, so that only a loss after that can be held against them."""

import asyncio
import threading
from typing import Any

import pytest

from packhorse.engine.attempt import current_attempt
from packhorse.engine.context import current
from packhorse.errors import InvalidInput
from packhorse.model.job import State
from packhorse.model.lease import Lease, Settlement, Verdict
from packhorse.stores.contract import Store
from packhorse.testing.faults import Delay, DropReply, DropRequest, Fault, RaiseError
from tests.engine.factories import (
    SECOND,
    Crossing,
    EventName,
    Gate,
    Once,
    Run,
    Tasks,
    jobs,
    lost,
    worker,
)
from tests.engine.test_batches import Batched
from tests.factories import Held, end, one, put_in, states

LEASE = 600_000


class Records:
    """What is recorded of attempts that begin; a rule may decide what goes wrong with it."""

    def __init__(self, rule: Any = None) -> None:
        self.leases: list[Lease] = []
        self.crossing, self._rule = Crossing(), rule or (lambda: None)
        self.crossing.rules["jobs.exchange"] = self._seen

    def _seen(self, settlements: list[Settlement], *_: object) -> Fault | None:
        recorded = [it.lease for it in settlements if isinstance(it.outcome, Held)]
        self.leases += recorded
        return self._rule() if recorded else None


async def is_recorded(store: Store) -> bool:
    """Whether the store knows that the current attempt has begun."""
    return await end(store, current_attempt().lease, Held(1)) is Verdict.REPEATED


@pytest.mark.parametrize("times", [1, 2])
async def test_a_job_that_was_lost_before_begins_once_that_is_recorded(live, telemetry, recorder, times):
    tasks, records, seen = Tasks(), Records(), []

    @tasks.task(name="lost")
    async def suspect(number: int) -> None:
        seen.append(await is_recorded(live))

    ids = await lost(live, times, "lost", count=3)
    await put_in(live, *jobs(5, "lost", queue="new"))
    async with worker(records.crossing.before(live), tasks, telemetry, queues={"lost": 1}, lease=3 * SECOND):
        await recorder.until(EventName.DONE, 3)

    assert seen == [True] * 3
    assert sorted(lease.id for lease in records.leases) == sorted(ids)
    assert {(await one(live, each)).attempt for each in ids} == {times + 1}


@pytest.mark.parametrize("run", [Run.THREAD, Run.ASYNC])
async def test_nothing_is_recorded_of_jobs_that_were_never_lost(memory, telemetry, recorder, run):
    tasks, records = Tasks(), Records()
    tasks.task(run, name="work")((lambda number: None) if run is Run.THREAD else nothing)
    await put_in(memory, *jobs(20))
    async with worker(records.crossing.before(memory), tasks, telemetry):
        await recorder.until(EventName.DONE, 20)

    assert records.leases == []


async def test_a_job_for_a_thread_is_recorded_when_it_gets_its_thread(memory, telemetry, recorder):
    tasks, records, gate, ran = Tasks(), Records(), threading.Event(), []

    @tasks.task(Run.THREAD, name="lost")
    def suspect(number: int) -> None:
        ran.append(number)
        gate.wait(20)

    await lost(memory, 1, "lost", count=3)
    async with worker(records.crossing.before(memory), tasks, telemetry, queues={"lost": 3}, concurrency=1):
        await recorder.until(EventName.STARTED)
        await asyncio.sleep(0.05)
        assert len(records.leases) == len(ran) == 1
        gate.set()
        await recorder.until(EventName.DONE, 3)

    assert len(records.leases) == len(ran) == 3


async def test_a_record_whose_answer_is_lost_is_repeated_and_the_job_begins_once(live, telemetry, recorder):
    tasks, records, seen = Tasks(), Records(Once(DropReply(), DropRequest(), DropReply())), []

    @tasks.task(name="lost")
    async def suspect(number: int) -> None:
        seen.append(await is_recorded(live))

    [held] = await lost(live, 1, "lost")
    async with worker(records.crossing.before(live), tasks, telemetry, queues={"lost": 1}):
        await recorder.until(EventName.DONE)

    assert seen == [True]
    assert len(records.leases) == 4
    assert (await one(live, held)).attempt == 2


async def test_a_job_whose_lease_is_gone_when_it_should_begin_does_not_begin(live, telemetry, recorder):
    tasks = Tasks()
    tasks.task(name="lost")(nothing)
    [held] = await lost(live, 1, "lost")
    records = Records(Once(Delay(200_000)))
    async with worker(records.crossing.before(live), tasks, telemetry, queues={"lost": 1}):
        while not records.leases:
            await asyncio.sleep(0.001)
        await live.jobs.drop([held])
        await recorder.until(EventName.LEASE_LOST)

    assert recorder.count(EventName.STARTED) == recorder.count(EventName.DONE) == 0


async def test_a_job_that_is_cancelled_before_it_is_recorded_does_not_begin(memory, telemetry, recorder):
    tasks, records = Tasks(), Records(DropRequest)
    tasks.task(name="lost")(nothing)
    [held] = await lost(memory, 1, "lost")
    async with worker(records.crossing.before(memory), tasks, telemetry, queues={"lost": 1}, lease=LEASE) as working:
        while not records.leases:
            await asyncio.sleep(0.001)
        await memory.jobs.cancel([held])
        while not next(iter(working._slots.held.values())).ended:
            await asyncio.sleep(0.001)
        records.crossing.rules.clear()
        await recorder.until(EventName.CANCELLED)

    assert recorder.count(EventName.STARTED) == 0
    assert (await one(memory, held)).state is State.CANCELLED


async def test_a_job_that_cannot_be_recorded_in_time_is_handed_back_uncharged(memory, telemetry, recorder):
    tasks, records = Tasks(), Records(DropRequest)
    tasks.task(name="lost")(nothing)
    [held] = await lost(memory, 1, "lost")
    records.crossing.rules["jobs.renew"] = lambda *_: DropRequest()
    records.crossing.rules["jobs.reap"] = lambda *_: DropRequest()
    async with worker(records.crossing.before(memory), tasks, telemetry, queues={"lost": 1}, lease=LEASE) as working:
        while not (working._slots.held and next(iter(working._slots.held.values())).ended):
            await asyncio.sleep(0.001)
        records.crossing.rules.clear()
        await recorder.until(EventName.HANDED_BACK)
        await recorder.until(EventName.DONE)

    found = await one(memory, held)
    assert (found.attempt, found.lost) == (2, 1)
    assert recorder.count(EventName.STARTED) == 1


async def test_a_record_that_the_store_refuses_fails_the_attempt_alone(memory, telemetry, recorder):
    tasks = Tasks()
    records = Records(Once(*[RaiseError(InvalidInput("no"))] * 3))
    tasks.task(name="lost")(nothing)
    [held] = await lost(memory, 1, "lost")
    async with worker(records.crossing.before(memory), tasks, telemetry, queues={"lost": 1}):
        await recorder.until(EventName.SETTLEMENT_REFUSED)
        await recorder.until(EventName.DONE)

    found = await one(memory, held)
    assert (found.state, found.attempt, len(found.failures)) == (State.DONE, 3, 1)


async def test_a_job_of_a_batch_that_was_lost_before_runs_in_no_batch(live, telemetry, recorder):
    seen: list[list[int]] = []

    async def together(ctxs: Any) -> None:
        seen.append([ctx.lease.lost for ctx in ctxs])
        for ctx in ctxs:
            if ctx.lease.lost:
                assert await end(live, ctx.lease, Held(1)) is Verdict.REPEATED

    suspects = await lost(live, 1, "work", count=2, queue="batched")
    others = await put_in(live, *jobs(5, queue="batched"))
    async with worker(live, Batched(together), telemetry, queues={"batched": 1}):
        await recorder.until(EventName.DONE, 7)

    assert sorted(seen) == [[0] * 5, [1], [1]]
    assert set(await states(live, *suspects, *others)) == {State.DONE}


@pytest.mark.parametrize("times", [1, 2])
async def test_a_job_of_a_batch_whose_lease_is_gone_when_it_should_begin_does_not_begin(
    memory, telemetry, recorder, times
):
    ran: list[Any] = []

    async def together(ctxs: Any) -> None:
        ran.append(ctxs)

    [held] = await lost(memory, times, "work", queue="batched")
    records = Records(Once(Delay(200_000)))
    async with worker(records.crossing.before(memory), Batched(together), telemetry, queues={"batched": 1}):
        while not records.leases:
            await asyncio.sleep(0.001)
        await memory.jobs.drop([held])
        await recorder.until(EventName.LEASE_LOST)

    assert ran == []


async def test_a_timeout_counts_from_when_it_is_recorded(memory, telemetry, recorder):
    tasks, records = Tasks(), Records(Once(Delay(400_000)))

    @tasks.task(name="lost", timeout=SECOND // 5)
    async def suspect(number: int) -> None:
        await asyncio.sleep(0.01)

    await lost(memory, 1, "lost")
    async with worker(records.crossing.before(memory), tasks, telemetry, queues={"lost": 1}):
        await recorder.until(EventName.DONE)

    assert recorder.count(EventName.RETRYING) == 0


async def test_jobs_that_were_lost_once_run_side_by_side(memory, telemetry, recorder):
    tasks, gate = Tasks(), Gate()
    tasks.task(name="lost")(gate)
    await lost(memory, 1, "lost", count=5)
    async with worker(memory, tasks, telemetry, queues={"lost": 1}, concurrency=5):
        await recorder.until(EventName.STARTED, 5)
        gate.open()
        await recorder.until(EventName.DONE, 5)

    assert gate.most == 5


async def test_what_is_emitted_by_a_job_that_was_lost_before_comes_after_its_record(live, telemetry, recorder):
    tasks, records = Tasks(), Records()

    @tasks.task(name="lost")
    async def suspect(number: int) -> None:
        current().emit("one")
        current().emit("two")

    [held] = await lost(live, 1, "lost")
    async with worker(records.crossing.before(live), tasks, telemetry, queues={"lost": 1}):
        await recorder.until(EventName.DONE)

    page = await live.records.find("packhorse.chunks", limit=10)
    assert len(page.items) == 3
    assert {lease.id for lease in records.leases} == {held}


async def nothing(**_: object) -> None:
    pass
