"""Who may do what in PostgreSQL, what the tables are set to, and steps of the layout while an older release works."""

import asyncio
import traceback
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

from packhorse.errors import ConfigError, SchemaMismatch, StoreError, StoreUnavailable
from packhorse.model.effect import Publish, Put
from packhorse.model.finding import Finding, Grade
from packhorse.model.job import UniqueKey
from packhorse.model.outcome import Done
from packhorse.model.worker import WorkerInfo
from packhorse.stores.postgres.store import PostgresStore
from packhorse.stores.sql.migrate import Migration
from tests.conftest import kinds
from tests.factories import end, found, laned, new, new_id, put_in, take

if "postgres" not in kinds():
    pytest.skip("PostgreSQL is not among the stores to test", allow_module_level=True)

pytestmark = pytest.mark.parametrize("kind", ["postgres"])
NARROW = ("ready", "scheduled", "running", "waiting")


@pytest.fixture
async def raw(url: str) -> AsyncIterator[Any]:
    """A connection of the owner."""
    connection = await asyncpg.connect(url)
    yield connection
    await connection.close()


async def test_a_role_with_the_granted_rights_can_do_all_that_an_app_does(small, schema):
    store = PostgresStore(small, namespace=schema)
    await store.open()
    await put_in(store, new(), laned(), laned(), new(delay=1), new(unique=UniqueKey("a")), new(children=1))
    leases = await take(store, 10)
    for lease in leases:
        await end(store, lease, Done(b"1"), Publish("news", b"1"), Put("kind", "key", b"1"))
    await store.fleet.beat(WorkerInfo(id=new_id(), name="w"), 10**6)
    await store.queues.pause(["default"])
    await store.queues.resume(["default"])
    await store.jobs.reap(10)
    await store.jobs.prune(10)
    await store.jobs.watch([leases[0].id], 10**6)
    await store.streams.read("packhorse.jobs")
    transaction = store.transaction(10)
    await transaction.fetch("SELECT 1")
    await transaction.roll_back()
    assert await store.maintain() == []
    assert len(await found(store)) == 6
    [rights] = [finding for finding in await store.examine() if finding.name.startswith("schema")]
    assert rights.grade is Grade.NOTE
    await store.close()


async def test_a_small_role_is_reported_what_it_cannot_see(small, raw, url, schema):
    async def looked(url: str) -> dict[str, Finding]:
        return {finding.name: finding for finding in await PostgresStore(url, namespace=schema).examine()}

    others = [await asyncpg.connect(url) for _ in range(10)]
    await others[0].execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1; SELECT pg_sleep(1)")
    try:
        seen, hidden = await looked(url), await looked(small)
        assert seen["longest transaction"].grade is Grade.OK
        assert seen["longest transaction"].value != "0 s"
        assert (
            hidden["longest transaction"].grade,
            "GRANT pg_read_all_stats" in hidden["longest transaction"].advice,
        ) == (
            Grade.NOTE,
            True,
        )
        assert int(hidden["connections"].value.split()[0]) > 10
        assert "held by session" in seen["oldest snapshot"].value
        await raw.execute(f"GRANT pg_read_all_stats TO worker_{schema}")
        assert (await looked(small))["longest transaction"].grade is Grade.OK
    finally:
        for other in others:
            await other.close()


@pytest.mark.parametrize("wrong", ["nowhere", "nobody"])
async def test_a_login_or_database_that_there_is_not_is_reported_at_the_start(url, wrong):
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    address = {
        "nowhere": parts._replace(path="/nowhere").geturl(),
        "nobody": parts._replace(netloc=f"nobody@{host}").geturl(),
    }[wrong]
    for begin in (PostgresStore(address).open, PostgresStore(address).migrate):
        with pytest.raises(ConfigError, match=rf"{wrong}.* check user, password and database"):
            await begin()


