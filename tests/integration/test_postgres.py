"""What only PostgreSQL can show: row locks, plans, faults in the middle of a call."""

import asyncio
import os
from collections import Counter
from typing import Any

import asyncpg
import pytest

from packhorse.errors import StoreError
from packhorse.model.effect import Enqueue, Publish, Put
from packhorse.model.ids import new_id
from packhorse.model.job import NewJob, State, UniqueKey
from packhorse.model.lease import Renewed, Settlement
from packhorse.model.outcome import Again, Done, On, Wait
from packhorse.model.reason import WaitReason
from packhorse.stores.contract import Store
from packhorse.stores.postgres import encoding
from packhorse.stores.postgres.store import PostgresStore
from packhorse.stores.sql.prefix import between
from tests.conftest import kinds, namespace
from tests.factories import ask, end, found, laned, new, one, put_in, state, take
from tests.integration.lock_waits import waiting_for_a_lock

if "postgres" not in kinds():
    pytest.skip("PostgreSQL is not among the stores to test", allow_module_level=True)

pytestmark = pytest.mark.parametrize("kind", ["postgres"])
SCHEMA = namespace("postgres")
SOON = 10


async def test_a_lease_that_another_call_holds_is_busy_and_not_lost(store, raw):
    await put_in(store, new(), new())
    held, free = await take(store)
    async with raw.transaction():
        await raw.execute(f"SELECT 1 FROM {SCHEMA}.running WHERE id = $1 FOR UPDATE", held.id)

        renewed = await store.jobs.renew([held, free], 1000)

    assert renewed == [Renewed.BUSY, Renewed.KEPT]
    assert await store.jobs.renew([held, free], 1000) == [Renewed.KEPT, Renewed.KEPT]


async def test_reap_passes_over_a_lease_that_another_call_holds(store, raw, clock):
    await put_in(store, new(), new())
    held, free = await take(store)
    clock.to(held.until + 1)
    async with raw.transaction():
        await raw.execute(f"SELECT 1 FROM {SCHEMA}.running WHERE id = $1 FOR UPDATE", held.id)

        assert [lost.id for lost in await store.jobs.reap(10)] == [free.id]

    assert [lost.id for lost in await store.jobs.reap(10)] == [held.id]


async def test_hot_verbs_need_no_lock_on_the_head_of_the_lifecycle(store, raw):
    await put_in(store, new())
    await store.streams.read("packhorse.jobs")
    async with raw.transaction():
        await raw.execute(f"SELECT 1 FROM {SCHEMA}.stream_heads FOR UPDATE")
        await asyncio.wait_for(put_in(store, new()), SOON)
        [first, second] = await take(store)
        await asyncio.wait_for(end(store, first, Done()), SOON)

    events = await store.streams.read("packhorse.jobs")
    assert [event.offset for event in events] == [1, 2, 3, 4]
    assert await end(store, second, Done()) == "written"


async def scanned(connection: Any) -> dict[str, tuple[int, int]]:
    """Rows read in this transaction by scanning each table, and through its indexes."""
    rows = await connection.fetch(
        "SELECT relname, coalesce(seq_tup_read, 0), coalesce(idx_tup_fetch, 0)"
        " FROM pg_stat_xact_user_tables WHERE schemaname = $1",
        SCHEMA,
    )
    return {row[0]: (row[1], row[2]) for row in rows}


