"""PostgreSQL behind a real PgBouncer in transaction mode: every call may meet another session."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import asyncpg
import pytest

from packhorse.errors import ConfigError
from packhorse.model.finding import Grade
from packhorse.model.lease import Settlement, Verdict
from packhorse.model.outcome import Done
from packhorse.stores import open_store
from packhorse.stores.contract import Topic
from packhorse.stores.postgres.address import parse
from packhorse.stores.postgres.store import PostgresStore
from tests import servers
from tests.conftest import kinds
from tests.factories import end, laned, new, put_in, take
from tests.integration.flowing import Plan
from tests.integration.poolers import Pooler, pooling
from tests.integration.torn import LONG

if "postgres" not in kinds():
    pytest.skip("PostgreSQL is not among the stores to test", allow_module_level=True)

SOON = 20


@pytest.fixture(scope="module")
def server() -> Iterator[servers.Server]:
    """A server of our own, behind the pooler."""
    with servers.running("postgres", "fsync=off") as made:
        yield made


@pytest.fixture(scope="module")
def pooler(server: servers.Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pooler]:
    """The pooler before it."""
    folder: Path = tmp_path_factory.mktemp("pooler")
    with pooling(server, folder) as made:
        yield made


@pytest.mark.parametrize("asked", ["", "?pooler=transaction"] if LONG else [""])
async def test_jobs_flow_through_a_pooler_that_is_given_or_found_out(pooler, asked):
    others = [open_store(pooler.url + asked, namespace="crowd") for _ in range(2)]
    await others[0].migrate()
    for other in others:
        await other.open()

    async def crowd(flow: Plan) -> None:
        """Sessions change hands all the time."""
        for number in range(20):
            await asyncio.gather(*(put_in(other, laned(f"{n}"), new()) for other in others for n in range(5)))
            for other in others:
                for lease in await take(other, worker=bytes([number] * 16)):
                    await end(other, lease, Done())
        await flow.more(100)

    account = await Plan(pooler.url + asked).through(crowd)
    for other in others:
        await other.close()

    assert account.lost == 0
    assert account.refusals.total() == 0
    assert "prepared statement" not in pooler.log.read_text()


async def test_a_transaction_with_a_job_passes_the_pooler(pooler):
    store = PostgresStore(pooler.url)
    await store.migrate()
    await store.open()
    for number in range(8):
        [job] = await put_in(store, new(queue="money"))
        [lease] = await take(store, 1, "money")
        transaction = store.transaction(10)
        await transaction.execute(f"CREATE TABLE made_{number} (n int)")
        assert await transaction.execute(f"INSERT INTO made_{number} VALUES ($1)", number) == 1
        assert [list(row) for row in await transaction.fetch(f"SELECT n FROM made_{number}")] == [[number]]
        assert await transaction.settle(Settlement(lease, Done())) is Verdict.WRITTEN
        assert (await store.jobs.get([job]))[0].state.ended
    await store.close()


LEFT = """
SELECT
    current_user::text,
    session_user::text,
    coalesce(current_setting('shop.tenant', true), ''),
    (SELECT count(*) FROM pg_class WHERE relnamespace = pg_my_temp_schema()),
    (SELECT count(*) FROM pg_prepared_statements WHERE from_sql),
    (SELECT count(*) FROM pg_cursors WHERE is_holdable),
    (SELECT count(*) FROM pg_listening_channels()),
    (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 7)