async def test_a_role_that_is_shut_out_later_may_be_let_in_again_and_does_not_end_a_worker(small, raw, schema):
    store = PostgresStore(small, namespace=schema)
    await store.open()
    await raw.execute(f"ALTER ROLE worker_{schema} NOLOGIN")
    with pytest.raises(StoreUnavailable, match="not reached"):
        await asyncio.gather(*(store.ping() for _ in range(10)))
    await raw.execute(f"ALTER ROLE worker_{schema} LOGIN")
    assert await store.ping()
    await store.close()


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII", "WIN1252"])
async def test_a_database_whose_encoding_is_not_utf8_is_refused_and_the_doctor_says_so(raw, url, schema, encoding):
    await raw.execute(f"CREATE DATABASE {schema} ENCODING '{encoding}' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
    store = PostgresStore(urlsplit(url)._replace(path=f"/{schema}").geturl())
    try:
        for begin in (store.migrate, store.open):
            with pytest.raises(ConfigError, match=rf"{encoding}.*ENCODING 'UTF8'"):
                await begin()
        [finding] = [finding for finding in await store.examine() if finding.name == "encoding"]
        assert (finding.value, finding.grade) == (encoding, Grade.BAD)
    finally:
        await raw.execute(f"DROP DATABASE {schema} WITH (FORCE)")


async def test_a_start_with_nothing_to_migrate_needs_no_right_to_create_and_waits_for_no_migrator(
    small, raw, url, schema
):
    async with raw.transaction():
        await raw.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", f"packhorse:{schema}")
        async with asyncio.timeout(5):
            assert await PostgresStore(small, namespace=schema).migrate() == []


async def test_a_statement_timeout_that_is_too_short_is_named(small, raw, schema):
    await raw.execute(f"ALTER ROLE worker_{schema} SET statement_timeout = '1ms'")
    store = PostgresStore(small, namespace=schema)

    async def used() -> None:
        for _ in range(20):  # some calls are fast enough
            await store.open()
            await store.jobs.count()
            await store.close()

    with pytest.raises(StoreUnavailable, match="statement_timeout"):
        await used()


@pytest.mark.parametrize("url", ["postgresql://hay@localhost:99999/x", "postgresql://a:1,b:99999/x"])
def test_a_port_that_there_is_not_is_refused(url, kind):
    with pytest.raises(ConfigError, match="65535"):
        PostgresStore(url)


@pytest.mark.parametrize(
    "query", ["password=one&HUNTER2=two", "target_session_attrs=HUNTER2", "client_encoding=HUNTER2"]
)
async def test_a_parameter_that_is_not_taken_is_refused_and_not_shown(url, kind, query):
    for begin in (PostgresStore(f"{url}?{query}").open, PostgresStore(f"{url}?{query}").migrate):
        with pytest.raises(ConfigError, match="parameter") as caught:
            await begin()
        assert "HUNTER2" not in "".join(traceback.format_exception(caught.value))


async def test_such_a_role_can_neither_migrate_nor_change_the_layout(small, schema):
    store = PostgresStore(small, namespace=schema)
    await store.open()
    with pytest.raises(StoreError, match=r"Privilege"):
        await PostgresStore(small, namespace=f"{schema}_other").migrate()
    connection = await asyncpg.connect(small)
    for forbidden in (
        f"CREATE TABLE {schema}.more (n int)",
        f"DROP TABLE {schema}.jobs",
        f"TRUNCATE {schema}.jobs",
        f"ALTER TABLE {schema}.jobs ADD n int",
        f"DELETE FROM {schema}.migrations",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute(forbidden)
    await connection.close()
    await store.close()


async def test_what_it_may_not_vacuum_it_does_not_try_to(small, url, schema):
    store = PostgresStore(small, namespace=schema)
    await store.open()
    raw = await asyncpg.connect(url)
    await raw.execute(f"ALTER TABLE {schema}.ready SET (autovacuum_enabled = off)")
    await raw.execute(
        f"INSERT INTO {schema}.ready (since, id, attempt, lost, priority, lane_limit, queue)"
        " SELECT n, lpad(to_hex(n), 32, '0')::uuid, 0, 0, 1, 1, 'q' FROM generate_series(1, 30000) AS n"
    )
    await raw.execute(f"DELETE FROM {schema}.ready")
    await raw.close()  # a server tells of dead rows when the connection ends
    async with asyncio.timeout(20):
        while store._bookmarks.to_send() is None:  # claims are led around them instead
            assert await store.maintain() == []
            await asyncio.sleep(0.05)
    await put_in(store, new())
    assert len(await take(store)) == 1
    await store.close()


async def test_the_narrow_tables_have_vacuum_settings_of_their_own(store, raw):
    rows = await raw.fetch(
        "SELECT relname, reloptions FROM pg_class WHERE relnamespace = to_regnamespace($1) AND relkind = 'r'",
        store._layout.schema,
    )
    settings = {row[0]: dict(option.split("=") for option in row[1] or ()) for row in rows}

    for table in NARROW:
        assert settings[table]["autovacuum_vacuum_threshold"] == "20000"
        assert settings[table]["autovacuum_vacuum_scale_factor"] == "0.05"
        assert settings[table]["autovacuum_vacuum_cost_delay"] == "0"
    assert settings["lanes"]["autovacuum_vacuum_threshold"] == "5000"


def newer(store: PostgresStore) -> PostgresStore:
    """The next release: a column more, and a second set of functions; the first is there for who runs now."""
    schema = store._layout.schema
    more = Migration("0002_more", f"ALTER TABLE {schema}.jobs ADD COLUMN more text", "1")
    first = store._layout.functions.step
    again = Migration("functions_2", first.sql.replace(".f1_", ".f2_"), "2")
    store._layout.steps = (*store._layout.steps, more, again)
    return store


async def test_an_older_release_works_on_while_the_layout_is_brought_forward(url, schema):
    old = PostgresStore(url, namespace=schema)
    await old.migrate()
    await old.open()
    going, ended = True, 0

    async def work() -> None:
        nonlocal ended
        while going:
            await put_in(old, new(), laned())
            for lease in await take(old):
                ended += await end(old, lease, Done()) == "written"

    working = asyncio.gather(work(), work())
    async with asyncio.timeout(30):
        while ended < 50:
            await asyncio.sleep(0.01)
        assert await newer(PostgresStore(url, namespace=schema)).migrate() == ["0002_more", "functions_2"]
        then = ended
        while ended < then + 50:
            await asyncio.sleep(0.01)
    going = False
    await working

    young = newer(PostgresStore(url, namespace=schema))
    await young.open()
    for lease in await take(young, 500):
        ended += await end(young, lease, Done()) == "written"
    with pytest.raises(SchemaMismatch, match="upgrade"):
        await PostgresStore(url, namespace=schema).open()  # who runs goes on, who starts must know the layout
    await young.close()
    await old.close()
