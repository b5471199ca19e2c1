"""The short ways of plain jobs on PostgreSQL: what they leave out is looked for elsewhere, or not needed."""

import pytest

from packhorse.model import limits
from packhorse.model.ids import new_id
from packhorse.model.job import Receipt, Retention, State
from packhorse.model.lease import Settlement
from packhorse.model.outcome import Again, Done
from tests.conftest import kinds, namespace
from tests.factories import WORKER, end, new, one, put_in, state, take

if "postgres" not in kinds():
    pytest.skip("PostgreSQL is not among the stores to test", allow_module_level=True)

pytestmark = pytest.mark.parametrize("kind", ["postgres"])
SCHEMA = namespace("postgres")


async def buried(store) -> bytes:
    """The id of a job that has ended and was pruned."""
    [job] = await put_in(store, new())
    [lease] = await take(store)
    await end(store, lease, Done(keep=Retention(0, 0)))
    assert (await store.jobs.prune(10)).jobs == 1
    return job


async def test_jobs_with_ids_on_both_sides_of_a_tomb_are_created(store):
    before, tomb, after = new_id(), await buried(store), new_id()
    assert before < tomb < after

    receipts = await store.jobs.enqueue([new(id=after), new(id=before)])

    assert receipts == [Receipt(after, True), Receipt(before, True)]


async def test_a_known_id_among_others_is_reported_and_the_others_are_created(store):
    tomb = await buried(store)
    [there] = await put_in(store, new())
    fresh = new_id()

    receipts = await store.jobs.enqueue([new(id=fresh), new(id=there), new(id=tomb)])

    assert receipts == [Receipt(fresh, True), Receipt(there, False), Receipt(tomb, False)]
    assert [lease.id for lease in await take(store)] == [there, fresh]


async def test_jobs_of_many_kinds_in_one_call_keep_what_is_their_own_and_their_order(store):
    many = [
        new(task=f"task{n % 3}", queue=f"queue{n % 2}", priority=n % 5, tenant=f"tenant{n % 7}" if n % 7 else None)
        for n in range(100)
    ]

    await put_in(store, *many)

    for job, found in zip(many, await store.jobs.get([job.id for job in many]), strict=True):
        assert (found.task, found.queue, found.priority, found.tenant) == (
            job.task,
            job.queue,
            job.priority,
            job.tenant,
        )
    leased = [lease.id for lease in await take(store, 50, "queue0")]
    assert leased == [job.id for job in sorted(many[::2], key=lambda job: job.priority)]
    assert {
        queue: counts[State.READY] for queue, counts in (await store.jobs.count()).items() if State.READY in counts
    } == {"queue1": 50}


async def test_the_order_of_arrival_has_room_for_all_jobs_of_a_call(store, raw):
    step = await raw.fetchval(
        "SELECT increment_by FROM pg_sequences WHERE schemaname = $1 AND sequencename = 'arrival'", SCHEMA
    )

    assert step > limits.ITEMS


async def test_a_ready_job_is_found_where_it_was_enqueued_and_where_it_came_back(store):
    back, cancelled, there = await put_in(store, new(), new(), new())
    [lease] = await take(store, 1)
    await end(store, lease, Again(0))

    assert (await one(store, back)).attempt == 1
    assert await store.jobs.cancel([cancelled, back]) == [State.CANCELLED, State.CANCELLED]
    assert [await state(store, job) for job in (back, cancelled, there)] == [
        State.CANCELLED, State.CANCELLED, State.READY
    ]  # fmt: skip


async def test_get_and_cancel_read_no_more_when_much_is_ready(store, raw, clock):
    [job] = await put_in(store, new())
    await store.jobs.get([job])  # planned while the tables are small
    for _ in range(20):
        await put_in(store, *(new() for _ in range(500)))
    get, cancel = store._layout.statements.get, store._layout.functions.call("cancel", 5)
    for _ in range(8):
        undone = raw.transaction()
        await undone.start()
        await raw.fetch(get, [job], True)
        await raw.fetch(cancel, [job], 1000, 10**12, True, clock.now())
        read = await raw.fetchval(
            "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables"
            " WHERE schemaname = $1 AND relname = 'ready'",
            SCHEMA,
        )
        await undone.rollback()
        assert read < 20


async def test_an_exchange_goes_through_no_leases_of_others_though_there_were_none_at_the_last_vacuum(
    store, raw, clock
):
    for count in (500, 110):
        await put_in(store, *(new() for _ in range(count)))
    await store.jobs.exchange([Settlement(lease, Done()) for lease in await take(store, 100)])
    await raw.execute(f"VACUUM (TRUNCATE off) {SCHEMA}.running")
    lease, *_ = await take(store, 500)
    undone = raw.transaction()
    await undone.start()

    await raw.fetch(
        store._layout.functions.call("exchange", 19), [lease.id], [lease.token], [None], None,
        WORKER, new_id(), 10**9, 0, False, ["default"], [5], [None], 1 << 22, None, 1000, 10**12, 10, True, clock.now(),
    )  # fmt: skip

    read = await raw.fetchval(
        "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE schemaname = $1 AND relname = 'running'",
        SCHEMA,
    )
    await undone.rollback()
    assert read < 20


async def test_counts_of_thousands_of_queues_are_folded_and_those_of_past_queues_go(store, raw):
    names = [f"customer-{number}" for number in range(3000)]
    for _ in range(2):
        for first in range(0, len(names), 500):
            await put_in(store, *(new(queue=name, delay=3600 * 10**6) for name in names[first : first + 500]))
    for _ in range(3):
        await store.jobs.reap(10)

    assert await raw.fetchval(f"SELECT count(*) FROM {SCHEMA}.count_deltas") <= 100
    counts = await store.jobs.count()
    assert {counts[name][State.SCHEDULED] for name in names} == {2}

    jobs = await raw.fetch(f"SELECT id FROM {SCHEMA}.scheduled")
    for first in range(0, len(jobs), 500):
        await store.jobs.drop([job for (job,) in jobs[first : first + 500]])
    assert await store.jobs.count() == {}
    for _ in range(3):
        await store.jobs.reap(10)
    assert await raw.fetchval(f"SELECT count(*) FROM {SCHEMA}.count_totals") == 0
