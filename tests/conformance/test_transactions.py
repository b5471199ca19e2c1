"""What an attempt writes and its settlement are committed together, where there are transactions; elsewhere it is refused."""

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator

import asyncpg
import pytest

from packhorse.errors import InvalidOption, NoTransactions, TransactionOver, TransactionTooLong
from packhorse.model.effect import Enqueue, Publish, Put
from packhorse.model.job import State
from packhorse.model.lease import Lease, Settlement, Verdict
from packhorse.stores import open_store
from packhorse.stores.contract import Store, Topic, Transaction
from tests import business
from tests.business import LONG, TABLE, rows
from tests.conftest import room
from tests.factories import SECOND, Again, Done, Held, end, new, one, put_in, state, take


@pytest.fixture(params=business.KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def sql(kind: str) -> str:
    return business.write(kind)


@pytest.fixture
async def store(store: Store) -> AsyncIterator[Store]:
    """A store whose database has a table of the user's own."""
    await business.begin(store)
    yield store
    await business.done(store, f"drop table {TABLE}")


async def leased(store: Store) -> Lease:
    await put_in(store, new())
    [lease] = await take(store)
    return lease


async def test_run_a_statement_of_the_attempt_and_answer_how_many_rows_it_changed(store, sql):
    transaction = store.transaction(LONG)

    assert await transaction.execute(sql, 1, "one") == 1
    assert await transaction.execute(f"insert into {TABLE} values (2, 'two'), (3, 'three')") == 2
    assert await transaction.execute(f"update {TABLE} set name = 'none' where id > 100") == 0
    await transaction.roll_back()


async def test_run_a_statement_of_the_attempt_and_answer_its_rows_by_position_and_by_name(store, sql):
    transaction = store.transaction(LONG)
    await transaction.execute(sql, 1, "one")

    [row] = await transaction.fetch(f"select id, name from {TABLE}")

    assert (row[0], row["name"], list(row.keys())) == (1, "one", ["id", "name"])
    await transaction.roll_back()


async def test_what_a_transaction_wrote_is_seen_by_nobody_else_before_it_is_settled(store, sql, kind):
    lease = await leased(store)
    transaction = store.transaction(LONG)
    await transaction.execute(sql, 1, "one")

    looking = asyncio.ensure_future(rows(store))
    if kind == "postgres":  # others need not wait for it
        assert await looking == []
    assert await transaction.settle(Settlement(lease, Done())) is Verdict.WRITTEN
    if kind != "postgres":
        assert await looking == [1]

    assert await rows(store) == [1]


async def test_a_statement_that_fails_is_the_attempts_to_handle(store, sql):
    lease = await leased(store)
    transaction = store.transaction(LONG)
    await transaction.execute(sql, 1, "one")
    await transaction.execute("savepoint before")

    with pytest.raises(Exception, match=r"(?i)unique"):
        await transaction.execute(sql, 1, "again")
    await transaction.execute("rollback to before")

    assert await transaction.settle(Settlement(lease, Done())) is Verdict.WRITTEN
    assert await rows(store) == [1]


@pytest.mark.parametrize(
    "statement",
    ["commit", "  -- now\n ROLLBACK", "/* so */ begin", "End", "rollback work", "; commit", " ;; -- so\n; End"],
)
async def test_a_statement_that_would_end_the_transaction_is_refused(store, sql, statement):
    transaction = store.transaction(LONG)
    await transaction.execute(sql, 1, "one")

    with pytest.raises(InvalidOption, match="committed with the job"):
        await transaction.execute(statement)

    await transaction.roll_back()
    assert await rows(store) == []


async def test_several_statements_at_once_are_refused(store, sql):
    transaction = store.transaction(LONG)

    with pytest.raises(Exception, match=r"(?i)multiple|one statement"):
        await transaction.execute(f"insert into {TABLE} values (1, 'one'); commit")

    await transaction.roll_back()
    assert await rows(store) == []


async def test_a_transaction_that_is_over_takes_no_more_statements(store, sql):
    lease = await leased(store)
    transaction = store.transaction(LONG)
    await transaction.execute(sql, 1, "one")
    await transaction.settle(Settlement(lease, Done()))

    with pytest.raises(TransactionOver):
        await transaction.execute(sql, 2, "two")
    with pytest.raises(TransactionOver):
        await transaction.settle(Settlement(lease, Done()))
    assert await rows(store) == [1]


async def test_answer_the_connection_itself_where_it_can_be_given_out_or_refuse(store, sql, kind):
    lease = await leased(store)
    transaction = store.transaction(LONG)

    if kind == "postgres":
        connection = await transaction.connection()
        async with connection.transaction():
            await connection.execute(sql, 1, "one")
        assert await transaction.settle(Settlement(lease, Done())) is Verdict.WRITTEN
        assert await rows(store) == [1]
    else:
        with pytest.raises(NoTransactions, match="factory"):
            await transaction.connection()
        assert not transaction.begun


async def test_write_an_outcome_with_its_effects_and_commit_all_that_was_written_if_it_is_not_written_roll_all_of_it_back(
    store, sql
):
    lease = await leased(store)
    for _ in range(2):  # the second one writes nothing: this lease is settled
        transaction = store.transaction(LONG)
        await transaction.execute(f"insert into {TABLE} select coalesce(max(id), 0) + 1, 'next' from {TABLE}")
        await transaction.settle(Settlement(lease, Done()))

    assert await rows(store) == [1]


async def test_what_an_attempt_wrote_its_outcome_and_its_effects_are_there_together(store, sql):
    lease = await leased(store)
    transaction, follow_up = store.transaction(LONG), new()
    await transaction.execute(sql, 1, "one")
    effects = (Enqueue(follow_up), Publish("news", b"1"), Put("kind", "key", b"1"))

    assert await transaction.settle(Settlement(lease, Done(b"7"), effects)) is Verdict.WRITTEN

    done = await one(store, lease.id)
    assert (done.state, done.result) == (State.DONE, b"7")
    assert await state(store, follow_up.id) is State.READY
    assert [event.data for event in await store.streams.read("news")] == [b"1"]
    assert [record.value for record in await store.records.get("kind", ["key"])] == [b"1"]
    assert await rows(store) == [1]


async def test_the_last_note_of_an_attempt_is_kept_with_its_settlement(store, sql):
    lease = await leased(store)
    await store.jobs.note([(lease, b"1")])
    transaction = store.transaction(LONG)
    await transaction.execute(sql, 1, "one")

    assert await transaction.settle(Settlement(lease, Done()), [(lease, b"2")]) is Verdict.WRITTEN

    assert (await one(store, lease.id)).progress == b"2"


async def test_held_steps_are_written_before_the_settlement_unless_they_were_written_already(store, sql):
    lease = await leased(store)
    held = [Settlement(lease, Held(step), (Put("steps", f"{step}", b"1"),)) for step in range(1, 2501)]
    rising = [Settlement(lease, Held(2500 + step), (Put("steps", "last", b"%d" % step),)) for step in (1, 2)]
    [first, *_] = (await store.jobs.exchange(held[:1])).verdicts
    [before] = await store.records.get("steps", ["1"])
    transaction = store.transaction(LONG)
    await transaction.execute(sql, 1, "one")

    verdict = await transaction.settle(Settlement(lease, Done(b"3")), [(lease, b"4")], [*held, *rising])

    [once, twice, end, last] = await store.records.get("steps", ["1", "2", "2500", "last"])
    assert (first, verdict) == (Verdict.WRITTEN, Verdict.WRITTEN)
    assert once == before
    assert (twice.value, end.value, last.value) == (b"1", b"1", b"2")
    assert len((await store.records.find("steps", limit=1000)).items) == 1000
    ended = await one(store, lease.id)
    assert (ended.state, ended.result, ended.progress) == (State.DONE, b"3", b"4")
    assert await rows(store) == [1]


async def test_held_steps_with_a_settlement_that_is_not_written_are_dropped(store, sql):
    lease = await leased(store)
    transaction = store.transaction(LONG)
    await transaction.execute(sql, 1, "one")

    held = [Settlement(lease, Held(1), (Put("steps", "1", b"1"),))]
    end = Settlement(lease, Done(), (Put("steps", "1", b"2", expect=7),))
    assert await transaction.settle(end, (), held) is Verdict.CONFLICT

    assert await store.records.get("steps", ["1"]) == [None]
    assert (await store.jobs.exchange(held)).verdicts == (Verdict.WRITTEN,)
    assert await rows(store) == []


async def test_a_lease_that_was_lost_rolls_back_what_was_written_in_its_name(store, sql, clock):
    lease = await leased(store)
    clock.to(lease.until + 1)
    await store.jobs.reap(10)
    [second] = await take(store)
    transaction, follow_up = store.transaction(LONG), new()
    await transaction.execute(sql, 1, "one")

    assert await transaction.settle(Settlement(lease, Done(), (Enqueue(follow_up),))) is Verdict.LOST

    assert await rows(store) == []
    assert await state(store, follow_up.id) is None
    assert await end(store, second, Done()) is Verdict.WRITTEN


async def test_a_put_whose_expectation_fails_rolls_back_what_was_written_with_it(store, sql):
    lease = await leased(store)
    transaction = store.transaction(LONG)
    await transaction.execute(sql, 1, "one")

    verdict = await transaction.settle(Settlement(lease, Done(), (Put("kind", "key", b"1", expect=7),)))

    assert verdict is Verdict.CONFLICT
    assert await rows(store) == []
    assert await end(store, lease, Again()) is Verdict.WRITTEN


async def test_a_settlement_repeated_after_its_transaction_was_committed_comes_back_as_repeated(store, sql):
    lease = await leased(store)
    transaction = store.transaction(LONG)
    await transaction.execute(sql, 1, "one")
    await transaction.settle(Settlement(lease, Done()))

    assert await end(store, lease, Again()) is Verdict.REPEATED
    assert await state(store, lease.id) is State.DONE


async def test_undo_what_was_written_and_keep_the_lease(store, sql):
    lease = await leased(store)
    transaction = store.transaction(LONG)
    await transaction.execute(sql, 1, "one")

    await transaction.roll_back()

    assert await rows(store) == []
    assert await end(store, lease, Done()) is Verdict.WRITTEN


async def test_rolling_back_a_transaction_that_is_over_or_never_began_is_harmless(store, sql):
    never, over = store.transaction(LONG), store.transaction(LONG)
    await never.roll_back()
    lease = await leased(store)
    await over.execute(sql, 1, "one")
    await over.settle(Settlement(lease, Done()))
    await over.roll_back()
    await over.roll_back()

    assert (never.begun, await rows(store)) == (False, [1])


async def test_answer_a_transaction_for_one_attempt_not_begun_or_refuse_where_there_are_none(store, sql):
    transaction = store.transaction(LONG)
    assert not transaction.begun
    await put_in(store, new())  # nothing is open, nobody waits

    await transaction.execute(sql, 1, "one")

    assert transaction.begun
    await transaction.roll_back()


def test_a_store_without_transactions_refuses_one_and_says_what_to_use_instead():
    with pytest.raises(NoTransactions, match=r"SQLite or PostgreSQL.*idempotency_key"):
        open_store("redis://localhost").transaction(LONG)


async def test_where_it_holds_up_all_other_writers_a_transaction_that_is_open_for_longer_than_the_limit_is_rolled_back(
    store, sql, kind
):
    lease = await leased(store)
    transaction = store.transaction(SECOND // 10)
    await transaction.execute(sql, 1, "one")

    if kind == "postgres":  # it holds up nobody
        await put_in(store, new())
        assert await transaction.settle(Settlement(lease, Done())) is Verdict.WRITTEN
    else:
        await put_in(store, new())  # waits until it is rolled back
        with pytest.raises(TransactionTooLong, match="transaction-too-long"):
            await transaction.settle(Settlement(lease, Done()))
        assert await rows(store) == []


async def test_a_transaction_that_makes_work_wakes_a_worker(store, sql):
    lease = await leased(store)
    assert await take(store) == []
    hints = store.wakes(Topic.WORK)
    waking = asyncio.ensure_future(anext(hints))
    await asyncio.sleep(0)
    transaction: Transaction = store.transaction(LONG)
    await transaction.execute(sql, 1, "one")

    await transaction.settle(Settlement(lease, Done(), (Enqueue(new()),)))

    async with asyncio.timeout(20):
        await waking
    await hints.aclose()


SETTINGS = {  # a statement that sets something for the whole connection, and a question with its answer on a new one
    "postgres": [
        (
            "create temp table {table} (id integer, name text)",
            "select count(*) from pg_class where relname = '{table}' and relpersistence = 't'", 0,
        ),
        ("set statement_timeout = 4000", "select setting from pg_settings where name = 'statement_timeout'", "0"),
        ("set role pg_read_all_data", "select current_user = session_user", True),
        ("set session authorization pg_read_all_data", "select current_user = session_user", True),
        ("select pg_advisory_lock({key})", "select count(*) from pg_locks where objid = {key} and locktype = 'advisory'", 0),
        ("prepare leftover as select 1", "select count(*) from pg_prepared_statements where name = 'leftover'", 0),
        ("listen leftover", "select count(*) from pg_listening_channels()", 0),
    ],
    "sqlite": [
        ("create temp table {table} (id integer, name text)", "select count(*) from sqlite_temp_master", 0),
        ("pragma query_only = on", "pragma query_only", 0),
        ("pragma ignore_check_constraints = on", "pragma ignore_check_constraints", 0),
        ("pragma recursive_triggers = on", "pragma recursive_triggers", 0),
        ("pragma case_sensitive_like = on", "select 'a' like 'A'", 1),
    ],
}  # fmt: skip
CASES = [
    pytest.param(kind, *case, id=f"{kind}: {case[0]}")
    for kind in business.KINDS
    for case in SETTINGS["sqlite" if kind == "memory" else kind]
]


@pytest.mark.parametrize(("kind", "set_it", "question", "answer"), CASES)
@pytest.mark.parametrize("ending", ["settled", "rolled back"])
async def test_nothing_that_a_transaction_sets_on_its_connection_meets_the_next_one(
    store, sql, set_it, question, answer, ending
):
    lease, other = await leased(store), await leased(store)
    first = store.transaction(LONG)
    await first.fetch(set_it.format(table=TABLE, key=room()))
    if ending == "settled":
        with contextlib.suppress(sqlite3.OperationalError, asyncpg.PostgresError):  # some keep itself from writing
            await first.settle(Settlement(lease, Done()))
    await first.roll_back()

    second = store.transaction(LONG)
    [found] = await second.fetch(question.format(table=TABLE, key=room()))
    assert found[0] == answer
    assert await second.execute(sql, 1, "one") == 1
    assert await second.settle(Settlement(other, Done())) is Verdict.WRITTEN
    assert await rows(store) == [1]