async def test_calls_read_no_more_when_much_is_scheduled_and_much_has_ended(store, raw, clock):
    many = 100_000
    await put_in(store, new())
    await end(store, *(await take(store)), Done())  # functions are planned while the tables are small
    later = clock.now() + 10**12
    await raw.execute(
        f"INSERT INTO {SCHEMA}.jobs (id, enqueued_at, due, children, priority, lane_limit, queue, task, headers, payload)"
        f" SELECT lpad(to_hex(n), 32, '0')::uuid, 0, {later}, 0, n % 3, 1, 'default', 'work', '', ''"
        f" FROM generate_series(1, {2 * many}) AS n"
    )
    await raw.execute(
        f"INSERT INTO {SCHEMA}.scheduled (due, id, attempt, lost, priority, lane_limit, slot, queue, lane)"
        f" SELECT {later} + n, lpad(to_hex(n), 32, '0')::uuid, 0, 0, n % 3, 1, false, 'default',"
        f" CASE WHEN n % 4 = 0 THEN 'a' END FROM generate_series(1, {many}) AS n"
    )
    await raw.execute(
        f"INSERT INTO {SCHEMA}.ended (finished, id, retention_group, attempt, lost)"
        f" SELECT n, lpad(to_hex({many} + n), 32, '0')::uuid, 1, 1, 0 FROM generate_series(1, {many}) AS n"
    )
    await raw.execute(
        f"INSERT INTO {SCHEMA}.tombstones (forget, id, verdict)"
        f" SELECT {later}, lpad(to_hex({2 * many} + n), 32, '0')::uuid, 'done' FROM generate_series(1, {many}) AS n"
    )
    await raw.execute(f"INSERT INTO {SCHEMA}.count_deltas (queue, scheduled, done) VALUES ('default', {many}, {many})")
    call, now = store._layout.functions.call, clock.now()
    lease = None
    for number in range(3):
        async with raw.transaction():
            job = f'[{{"id":"{new_id().hex()}","task":"work"}},{{"id":"{new_id().hex()}","task":"x","lane":"a"}}]'
            await raw.fetch(call("enqueue", 5), [job], False, True, True, now)
            await raw.fetch(call("enqueue_plain", 13), *encoding.plain([new(), new("x")]), b"", now)
            done = [lease] if lease else []
            answer = await raw.fetchrow(
                call("exchange", 19), done, [new_id()] * len(done), [None] * len(done), None,
                new_id(), new_id(), 10**9, 0, False, ["default"], [1], [None], 1 << 22, None, 1000, 10**12, 10, True, now,
            )  # fmt: skip
            [lease] = answer["lease_id"]
            await raw.fetch(call("renew", 4), [lease], [new_id()], 1000, now)
            await raw.fetch(call("reap", 8), 10, 3, 1, 1, 1, 1, True, now)
            read = await scanned(raw)
        tables = ("jobs", "scheduled", "ready", "running", "waiting", "ended", "tombstones")
        big = {table: read[table] for table in tables if table in read}
        assert all(rows < 50 for rows, _ in big.values()), (number, big)
        assert all(rows < 200 for _, rows in big.values()), (number, big)
    assert answer["next_due"] == later + 1, "the next due moment is found among all that is scheduled"


async def test_records_are_found_by_their_prefix_without_reading_others(store, raw, clock):
    await raw.execute(
        f"INSERT INTO {SCHEMA}.records (kind, key, value, version, due, expires)"
        " SELECT 'kind', lpad(n::text, 5, '0') || '/a', '', 1, 0, 0 FROM generate_series(1, 20000) AS n"
    )
    async with raw.transaction():
        await raw.execute("SET LOCAL plan_cache_mode = force_generic_plan")  # as the server may choose at any time
        found = await raw.fetch(store._layout.statements.find_records, "kind", *between("10000/", ""), 500, clock.now())
        read = (await scanned(raw))["records"]

    assert [row["key"] for row in found] == ["10000/a"]
    assert read == (0, 1)


async def test_a_wait_that_begins_while_its_record_is_put_is_not_forgotten(store, url, raw, clock):
    [job] = await put_in(store, new())
    [lease] = await take(store)
    putter = await asyncpg.connect(url)
    transaction = putter.transaction()
    await transaction.start()
    await putter.fetch(
        store._layout.functions.call("put_records", 2), '[{"kind":"k","key":"a","value":"1"}]', clock.now()
    )

    waits = asyncio.create_task(end(store, lease, Wait(WaitReason.SIGNAL, On("k", "a"))))
    await waiting_for_a_lock(raw)
    await transaction.commit()
    await waits
    await putter.close()

    assert await state(store, job) is State.READY


async def test_the_ends_of_two_last_children_at_once_release_their_parent(store, url, raw, clock):
    [parent] = await put_in(store, new("parent", queue="parents", children=2))
    await put_in(store, new(parent=parent), new(parent=parent))
    first, second = await take(store)
    other = await asyncpg.connect(url)
    await other.set_type_codec("uuid", schema="pg_catalog", format="binary", encoder=bytes, decoder=bytes)
    transaction = other.transaction()
    await transaction.start()
    await other.fetch(
        store._layout.functions.call("exchange", 19), [first.id], [first.token], [None], None,
        *[None] * 10, 1000, 10**12, 10, True, clock.now(),
    )  # fmt: skip

    last = asyncio.create_task(end(store, second, Done()))
    await waiting_for_a_lock(raw)
    await transaction.commit()
    await last
    await other.close()

    assert (await one(store, parent)).delivered == 2
    assert await state(store, parent) is State.READY


async def test_two_migrators_at_once_take_each_step_once_and_leave_a_layout_that_works(url, raw):
    name = f"fresh_{os.urandom(6).hex()}"
    stores = [PostgresStore(url, namespace=name) for _ in range(3)]
    try:
        taken = await asyncio.gather(*(store.migrate() for store in stores))

        steps = [step for names in taken for step in names]
        assert Counter(steps) == Counter(set(steps))
        assert set(steps) == {"0001_tables", "functions_1"}
        await stores[0].open()
        await put_in(stores[0], new())
        assert len(await take(stores[0])) == 1
    finally:
        await asyncio.gather(*(store.close() for store in stores))
        await raw.execute(f"DROP SCHEMA {name} CASCADE")