"""


@pytest.mark.parametrize("ending", ["settled", "rolled back", "failed"])
async def test_what_a_handler_sets_in_a_session_of_the_pooler_meets_nobody_else(pooler, ending):
    store = open_store(pooler.url, namespace="settings")
    await store.migrate()
    await store.open()
    for statement in (
        "SET ROLE pg_monitor", "SET SESSION AUTHORIZATION pg_monitor", "SET shop.tenant = 'a'", "SELECT pg_advisory_lock(7)",
        "CREATE TEMP TABLE jobs (n int)", 'PREPARE "my own" AS SELECT 1', "DECLARE mine CURSOR WITH HOLD FOR SELECT 1",
        "LISTEN news",
    ):  # fmt: skip
        await put_in(store, new())
        [lease] = await take(store, 1)
        transaction = store.transaction(10**7)
        await transaction.execute("GRANT ALL ON SCHEMA settings TO pg_monitor")
        await transaction.execute("GRANT ALL ON ALL TABLES IN SCHEMA settings TO pg_monitor")
        await transaction.execute("GRANT ALL ON ALL SEQUENCES IN SCHEMA settings TO pg_monitor")
        await transaction.execute(statement)
        if ending == "settled":
            assert await transaction.settle(Settlement(lease, Done())) is Verdict.WRITTEN
        elif ending == "failed":
            with pytest.raises(asyncpg.DivisionByZeroError):
                await transaction.execute("SELECT 1 / 0")
        await transaction.roll_back()
        await store.jobs.drop([lease.id])

    sessions = [store.transaction(10**7) for _ in range(3)]  # as many as the pooler has
    found = [list((await session.fetch(LEFT))[0]) for session in sessions]
    for session in sessions:
        await session.roll_back()
    await store.close()
    assert found == [["postgres", "postgres", "", 0, 0, 0, 0, 0]] * 3


async def test_what_cannot_be_reset_in_a_session_of_the_pooler_is_rolled_back(pooler):
    reported: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    store = open_store(pooler.url, namespace="unreset")
    await store.migrate()
    await store.open()
    await put_in(store, new())
    [lease] = await take(store, 1)
    transaction = store.transaction(10**7)
    await transaction.execute("CREATE TEMP TABLE one (n int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED)")
    await transaction.execute("INSERT INTO one VALUES (1), (1)")

    with pytest.raises(asyncpg.PostgresError):
        await transaction.settle(Settlement(lease, Done()))
    assert await end(store, lease, Done()) is Verdict.WRITTEN
    await store.close()
    assert reported == []  # as of a session that was given back with its transaction open


async def test_hints_come_by_an_address_of_their_own(pooler, server):
    store = PostgresStore(f"{pooler.url}?listen={quote(server.url, safe='')}", namespace="hinted")
    await store.migrate()
    await store.open()
    assert await take(store) == []  # who came away with nothing is asleep
    hints = store.wakes(Topic.WORK)
    await asyncio.wait_for(anext(hints), SOON)  # the line was just made
    await put_in(store, new())

    await asyncio.wait_for(anext(hints), SOON)

    await hints.aclose()
    await store.close()


async def test_behind_a_pooler_nobody_listens_and_the_doctor_says_so(pooler, server):
    store = PostgresStore(pooler.url, namespace="silent")
    await store.migrate()
    await store.open()
    waiting = asyncio.ensure_future(anext(store.wakes(Topic.WORK)))
    [finding] = [each for each in await store.examine() if each.name == "pooler"]
    [listeners] = await store._database.read(
        "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND pid <> pg_backend_pid()"
    )

    assert not waiting.done()
    assert listeners[0] == 0
    assert finding.grade is Grade.NOTE
    assert "listen=" in finding.advice
    await store.close()
    with pytest.raises(StopAsyncIteration):
        await asyncio.wait_for(waiting, SOON)


@pytest.mark.parametrize(
    ("url", "urls", "pooled", "listen"),
    [
        ("postgresql://u:p@a/d", ("postgresql://u:p@a/d",), None, None),
        ("postgresql://a/d?pooler=session&sslmode=require", ("postgresql://a/d?sslmode=require",), False, None),
        ("postgresql://a/d?pooler=transaction&listen=no", ("postgresql://a/d",), True, ()),
        (
            "postgresql://u:p%40@a:1,b:2/d?connect=x%20y",
            tuple(f"postgresql://u:p%40@{h}/d?connect=x%20y&target_session_attrs=read-write" for h in ("a:1", "b:2")),
            None,
            None,
        ),
        (
            "postgresql://a,[::1]:2/d",
            tuple(f"postgresql://{h}/d?target_session_attrs=read-write" for h in ("a", "[::1]:2")),
            None,
            None,
        ),
        (
            f"postgresql://a/d?listen={quote('postgresql://b/d?sslmode=require', safe='')}",
            ("postgresql://a/d",),
            None,
            ("postgresql://b/d?sslmode=require",),
        ),
    ],
)
def test_addresses_tell_servers_pooler_and_where_to_listen(url, urls, pooled, listen):
    address = parse(url)

    assert (address.urls, address.pooled, address.listen) == (urls, pooled, listen)


@pytest.mark.parametrize("servers", ["a:65536", "[::1", "a,[::1"])
def test_a_server_that_there_cannot_be_is_refused_without_showing_the_password(servers):
    with pytest.raises(ConfigError, match="an invalid server") as caught:
        parse(f"postgresql://u:secret@{servers}/d")

    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("odd", ["pooler=statement", "listen=yes"])
def test_an_odd_option_is_refused_without_showing_the_password(odd):
    with pytest.raises(ConfigError, match="invalid parameter") as caught:
        parse(f"postgresql://u:secret@a/d?{odd}")

    assert "secret" not in str(caught.value)
