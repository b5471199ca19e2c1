"""What a handler writes in its transaction is there if, and only if, its job is done by it."""

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from packhorse.engine.attempt import current_attempt
from packhorse.engine.context import current
from packhorse.engine.registry import Entry
from packhorse.engine.tx import FROM_STORE
from packhorse.errors import NoTransactions, OutcomeUnknown, StoreUnavailable, TransactionOver
from packhorse.model.effect import Put
from packhorse.model.job import State
from packhorse.model.lease import Verdict
from packhorse.stores.contract import Store
from packhorse.testing.faults import DropReply, DropRequest, RaiseError
from tests import business
from tests.business import TABLE, rows
from tests.conftest import room
from tests.engine.factories import SECOND, Crossing, EventName, Once, Run, Tasks, job, jobs, lost, worker
from tests.engine.test_losses import taken_over
from tests.factories import Done, Held, end, new, one, put_in, state, states

WAYS = [Run.ASYNC, Run.THREAD]


@pytest.fixture(params=business.KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def live(live: Store) -> AsyncIterator[Store]:
    """A store whose database has a table of the user's own."""
    await business.begin(live)
    yield live
    await business.done(live, f"drop table {TABLE}")


class Writes:
    """Tasks that write a row in their transaction, plain or async, and do something more before they end."""

    def __init__(self, kind: str) -> None:
        self.tasks, self._sql = Tasks(), business.write(kind)
        self.wrote = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def task(self, run: Run, then: Any = None, **options: Any) -> None:
        """A task named ``work``; ``then`` is called after it wrote, and may wait."""

        async def on_loop(number: int = 1) -> str:
            assert await current().tx.execute(self._sql, number, "row") == 1
            self.wrote.set()
            if then is not None and asyncio.iscoroutine(more := then()):
                await more
            return "written"

        def in_thread(number: int = 1) -> str:
            assert current().tx.execute(self._sql, number, "row") == 1
            self._loop.call_soon_threadsafe(self.wrote.set)
            if then is not None:
                then()
            return "written"

        self.tasks.task(run, name="work", transaction=FROM_STORE, **options)(on_loop if run is Run.ASYNC else in_thread)


@pytest.fixture
async def writes(kind: str) -> Writes:
    return Writes(kind)


@pytest.mark.parametrize("run", WAYS)
async def test_what_was_written_the_result_and_the_effects_are_there_together(live, writes, telemetry, recorder, run):
    follow_up = new(queue="later")

    def more() -> None:
        current().enqueue(follow_up)
        current().publish("news", b"1")

    writes.task(run, more)
    [held] = await put_in(live, job("work", number=7))
    async with worker(live, writes.tasks, telemetry) as working:
        await recorder.until(EventName.DONE)
        await working.idle()

    assert (await one(live, held)).result == b'"written"'
    assert await rows(live) == [7]
    assert await state(live, follow_up.id) is State.READY
    assert len(await live.streams.read("news")) == 1
    assert recorder.of(EventName.DONE)[0]["duration"] > 0


@pytest.mark.parametrize("run", WAYS)
@pytest.mark.parametrize("times", [1, 2])
async def test_a_job_that_was_lost_before_is_recorded_outside_its_transaction(
    live, writes, telemetry, recorder, run, times
):
    crossing = Crossing()
    writes.task(run)
    [held] = await lost(live, times, "work")
    async with worker(crossing.before(live), writes.tasks, telemetry, queues={"lost": 1}):
        await recorder.until(EventName.DONE)

    settled = [it for name, args in crossing.calls if name == "jobs.exchange" for it in args[0]]
    assert [it.lease.id for it in settled if isinstance(it.outcome, Held)] == [held]
    assert len(await rows(live)) == 1


@pytest.mark.parametrize("run", WAYS)
async def test_a_failed_try_leaves_nothing_and_the_next_one_writes(live, writes, telemetry, recorder, run):
    def fail_once() -> None:
        current().publish("news", b"%d" % current().attempt)
        if current().attempt == 1:
            raise ValueError("no")

    writes.task(run, fail_once)
    [held] = await put_in(live, job("work"))
    async with worker(live, writes.tasks, telemetry):
        await recorder.until(EventName.RETRYING)
        await recorder.until(EventName.DONE)

    assert await rows(live) == [1]
    assert [event.data for event in await live.streams.read("news")] == [b"2"]
    assert (await one(live, held)).attempt == 2


@pytest.mark.parametrize("run", WAYS)
async def test_a_job_that_dies_leaves_nothing(live, writes, telemetry, recorder, run):
    def fail() -> None:
        raise ValueError("no")

    writes.task(run, fail, attempts=2)
    await put_in(live, *jobs(5))
    async with worker(live, writes.tasks, telemetry):
        await recorder.until(EventName.DEAD, 5)

    assert await rows(live) == []


async def test_a_cancelled_attempt_is_rolled_back(live, writes, telemetry, recorder):
    writes.task(Run.ASYNC, asyncio.Event().wait)
    [held] = await put_in(live, job("work"))
    async with worker(live, writes.tasks, telemetry, lease=3 * SECOND):
        await writes.wrote.wait()
        await live.jobs.cancel([held])
        await recorder.until(EventName.CANCELLED)

    assert await rows(live) == []


@pytest.mark.parametrize("run", WAYS)
async def test_an_attempt_that_runs_out_of_time_is_rolled_back_before_it_stops(live, writes, telemetry, recorder, run):
    tried: list[BaseException] = []

    def slow() -> Any:
        ctx = current()
        if ctx.attempt > 1:
            return None
        if run is Run.ASYNC:
            return asyncio.Event().wait()
        while not ctx.cancelled:
            pause.wait(0.01)
        try:
            ctx.tx.execute(f"delete from {TABLE}")
        except TransactionOver as error:
            tried.append(error)
        return None

    pause = threading.Event()
    writes.task(run, slow, timeout=SECOND // 5)
    [held] = await put_in(live, job("work"))
    async with worker(live, writes.tasks, telemetry):
        await recorder.until(EventName.RETRYING)
        await recorder.until(EventName.DONE)

    assert (await rows(live), (await one(live, held)).attempt) == ([1], 2)
    assert len(tried) == (run is Run.THREAD)


@pytest.mark.parametrize("run", WAYS)
async def test_an_attempt_whose_lease_was_lost_writes_nothing(live, writes, telemetry, recorder, run, kind):
    tasks, crossing = writes.tasks, Crossing()
    crossing.rules["jobs.renew"] = lambda *_: DropRequest()  # so nobody tells the attempt
    go, gate = asyncio.Event(), threading.Event()

    async def on_loop() -> None:
        await go.wait()
        await current().tx.execute(business.write(kind), 1, "zombie")

    def in_thread() -> None:
        gate.wait(20)
        current().tx.execute(business.write(kind), 1, "zombie")

    tasks.task(run, name="work", transaction=FROM_STORE)(on_loop if run is Run.ASYNC else in_thread)
    [held] = await put_in(live, job("work"))
    async with worker(crossing.before(live), tasks, telemetry):
        await recorder.until(EventName.STARTED)
        lease = await taken_over(live, held, "work")
        gate.set()
        go.set()
        await recorder.until(EventName.ROLLED_BACK)
        await recorder.until(EventName.LEASE_LOST)
        assert await end(live, lease, Done(b"1")) is Verdict.WRITTEN

    assert (await rows(live), (await one(live, held)).result) == ([], b"1")
    assert recorder.count(EventName.DONE) == 0


async def test_a_worker_that_stops_rolls_back_what_does_not_end(live, writes, telemetry, recorder):
    writes.task(Run.ASYNC, asyncio.Event().wait)
    [held] = await put_in(live, job("work"))
    async with worker(live, writes.tasks, telemetry, grace=SECOND // 10):
        await writes.wrote.wait()

    assert await rows(live) == []
    found = await one(live, held)
    assert (found.state, found.attempt) == (State.READY, 0)


@pytest.mark.parametrize("run", WAYS)
async def test_a_handler_that_does_not_touch_its_transaction_is_settled_with_the_others(live, telemetry, recorder, run):
    tasks, crossing = Tasks(), Crossing()

    async def on_loop(number: int) -> None:
        assert current().tx is not None

    tasks.task(run, name="work", transaction=FROM_STORE)(on_loop if run is Run.ASYNC else (lambda number: None))
    held = await put_in(live, *jobs(20))
    async with worker(crossing.before(live), tasks, telemetry):
        await recorder.until(EventName.DONE, 20)

    assert set(await states(live, *held)) == {State.DONE}
    assert not [name for name, _ in crossing.calls if name.startswith("transaction")]


async def test_a_record_that_was_changed_meanwhile_rolls_back_and_the_try_is_repeated(
    live, writes, telemetry, recorder
):
    def expect() -> None:
        current_attempt().effects.append(Put("kind", "key", b"1", expect=7 if current().attempt == 1 else 0))

    writes.task(Run.ASYNC, expect)
    [held] = await put_in(live, job("work"))
    async with worker(live, writes.tasks, telemetry):
        await recorder.until(EventName.SETTLEMENT_REFUSED)
        await recorder.until(EventName.DONE)

    assert (await rows(live), (await one(live, held)).attempt) == ([1], 2)


FAULTS = [
    ("transaction.execute", DropRequest()),
    ("transaction.execute", DropReply()),
    ("transaction.settle", DropRequest()),
    ("transaction.settle", DropReply()),
    ("transaction.settle", RaiseError(StoreUnavailable("away"))),
    ("jobs.exchange", DropReply()),
    ("jobs.exchange", DropRequest()),
    ("jobs.renew", DropReply()),
]


@pytest.mark.parametrize(("verb", "fault"), FAULTS, ids=[f"{verb}-{type(fault).__name__}" for verb, fault in FAULTS])
@pytest.mark.parametrize("run", WAYS)
async def test_s31_whatever_goes_wrong_on_the_way_there_is_one_row_for_the_job(
    live, writes, telemetry, recorder, run, verb, fault
):
    crossing = Crossing()
    crossing.rules[verb] = Once(fault)
    follow_up = new(queue="later")
    writes.task(run, lambda: current().enqueue(follow_up))
    [held] = await put_in(live, job("work"))
    async with worker(crossing.before(live), writes.tasks, telemetry, lease=SECOND):
        while await state(live, held) is not State.DONE:
            await asyncio.sleep(0.01)

    assert await rows(live) == [1]
    assert await state(live, follow_up.id) is State.READY


@pytest.mark.parametrize("run", WAYS)
async def test_s31_a_commit_whose_answer_is_lost_is_not_done_twice(live, writes, telemetry, recorder, run):
    """The last try: had the commit not happened it would be dead now, and there would be no row."""
    crossing = Crossing()
    crossing.rules["transaction.settle"] = Once(DropReply())
    writes.task(run, attempts=1)
    [held] = await put_in(live, job("work"))
    async with worker(crossing.before(live), writes.tasks, telemetry) as working:
        await writes.wrote.wait()
        await working.idle()

    assert ((await one(live, held)).state, await rows(live)) == (State.DONE, [1])


@pytest.mark.parametrize("run", WAYS)
async def test_s31_a_commit_that_did_not_happen_leaves_neither_row_nor_done_job(live, writes, telemetry, recorder, run):
    crossing = Crossing()
    crossing.rules["transaction.settle"] = Once(RaiseError(OutcomeUnknown("the answer was lost")))
    writes.task(run, attempts=1)
    [held] = await put_in(live, job("work"))
    async with worker(crossing.before(live), writes.tasks, telemetry):
        await recorder.until(EventName.DEAD)

    assert ((await one(live, held)).state, await rows(live)) == (State.DEAD, [])


async def test_statements_given_at_once_run_one_after_the_other(live, telemetry, recorder, kind):
    tasks, sql = Tasks(), business.write(kind)

    @tasks.task(transaction=FROM_STORE)
    async def work() -> None:
        await asyncio.gather(*(current().tx.execute(sql, number, "row") for number in range(10)))

    await put_in(live, job("work"))
    async with worker(live, tasks, telemetry):
        await recorder.until(EventName.DONE)

    assert await rows(live) == list(range(10))


@pytest.mark.parametrize("run", WAYS)
async def test_rows_and_values_are_found_by_name_and_position(live, telemetry, recorder, kind, run):
    tasks, sql, found = Tasks(), business.write(kind), []
    names = f"select id, name from {TABLE} order by id"

    async def on_loop() -> None:
        tx = current().tx
        await tx.execute(sql, 1, "one")
        found.extend([await tx.fetchval(names), (await tx.fetchrow(names))["name"], len(await tx.fetch(names))])
        found.extend([await tx.fetchrow(f"{names} offset 1" if kind == "postgres" else f"{names} limit 1 offset 1")])

    def in_thread() -> None:
        tx = current().tx
        tx.execute(sql, 1, "one")
        found.extend([tx.fetchval(names), tx.fetchrow(names)["name"], len(tx.fetch(names))])
        found.extend([tx.fetchval(f"select id from {TABLE} where id = 2")])

    tasks.task(run, name="work", transaction=FROM_STORE)(on_loop if run is Run.ASYNC else in_thread)
    await put_in(live, job("work"))
    async with worker(live, tasks, telemetry):
        await recorder.until(EventName.DONE)

    assert found == [1, "one", 1, None]


async def test_a_task_without_a_transaction_has_none(memory, telemetry, recorder):
    tasks = Tasks()

    @tasks.task(attempts=1)
    async def work() -> None:
        assert current().tx

    [held] = await put_in(memory, job("work"))
    async with worker(memory, tasks, telemetry):
        await recorder.until(EventName.DEAD)

    [failed] = (await one(memory, held)).failures
    assert "transaction=True" in failed.message


def test_a_task_in_a_child_process_cannot_have_one():
    with pytest.raises(NoTransactions, match='run="thread"'):
        Entry(name="work", call=print, run=Run.PROCESS, transaction=FROM_STORE)


@pytest.mark.parametrize("kind", [kind for kind in business.KINDS if kind == "postgres"])
@pytest.mark.parametrize("run", WAYS)
async def test_a_statement_that_does_not_end_is_cancelled_with_its_attempt(live, telemetry, recorder, kind, run):
    tasks = Tasks()

    async def on_loop(number: int) -> None:
        await current().tx.execute(business.write(kind), number, "row")
        await current().tx.fetch(forever)

    def in_thread(number: int) -> None:
        current().tx.execute(business.write(kind), number, "row")
        current().tx.fetch(forever)

    forever = f"select pg_sleep(600), '{room()}'"  # other test processes sleep on the same server

    slow = on_loop if run is Run.ASYNC else in_thread
    tasks.task(run, name="work", transaction=FROM_STORE, timeout=SECOND // 2, attempts=1)(slow)
    await put_in(live, *jobs(9, "work"))  # one more than there are connections
    async with worker(live, tasks, telemetry, concurrency=9):
        await recorder.until(EventName.DEAD, 9)

    assert await rows(live) == []
    look = live.transaction(SECOND)
    busy = "select count(*) from pg_stat_activity where state = 'active' and query = $1"
    async with asyncio.timeout(10):  # a server cancels some time after it was asked to
        while (await look.fetch(busy, forever))[0][0]:
            await asyncio.sleep(0.01)
    await look.roll_back()
