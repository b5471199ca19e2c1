"""Leases that are lost, or could not be kept: what runs is stopped, nothing is settled by who may not."""

import asyncio
import threading
import time
from collections.abc import Sequence

import pytest

from packhorse.engine.attempt import current_attempt
from packhorse.engine.context import Context, current
from packhorse.engine.judge import Cause
from packhorse.model.job import State
from packhorse.model.lease import Lease, Verdict
from packhorse.stores.contract import Store
from packhorse.testing import TurnedClock
from packhorse.testing.faults import Delay, DropRequest
from tests.engine.factories import (
    PATIENCE,
    SECOND,
    Crossing,
    EventName,
    Gate,
    Run,
    Tasks,
    job,
    jobs,
    lease_ahead,
    worker,
)
from tests.engine.test_batches import Batched
from tests.factories import Done, end, one, put_in, take

LEASE = 600_000


async def taken_over(store: Store, held: bytes, task: str) -> Lease:
    """Somebody else has the job now, by another token."""
    await store.jobs.drop([held])
    await store.jobs.enqueue([job(task, id=held, queue="elsewhere")])
    [lease] = await take(store, 1, "elsewhere")
    assert lease.id == held
    return lease


async def test_an_attempt_whose_lease_is_lost_is_stopped_and_nothing_is_settled(live, telemetry, recorder):
    tasks, seen = Tasks(), []

    @tasks.task()
    async def work() -> None:
        current().publish("news", b"1")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append(current_attempt().stop_cause)
            raise

    [held] = await put_in(live, job("work"))
    async with worker(live, tasks, telemetry, concurrency=1, lease=LEASE):
        await recorder.until(EventName.STARTED)
        lease = await taken_over(live, held, "work")
        [lost] = await recorder.until(EventName.LEASE_LOST)
        assert lost["lease"].token != lease.token
        assert (await one(live, held)).state is State.RUNNING
        assert await end(live, lease, Done(b"1")) is Verdict.WRITTEN

    assert seen == [Cause.LOST]
    assert (await one(live, held)).result == b"1"
    assert await live.streams.read("news") == []


async def test_what_ends_after_its_lease_was_lost_is_fenced(live, telemetry, recorder):
    tasks, gate = Tasks(), threading.Event()

    @tasks.task(Run.THREAD)
    def work() -> str:
        current().publish("news", b"1")
        gate.wait(20)
        return "too late"

    [held] = await put_in(live, job("work"))
    async with worker(live, tasks, telemetry, concurrency=1):
        await recorder.until(EventName.STARTED)
        lease = await taken_over(live, held, "work")
        gate.set()
        await recorder.until(EventName.LEASE_LOST)
        assert await end(live, lease, Done(b"1")) is Verdict.WRITTEN

    assert (await one(live, held)).result == b"1"
    assert await live.streams.read("news") == []
    assert recorder.count(EventName.DONE) == 0


async def test_a_thread_that_does_not_see_that_its_lease_is_lost_settles_nothing(memory, telemetry, recorder):
    tasks, gate = Tasks(), threading.Event()
    tasks.task(Run.THREAD, name="work")(lambda: gate.wait(20))
    [held] = await put_in(memory, job("work"))
    async with worker(memory, tasks, telemetry, concurrency=2, lease=LEASE, patience=50_000):
        await recorder.until(EventName.STARTED)
        lease = await taken_over(memory, held, "work")
        await recorder.until(EventName.LEASE_LOST)
        gate.set()
        assert await end(memory, lease, Done()) is Verdict.WRITTEN

    assert recorder.count(EventName.DONE) == 0


async def test_a_job_that_comes_back_to_the_worker_that_lost_it_runs_once_more_and_the_old_attempt_stops(
    memory, telemetry, recorder
):
    tasks, tries = Tasks(), []

    @tasks.task()
    async def work() -> None:
        tries.append(current_attempt().lease.token)
        if len(tries) == 1:
            await asyncio.Event().wait()

    [held] = await put_in(memory, job("work"))
    async with worker(memory, tasks, telemetry, concurrency=2):
        await recorder.until(EventName.STARTED)
        await memory.jobs.drop([held])
        await memory.jobs.enqueue([job("work", id=held)])
        [lost] = await recorder.until(EventName.LEASE_LOST)
        [done] = await recorder.until(EventName.DONE)

    assert [lost["lease"].token, done["lease"].token] == tries


