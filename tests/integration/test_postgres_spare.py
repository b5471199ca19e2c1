"""The connection that is kept between calls: lost sessions, many callers, and how long it is kept."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from packhorse.errors import StoreError
from packhorse.stores.postgres import database
from packhorse.stores.postgres.address import parse
from packhorse.stores.postgres.database import PostgresDatabase
from packhorse.stores.sql.statements import Statements
from tests.conftest import kinds
from tests.features.factories import until

if "postgres" not in kinds():
    pytest.skip("PostgreSQL is not among the stores to test", allow_module_level=True)

pytestmark = pytest.mark.parametrize("kind", ["postgres"])
LISTS = Statements("packhorse.stores.postgres").lists
SESSION = "SELECT pg_backend_pid()"


@pytest.fixture
async def narrow(url: str) -> AsyncIterator[PostgresDatabase]:
    """Room for two sessions."""
    made = PostgresDatabase(parse(url), lists=LISTS, size=2)
    await made.open(pooled=False)
    yield made
    await made.close()


@pytest.fixture
async def other(url: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    """Somebody else's connection."""
    made = await asyncpg.connect(url)
    yield made
    await made.close()


async def session(narrow: PostgresDatabase) -> int:
    [[pid]] = await narrow.read(SESSION)
    return int(pid)


async def test_calls_in_turn_go_by_one_session(narrow):
    assert len({await session(narrow) for _ in range(20)}) == 1


async def test_what_a_worker_repeats_stays_in_one_session_whatever_else_is_called(narrow):
    async def hot() -> int:
        [[pid]] = await narrow.write(SESSION, timeout=database.WORKER_CALL_SECONDS)
        return int(pid)

    first = await hot()
    for _ in range(5):
        other, again = await asyncio.gather(session(narrow), hot())
        assert again == first != other


async def test_a_session_that_is_kept_for_one_use_is_lent_for_another_when_there_is_no_more(narrow):
    await narrow.write(SESSION, timeout=database.WORKER_CALL_SECONDS)
    async with asyncio.timeout(5):
        answers = await asyncio.gather(*(session(narrow) for _ in range(20)))

    assert len(set(answers)) <= 2


async def test_many_callers_at_once_share_what_there_is_and_none_is_forgotten(narrow):
    for _ in range(5):
        answers = await asyncio.gather(*(session(narrow) for _ in range(50)))

        assert len(set(answers)) <= 2


async def test_a_kept_session_that_is_ended_makes_room_for_another(narrow, other):
    async def another() -> bool:
        try:
            return await session(narrow) != ended
        except StoreError:  # it was used before its end was known of
            return False

    for _ in range(5):  # more often than there are sessions
        ended = await session(narrow)
        await other.execute(f"SELECT pg_terminate_backend({ended}, 10000)")

        await until(another)


async def test_a_session_is_given_back_to_the_pool_after_a_while(narrow, monkeypatch):
    monkeypatch.setattr(database, "_STICKY_SECONDS", 0.01)
    kept = await session(narrow)

    async def given_back() -> bool:
        return narrow._pool.get_idle_size() == 1

    await until(given_back)
    assert await session(narrow) == kept


async def test_a_session_that_was_lent_before_a_failover_is_not_kept(narrow, other):
    before = await session(narrow)
    await other.execute("SELECT pg_advisory_lock(1)")
    under_way = asyncio.create_task(narrow.read("SELECT pg_advisory_lock(1)"))
    await until(lambda: waiting(other))

    narrow._spare.forget()
    await narrow._pool.expire_connections()
    await other.execute("SELECT pg_advisory_unlock(1)")
    await under_way

    assert await session(narrow) != before


async def waiting(other: "asyncpg.Connection[asyncpg.Record]") -> bool:
    return bool(await other.fetch("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"))


async def test_closing_ends_the_session_that_is_kept(narrow, other):
    pid = await session(narrow)

    await narrow.close()

    async def gone() -> bool:
        return not await other.fetch("SELECT 1 FROM pg_stat_activity WHERE pid = $1", pid)

    await until(gone)