@pytest.mark.parametrize("name", ["Größe \"x\" 'y'", "%s {schema}", "select"])
async def test_any_name_of_a_namespace_is_only_a_name(url, raw, name):
    store = PostgresStore(url, namespace=name)
    try:
        await store.migrate()
        await store.open()
        await put_in(store, laned(), laned())
        [lease] = await take(store)
        assert await end(store, lease, Done()) == "written"
        assert len(await take(store)) == 1
    finally:
        await store.close()
        await raw.execute('DROP SCHEMA IF EXISTS "{}" CASCADE'.format(name.replace('"', '""')))


async def digest(connection: Any) -> dict[str, str]:
    """What every table of the schema holds."""
    tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = $1", SCHEMA)
    return {
        row[0]: await connection.fetchval(
            f"SELECT md5(coalesce(string_agg(t::text, '|' ORDER BY t::text), '')) FROM {SCHEMA}.{row[0]} AS t"
        )
        for row in tables
    }


async def test_a_fault_in_any_table_leaves_everything_as_it_was(store, raw):
    await raw.execute(
        f"CREATE FUNCTION {SCHEMA}.fault() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'fault'; END $$"
    )
    failed = set()
    tables = [table for table in await digest(raw) if table != "migrations"]
    try:
        for number, table in enumerate(tables):
            failed |= await fault(store, raw, table, f"q{number}")
    finally:
        await raw.execute(f"DROP FUNCTION {SCHEMA}.fault CASCADE")
    assert failed == {
        "claim_requests", "count_deltas", "ended", "events", "families", "jobs", "lanes", "lifecycle", "ready", "records",
        "retention_groups", "running", "stream_heads", "unique_keys", "waiting",
    }  # fmt: skip


async def fault(store: Store, raw: Any, table: str, queue: str) -> set[str]:
    """Make writes to a table fail, then run an exchange that touches nearly all of them."""
    [parent] = await put_in(store, new("parent", queue=queue, children=1))
    await put_in(
        store,
        laned(queue=queue, parent=parent, unique=UniqueKey(f"{queue}.child")),
        laned(queue=queue),
        laned("other", queue=queue),
    )
    child, alone = await take(store, 2, queue)
    effects = (
        Enqueue(new(queue=queue, unique=UniqueKey(f"{queue}.next"))),
        Publish(f"news.{queue}", b"1"),
        Put("kind", queue, b"1", expect=0),
    )
    settlements = [Settlement(child, Done(b"2"), effects), Settlement(alone, Done())]
    before = await digest(raw)
    await raw.execute(
        f"CREATE TRIGGER fault BEFORE INSERT OR UPDATE OR DELETE ON {SCHEMA}.{table}"
        f" FOR EACH ROW EXECUTE FUNCTION {SCHEMA}.fault()"
    )
    try:
        await store.jobs.exchange(settlements, ask(10, queue))
    except StoreError:
        assert await digest(raw) == before, table
        return {table}
    finally:
        await raw.execute(f"DROP TRIGGER fault ON {SCHEMA}.{table}")
    return set()


async def broken_rules(connection: Any) -> list[str]:
    """Rules of the layout that do not hold: one place a job, slots as held, counts as counted, nobody stranded."""
    rules = {
        "one place": """
            SELECT count(*) FROM SCHEMA.jobs LEFT JOIN (
                SELECT id, count(*) AS places FROM (
                    SELECT id FROM SCHEMA.ready UNION ALL SELECT id FROM SCHEMA.scheduled UNION ALL
                    SELECT id FROM SCHEMA.running UNION ALL SELECT id FROM SCHEMA.waiting UNION ALL
                    SELECT id FROM SCHEMA.ended
                ) AS place GROUP BY id
            ) AS found USING (id) WHERE places IS DISTINCT FROM 1""",
        "slots": """
            SELECT count(*) FROM SCHEMA.lanes FULL JOIN (
                SELECT queue, lane, count(*) AS slots FROM (
                    SELECT queue, lane FROM SCHEMA.ready UNION ALL SELECT queue, lane FROM SCHEMA.running UNION ALL
                    SELECT queue, lane FROM SCHEMA.scheduled WHERE slot UNION ALL
                    SELECT queue, lane FROM SCHEMA.waiting WHERE slot
                ) AS taken WHERE lane IS NOT NULL GROUP BY queue, lane
            ) AS taken USING (queue, lane) WHERE held IS DISTINCT FROM slots""",
        "counts": """
            SELECT count(*) FROM (
                SELECT sum(scheduled) - (SELECT count(*) FROM SCHEMA.scheduled) AS a,
                    sum(ready) - (SELECT count(*) FROM SCHEMA.ready) AS b,
                    sum(running) - (SELECT count(*) FROM SCHEMA.running) AS c,
                    sum(waiting) - (SELECT count(*) FROM SCHEMA.waiting) AS d,
                    sum(done + dead + cancelled) - (SELECT count(*) FROM SCHEMA.ended) AS e
                FROM SCHEMA.count_deltas
            ) AS off WHERE (a, b, c, d, e) <> (0, 0, 0, 0, 0)""",
        "deliveries": """
            SELECT count(*) FROM SCHEMA.families WHERE delivered <> (
                SELECT count(*) FROM SCHEMA.records
                WHERE kind = 'packhorse.delivered' AND key LIKE replace(families.id::text, '-', '') || '/%'
            )""",
    }
    return [name for name, rule in rules.items() if await connection.fetchval(rule.replace("SCHEMA", SCHEMA))]


