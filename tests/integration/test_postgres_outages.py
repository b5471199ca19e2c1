"""PostgreSQL that ends sessions, stops, refuses for the sake of others, or fails over, while jobs flow."""

import asyncio
import contextlib
import random
from collections.abc import Iterator

import asyncpg
import pytest

from packhorse.errors import StoreUnavailable
from packhorse.stores.contract import Topic
from packhorse.stores.postgres.store import PostgresStore
from tests import servers
from tests.conftest import kinds
from tests.factories import new, put_in, take
from tests.integration.fleets import until
from tests.integration.flowing import Plan
from tests.integration.standbys import ask, followed
from tests.integration.torn import LONG

if "postgres" not in kinds():
    pytest.skip("PostgreSQL is not among the stores to test", allow_module_level=True)

TERMINATIONS = 500 if LONG else 25
STOPS = 60 if LONG else 3
REFUSALS = 2000 if LONG else 60
FAILOVERS = 10 if LONG else 1
SOON = 20
OTHERS = "FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"


@pytest.fixture
def server() -> Iterator[servers.Server]:
    """A server of our own that keeps what it has acknowledged."""
    with servers.running("postgres", "synchronous_commit=on") as made:
        yield made


async def test_jobs_go_on_while_sessions_are_ended(server):
    chance = random.Random(7)
    ended = 0

    async def terminate(flow: Plan) -> None:
        nonlocal ended
        connection = await asyncpg.connect(server.url)
        while ended < TERMINATIONS:
            sessions = [row[0] for row in await connection.fetch(f"SELECT pid {OTHERS}")]
            if sessions:
                ended += await connection.fetchval("SELECT pg_terminate_backend($1)::int", chance.choice(sessions))
            await asyncio.sleep(chance.uniform(0, 0.1))
        await connection.close()
        await flow.more(20)

    account = await Plan(server.url).through(terminate)

    assert ended == TERMINATIONS
    assert account.lost == 0


async def test_jobs_go_on_when_the_server_is_stopped_at_once_and_started_again(server):
    chance = random.Random(11)

    async def stop(flow: Plan) -> None:
        for _ in range(STOPS):
            server.kill()
            await asyncio.sleep(chance.uniform(0, 0.2))
            await asyncio.to_thread(server.restart)
            await flow.more(chance.randint(5, 40))

    account = await Plan(server.url).through(stop)

    assert account.lost == 0


@pytest.mark.parametrize("code", ["40P01", "40001"])
async def test_what_the_server_refuses_for_the_sake_of_others_is_done_again(server, code):
    refused = 0

    async def refuse(flow: Plan) -> None:
        nonlocal refused
        connection = await asyncpg.connect(server.url)
        await alter(
            connection,
            f"""
            CREATE SEQUENCE refused;
            CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                IF random() < 0.2 THEN
                    PERFORM nextval('refused');
                    RAISE EXCEPTION USING ERRCODE = '{code}', MESSAGE = 'for the sake of others';
                END IF;
                RETURN NULL;
            END $$;
            CREATE TRIGGER refuse AFTER INSERT OR DELETE ON packhorse.ready FOR EACH STATEMENT EXECUTE FUNCTION refuse();
            CREATE TRIGGER refuse AFTER INSERT OR DELETE ON packhorse.running FOR EACH STATEMENT EXECUTE FUNCTION refuse();
            """,
        )
        while refused < REFUSALS:
            await flow.more(5)
            refused = await connection.fetchval("SELECT last_value FROM refused")
        await alter(connection, "DROP FUNCTION refuse CASCADE")
        await connection.close()

    account = await Plan(server.url).through(refuse)

    assert refused >= REFUSALS
    assert account.lost == 0


async def alter(connection: asyncpg.Connection, sql: str) -> None:
    """Change tables that are in use: calls lock them in another order, so it may take some tries."""
    async with asyncio.timeout(SOON):
        while True:
            with contextlib.suppress(asyncpg.DeadlockDetectedError):
                await connection.execute(sql)
                return


async def test_a_listener_whose_session_is_ended_hears_again(server):
    store = PostgresStore(server.url)
    await store.migrate()
    await store.open()
    assert await take(store) == []  # who came away with nothing is asleep
    hints = store.wakes(Topic.WORK)
    for _ in range(3):
        await asyncio.wait_for(anext(hints), SOON)  # the line was just made: some may have been missed
        await ask(server.url, f"SELECT pg_terminate_backend(pid) {OTHERS} AND query LIKE 'LISTEN%'")
    await asyncio.wait_for(anext(hints), SOON)

    await put_in(store, new())

    await asyncio.wait_for(anext(hints), SOON)
    await hints.aclose()
    await store.close()


async def test_a_failover_to_a_synchronous_standby_loses_nothing_that_was_acknowledged():
    for _ in range(FAILOVERS):
        async with followed() as pair:

            async def fail_over(flow: Plan, pair=pair) -> None:
                await pair.fail_over()
                await flow.more(20)

            account = await Plan(pair.url).through(fail_over)
        assert account.lost == 0


async def test_the_server_that_takes_writes_is_found_among_several():
    async with followed() as pair:
        store = PostgresStore(pair.url)
        await store.migrate()
        await store.open()
        await put_in(store, new())
        standby = PostgresStore(pair.standby.url)
        await pair.caught_up()
        await standby.open()  # an address of one server may lead to a standby: it takes no calls
        with pytest.raises(StoreUnavailable, match="ReadOnly"):
            await put_in(standby, new())
        await pair.fail_over()

        async def taken() -> bool:
            return len(await take(store)) == 1

        await until(taken, "the store to find the new primary")
        await put_in(standby, new())
        await store.close()
        await standby.close()
        pair.standby.kill()
        with pytest.raises(StoreUnavailable):
            await PostgresStore(pair.url).open()
