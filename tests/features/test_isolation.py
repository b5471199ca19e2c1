"""A settlement must see what others have just committed: other isolation levels are refused before the handler runs."""

import os
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import psycopg
import pytest

from packhorse import App, current
from packhorse.errors import WrongIsolation
from packhorse.jobs import user_connections
from packhorse.model.job import State
from packhorse.model.lease import Settlement, Verdict
from packhorse.model.outcome import Done
from tests.conftest import kinds
from tests.factories import laned, put_in, state, take
from tests.features.callers import MINE, TABLE
from tests.features.drivers import Factories, asynchronously
from tests.features.factories import run

if "postgres" not in kinds():
    pytest.skip("PostgreSQL is not among the stores to test", allow_module_level=True)

LEVELS = ("repeatable read", "serializable")
WRONG = "packhorse.errors.WrongIsolation"
pytestmark = pytest.mark.parametrize("kind", ["postgres"])


@pytest.fixture(params=LEVELS)
def level(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def raw(url: str, live: App) -> AsyncIterator[Any]:
    """A connection of the owner, beside a store and an empty table of the user's own."""
    await live.open()
    connection = await asyncpg.connect(url)
    await connection.execute(TABLE)
    await connection.execute(f"delete from {MINE}")
    yield connection
    await connection.close()


@pytest.fixture
async def strict(raw: Any, url: str, level: str) -> AsyncIterator[str]:
    """The address of a role whose transactions have another isolation level, whatever the driver."""
    role = f"strict_{os.urandom(4).hex()}"
    await raw.execute(f"create role {role} login superuser")
    await raw.execute(f"alter role {role} set default_transaction_isolation = '{level}'")
    yield url.replace("postgres@", f"{role}@")
    await raw.execute(f"drop role {role}")


async def failures(job: Any) -> list[str]:
    return [failure.type for failure in (await job.info()).failures]


@pytest.mark.parametrize("name", Factories.KINDS["postgres"])
async def test_a_session_of_another_isolation_level_is_refused_before_the_handler_runs(
    live: App, raw: Any, strict: str, name: str
):
    factories = Factories("postgres", strict)
    factory, handler = await factories.of(name)
    ran: list[int] = []

    if handler is asynchronously or name == "async_session":

        async def watched(number: int) -> None:
            ran.append(number)
    else:

        def watched(number: int) -> None:  # type: ignore[misc]
            ran.append(number)

    job = await live.task(name="write", transaction=factory, attempts=1)(watched).enqueue(1)
    await run(live)
    await factories.close()

    assert (await job.state(), await failures(job), ran) == ("dead", [WRONG], [])


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    "words",
    [
        "SET TRANSACTION ISOLATION LEVEL {}",
        "set /* quietly */ session transaction isolation level {}",
        "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL {}",
        "SET LOCAL transaction_isolation = '{}'",
        "SET default_transaction_isolation TO '{}'",
    ],
)
async def test_a_handler_in_a_transaction_of_the_store_cannot_change_its_isolation_level(
    live: App, raw: Any, level: str, words: str
):
    @live.task(transaction=True, attempts=1)
    async def strictly() -> None:
        await current().tx.execute(words.format(level))

    job = await strictly.enqueue()
    await run(live)

    assert (await job.state(), await failures(job)) == ("dead", ["packhorse.errors.InvalidOption"])


@pytest.mark.parametrize("level", LEVELS)
async def test_a_level_set_on_the_connection_itself_is_refused_at_the_settlement(live: App, raw: Any, level: str):
    @live.task(transaction=True, attempts=1)
    async def strictly() -> None:
        connection = await current().tx.connection()
        await connection.execute(f"set transaction isolation level {level}")
        await current().tx.execute(f"insert into {MINE} values (1)")

    job = await strictly.enqueue()
    await run(live)

    assert (await job.state(), await failures(job)) == ("dead", [WRONG])
    assert await raw.fetch(f"select n from {MINE}") == []


@pytest.mark.parametrize("level", LEVELS)
async def test_whoever_waits_behind_a_lane_is_not_stranded_by_a_settlement_that_cannot_see_it(
    live: App, raw: Any, url: str, level: str
):
    store = await live.store()
    await put_in(store, laned())
    [lease] = await take(store)
    with psycopg.connect(url) as mine:
        mine.execute(f"set transaction isolation level {level}")
        mine.execute("select 1 from pg_class limit 1")
        [behind] = await put_in(store, laned())

        with pytest.raises(WrongIsolation, match="READ COMMITTED"):
            user_connections.blocking(mine).run(store.jobs.within().settle([Settlement(lease, Done())]))
        mine.execute(f"insert into {MINE} values (1)")  # nothing was raised that spoils the transaction

    await store.jobs.exchange([Settlement(lease, Done())], None)
    assert [one.id for one in await take(store)] == [behind]
    assert len(await raw.fetch(f"select n from {MINE}")) == 1


async def test_read_uncommitted_is_as_good_as_read_committed(live: App, raw: Any, url: str):
    store = await live.store()
    await put_in(store, laned())
    [lease] = await take(store)
    with psycopg.connect(url) as mine:
        mine.execute("set transaction isolation level read uncommitted")
        given = user_connections.blocking(mine)
        given.run(store.jobs.within().check())
        assert given.run(store.jobs.within().settle([Settlement(lease, Done())])) == (Verdict.WRITTEN,)

    assert await state(store, lease.id) is State.DONE


@pytest.mark.parametrize("level", LEVELS)
async def test_jobs_can_be_enqueued_within_a_transaction_of_any_isolation_level(
    live: App, raw: Any, url: str, level: str
):
    @live.task
    async def work() -> int:
        return 7

    with psycopg.connect(url) as mine:
        mine.execute(f"set transaction isolation level {level}")
        jobs = await live.enqueue(work.call(), work.using(key="lane").call(), within=mine)
    await run(live)

    assert [await job.result(5) for job in jobs] == [7, 7]