async def deadlocks(connection: Any) -> int:
    return await connection.fetchval("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")


async def test_calls_on_the_same_lanes_and_parents_do_not_hinder_each_other(store, url, raw, clock):
    before = await deadlocks(raw)
    parents = await put_in(store, *(new("parent", queue="parents", children=60) for _ in range(4)))
    others = [PostgresStore(url, namespace=SCHEMA, clock=clock) for _ in range(2)]
    for other in others:
        await other.open()
    made: list[bytes] = []
    ends: Counter[bytes] = Counter()

    async def enqueue(place: Store, number: int) -> None:
        for turn in range(10):
            new_jobs = [
                NewJob(
                    task="child", lane=f"l{(number + turn * n) % 7}", lane_limit=1 + n % 2,
                    parent=parents[(number + n) % 4], unique=UniqueKey(f"u{number}.{turn}.{n}"),
                    delay=0 if n else 1,
                )
                for n in range(6)
            ]  # fmt: skip
            made.extend(receipt.id for receipt in await place.jobs.enqueue(new_jobs if number % 2 else new_jobs[::-1]))

    async def work(place: Store, enqueuing: "asyncio.Future[Any]") -> None:
        leases: tuple[Any, ...] = ()
        me, idle = new_id(), 0
        while not enqueuing.done() or idle < 5 or leases:
            outcomes = [Again() if lease.attempt == 1 and lease.id[-1] % 4 == 0 else Done(b"1") for lease in leases]
            effects = [
                (Publish(f"s{lease.id[-1] % 3}", b"1"), Put("k", f"{lease.id[-1] % 3}", b"1")) for lease in leases
            ]
            answer = await place.jobs.exchange(
                [Settlement(*each) for each in zip(leases, outcomes, effects, strict=True)],
                ask(15, "default", "parents", worker=me),
            )
            assert set(answer.verdicts) <= {"written"}
            ends.update(lease.id for lease, outcome in zip(leases, outcomes, strict=True) if isinstance(outcome, Done))
            leases = answer.leases
            idle = 0 if leases else idle + 1
            clock.turn(1)

    async with asyncio.timeout(60):
        enqueuing = asyncio.gather(*(enqueue(place, n) for n, place in enumerate([store, *others, store])))
        await asyncio.gather(enqueuing, *(work(place, enqueuing) for place in (store, *others, *others)))

    assert await broken_rules(raw) == []
    left = [job for job in await found(store, limit=1000) if job.state is not State.DONE]
    assert not left, Counter((job.state, job.reason) for job in left)
    assert ends == Counter([*made, *parents])
    for other in others:
        await other.close()
    await store.close()  # a server counts deadlocks of a connection when it ends
    assert await deadlocks(raw) == before


@pytest.mark.xdist_group("vacuum")
async def test_narrow_tables_with_many_dead_rows_are_vacuumed(store, raw):
    await raw.execute(f"ALTER TABLE {SCHEMA}.ready SET (autovacuum_enabled = off)")
    await raw.execute(
        f"INSERT INTO {SCHEMA}.ready (since, id, attempt, lost, priority, lane_limit, queue)"
        " SELECT n, lpad(to_hex(n), 32, '0')::uuid, 0, 0, 1, 1, 'q' FROM generate_series(1, 30000) AS n"
    )
    await raw.execute(f"DELETE FROM {SCHEMA}.ready")
    await raw.close()  # a server tells of dead rows when the connection ends

    async with asyncio.timeout(SOON):
        while "ready" not in await store.maintain():
            await asyncio.sleep(0.01)
        while await store.maintain():
            await asyncio.sleep(0.01)