@pytest.mark.parametrize("fault", [DropRequest(), Delay(20 * SECOND)], ids=["gone", "hanging"])
async def test_an_attempt_whose_lease_cannot_be_renewed_is_stopped_before_it_ends(memory, telemetry, recorder, fault):
    tasks, crossing, stopped = Tasks(), Crossing(), []
    crossing.rules["jobs.renew"] = lambda *args: fault

    @tasks.task()
    async def work() -> None:
        if not stopped:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                stopped.append((current_attempt().stop_cause, time.time_ns() // 1000))
                raise

    [held] = await put_in(memory, job("work"))
    async with worker(crossing.before(memory), tasks, telemetry, lease=LEASE):
        await recorder.until(EventName.HANDED_BACK)
        await recorder.until(EventName.DONE)

    [(cause, moment)] = stopped
    assert cause is Cause.LAPSED
    assert moment < recorder.of(EventName.STARTED)[0]["lease"].until
    assert (await one(memory, held)).attempt == 1


async def test_a_job_whose_lease_lapsed_is_handed_back_uncharged_when_the_store_is_back(live, telemetry, recorder):
    tasks, crossing, tries, lapsed = Tasks(), Crossing(), [], asyncio.Event()

    @tasks.task()
    async def work() -> None:
        tries.append(current().attempt)
        if len(tries) == 1:
            crossing.rules["*"] = lambda *args: DropRequest()
            try:
                await asyncio.Event().wait()
            finally:
                lapsed.set()

    [held] = await put_in(live, job("work"))
    crossing.rules["jobs.reap"] = lambda *args: DropRequest()
    async with worker(crossing.before(live), tasks, telemetry, lease=LEASE):
        await asyncio.wait_for(lapsed.wait(), PATIENCE)  # exchanges may fail before, for a hint that came late
        await recorder.until(EventName.EXCHANGE_FAILED, 3)
        del crossing.rules["*"]
        await recorder.until(EventName.HANDED_BACK)
        await recorder.until(EventName.STORE_RECOVERED)
        await recorder.until(EventName.DONE)

    found = await one(live, held)
    assert tries == [1, 1]
    assert (found.state, found.attempt, found.lost, found.failures) == (State.DONE, 1, 0, ())
    assert recorder.count(EventName.RENEWAL_FAILED) > 0


async def test_a_job_that_lapsed_and_was_taken_back_meanwhile_is_left_alone(live, telemetry, recorder):
    tasks, crossing, tries = Tasks(), Crossing(), []

    @tasks.task()
    async def work() -> None:
        tries.append(current_attempt().lease.token)
        if len(tries) == 1:
            crossing.rules["*"] = lambda *args: DropRequest()
            await asyncio.Event().wait()

    [held] = await put_in(live, job("work"))
    async with worker(crossing.before(live), tasks, telemetry, lease=LEASE):
        await recorder.until(EventName.EXCHANGE_FAILED, 3)
        while not await live.jobs.reap(10):
            await asyncio.sleep(0.01)
        crossing.rules.clear()
        await recorder.until(EventName.LEASE_LOST)
        await recorder.until(EventName.DONE)

    found = await one(live, held)
    assert (found.state, found.lost, found.failures) == (State.DONE, 1, ())
    assert recorder.count(EventName.HANDED_BACK) == 0
    assert len(tries) == 2


async def test_a_loss_found_by_the_caretaker_is_reported(live, telemetry, recorder):
    tasks = Tasks()
    tasks.task(name="work")(nothing)
    [held] = await put_in(live, job("work"))
    await live.jobs.exchange((), ask_for_a_moment())
    async with worker(live, tasks, telemetry, lease=LEASE):
        [lost] = await recorder.until(EventName.LOST)
        await recorder.until(EventName.DONE)

    assert (lost["job"], lost["count"]) == (held, 1)
    assert (await one(live, held)).lost == 1


def ask_for_a_moment():
    from tests.factories import ask

    return ask(1, lease=1000)


async def nothing() -> None:
    pass


class Nowhere:
    """No place for a keeper: leases are not renewed, as in a process that stands still."""

    def start(self, name: str, run: object) -> None:
        pass

    async def stop(self) -> None:
        pass


@pytest.mark.parametrize("run", [Run.ASYNC, Run.THREAD])
async def test_a_job_in_hand_whose_lease_is_over_by_the_clock_of_its_worker_is_not_begun(
    memory, telemetry, recorder, run
):
    tasks, clock, ran = Tasks(), TurnedClock(), []
    gate, hold = Gate(), threading.Event()
    tasks.task(run, name="slow")(gate if run is Run.ASYNC else lambda: hold.wait(20))

    async def on_loop(number: int) -> None:
        ran.append(current_attempt().lease.token)

    def in_thread(number: int) -> None:
        ran.append(current_attempt().lease.token)

    tasks.task(run, name="work")(on_loop if run is Run.ASYNC else in_thread)
    more = {"clock": clock, "place": Nowhere}
    async with worker(memory, tasks, telemetry, more=more, concurrency=1, lease=300_000) as working:
        lease_ahead(working)
        await put_in(memory, job("slow"), *jobs(3))
        await recorder.until(EventName.STARTED, task="slow")
        clock.turn(400_000)
        gate.open()
        hold.set()
        await recorder.until(EventName.HANDED_BACK, 3, task="work")
        await recorder.until(EventName.DONE, 3, task="work")

    stale = recorder.of(EventName.HANDED_BACK)[0]["lease"].token
    assert len(ran) == 3
    assert stale not in ran


@pytest.mark.parametrize("together", [False, True])
async def test_a_job_with_a_slot_whose_lease_is_over_before_its_first_turn_is_not_begun(
    memory, telemetry, recorder, together
):
    clock, ran = TurnedClock(), []

    async def batch(ctxs: Sequence[Context]) -> None:
        ran.extend(ctx.lease.token for ctx in ctxs)

    tasks = Batched(batch, size=1)

    @tasks.task()
    async def standing() -> None:
        clock.turn(400_000)  # the whole process stood still

    @tasks.task()
    async def work() -> None:
        ran.append(current_attempt().lease.token)

    more, queues = {"clock": clock, "place": Nowhere}, {"default": 2, "batched": 1}
    await put_in(memory, job("standing"), job("work", queue="batched" if together else "default"))
    async with worker(memory, tasks, telemetry, more=more, concurrency=2, lease=300_000, queues=queues):
        await recorder.until(EventName.DONE, task="work")

    [back] = recorder.of(EventName.HANDED_BACK)
    assert len(ran) == 1
    assert back["lease"].token not in ran
