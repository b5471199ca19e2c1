"""What the handler of one job does to its session on PostgreSQL does not meet the next job."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from packhorse.model.lease import Settlement, Verdict
from packhorse.model.outcome import Done
from packhorse.stores.contract import Store, Transaction
from packhorse.stores.postgres import transaction as transactions
from tests.conftest import kinds
from tests.factories import MINUTE, new, put_in, take

if "postgres" not in kinds():
    pytest.skip("PostgreSQL is not among the stores to test", allow_module_level=True)

pytestmark = pytest.mark.parametrize("kind", ["postgres"])
Act = Callable[[Transaction], Awaitable[Any]]

STATE = """
SELECT
    session_user::text,
    current_user::text,
    current_setting('search_path'),
    current_setting('statement_timeout'),
    nullif(current_setting('shop.tenant', true), ''),
    (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()),
    (SELECT count(*) FROM pg_listening_channels()),
    (SELECT count(*) FROM pg_prepared_statements WHERE from_sql),
    (SELECT count(*) FROM pg_cursors WHERE is_holdable),
    (SELECT count(*) FROM pg_class WHERE relnamespace = pg_my_temp_schema())
"""


@pytest.fixture
async def one_session(store: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store whose transactions have one session, so that each follows the one before."""
    monkeypatch.setattr(transactions, "MAX_CONNECTIONS", 1)
    return store


@pytest.fixture
async def role(url: str, store: Any) -> AsyncIterator[str]:
    """A tenant's role that may settle jobs."""
    name, schema = f"tenant_{os.urandom(4).hex()}", store._layout.schema
    raw = await asyncpg.connect(url)
    await raw.execute(f"CREATE ROLE {name}")
    for rights in (f"USAGE ON SCHEMA {schema}", f"ALL ON ALL TABLES IN SCHEMA {schema}"):
        await raw.execute(f"GRANT {rights} TO {name}")
    await raw.execute(f"GRANT ALL ON ALL SEQUENCES IN SCHEMA {schema} TO {name}")
    yield name
    await raw.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")
    await raw.close()


async def attempt(store: Store, act: Act, *, commit: bool) -> Any:
    """What one attempt does, which is committed or rolled back."""
    await put_in(store, new())
    [lease] = await take(store, 1)
    transaction = store.transaction(MINUTE)
    try:
        done = await act(transaction)
    finally:
        if commit:
            assert await transaction.settle(Settlement(lease, Done())) is Verdict.WRITTEN
        else:
            await transaction.roll_back()
        await store.jobs.drop([lease.id])
    return done


def running(*statements: str) -> Act:
    async def act(transaction: Transaction) -> None:
        for statement in statements:
            await transaction.execute(statement)

    return act


async def state(transaction: Transaction) -> list[Any]:
    rows: list[Any] = await transaction.fetch(STATE)
    return list(rows[0])


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize(
    "statements",
    [
        ("SET ROLE {role}",),
        ("SET SESSION AUTHORIZATION {role}",),
        ("SET search_path = pg_temp, public",),
        ("SET statement_timeout = '20s'",),
        ("SET shop.tenant = 'a'",),
        ("SELECT pg_advisory_lock(7)",),
        ("LISTEN news",),
        ("PREPARE mine AS SELECT 1",),
        ("DECLARE mine CURSOR WITH HOLD FOR SELECT 1",),
        ("CREATE TEMP TABLE jobs (n int)", "INSERT INTO jobs VALUES (1)"),
        ("SET ROLE {role}", "CREATE TEMP VIEW mine AS SELECT 1", "SET search_path = ''"),
    ],
    ids=lambda statements: statements[0].split("{")[0].strip(),
)
async def test_a_job_finds_nothing_that_the_one_before_did_to_its_session(
    one_session: Store, role: str, statements: tuple[str, ...], commit: bool
):
    untouched = await attempt(one_session, state, commit=False)

    await attempt(one_session, running(*(statement.format(role=role) for statement in statements)), commit=commit)

    assert await attempt(one_session, state, commit=False) == untouched
    assert await attempt(one_session, state, commit=True) == untouched


async def test_a_temporary_table_can_be_made_by_every_job_and_in_another_shape(one_session: Store):
    async def first(transaction: Transaction) -> list[Any]:
        await transaction.execute("CREATE TEMP TABLE scratch (n int)")
        await transaction.execute("INSERT INTO scratch VALUES (1)")
        rows: list[Any] = await transaction.fetch("SELECT * FROM scratch")
        return [tuple(row) for row in rows]

    async def second(transaction: Transaction) -> list[Any]:
        await transaction.execute("CREATE TEMP TABLE scratch (word text, more text)")
        await transaction.execute("INSERT INTO scratch VALUES ('one', 'two')")
        rows: list[Any] = await transaction.fetch("SELECT * FROM scratch")
        return [tuple(row) for row in rows]

    assert await attempt(one_session, first, commit=True) == [(1,)]
    assert await attempt(one_session, second, commit=True) == [("one", "two")]
    assert await attempt(one_session, first, commit=False) == [(1,)]


async def test_what_a_job_does_to_the_connection_of_the_driver_does_not_meet_the_next(one_session: Store):
    recorded: list[Any] = []

    async def act(transaction: Transaction) -> Any:
        connection: Any = await transaction.connection()
        await connection.set_type_codec("int4", schema="pg_catalog", encoder=str, decoder=lambda text: f"<{text}>")
        connection.add_query_logger(recorded.append)
        return await connection.fetchval("SELECT 7")

    async def plain(transaction: Transaction) -> Any:
        return [row[0] for row in await transaction.fetch("SELECT 7")]

    assert await attempt(one_session, act, commit=True) == "<7>"
    before = len(recorded)
    assert await attempt(one_session, plain, commit=True) == [7]
    assert len(recorded) == before


async def test_a_session_that_was_only_written_in_is_used_again(one_session: Store):
    async def pid(transaction: Transaction) -> int:
        [row] = await transaction.fetch("SELECT pg_backend_pid()")
        return int(row[0])

    first = await attempt(one_session, pid, commit=True)
    await attempt(one_session, running("SET work_mem = '1MB'"), commit=True)
    assert await attempt(one_session, pid, commit=False) == first
    assert await attempt(one_session, pid, commit=True) == first


async def test_a_settlement_that_loses_a_deadlock_or_a_race_is_written_in_a_second_try(store: Any, raw: Any):
    schema = store._layout.schema
    await raw.execute(
        f"""
        CREATE SEQUENCE {schema}.hits;
        CREATE FUNCTION {schema}.collide() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            CASE nextval('{schema}.hits')
                WHEN 1 THEN RAISE deadlock_detected;
                WHEN 2 THEN RAISE serialization_failure;
                ELSE RETURN OLD;
            END CASE;
        END $$;
        CREATE TRIGGER collide BEFORE DELETE ON {schema}.running FOR EACH ROW EXECUTE FUNCTION {schema}.collide();
        """
    )
    try:
        await attempt(store, running("CREATE TEMP TABLE scratch (n int) ON COMMIT DROP"), commit=True)
    finally:
        await raw.execute(f"DROP FUNCTION {schema}.collide() CASCADE; DROP SEQUENCE {schema}.hits")
