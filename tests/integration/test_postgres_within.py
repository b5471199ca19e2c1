"""Calls that meet inside transactions of their callers: no caller's transaction fails because of it."""

import asyncio
import json
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from packhorse.model.ids import chosen_id
from packhorse.model.job import UniqueKey
from packhorse.stores.postgres.store import PostgresStore
from tests.conftest import kinds
from tests.factories import DAY, Done, found, new, put_in, run

if "postgres" not in kinds():
    pytest.skip("PostgreSQL is not among the stores to test", allow_module_level=True)

pytestmark = pytest.mark.parametrize("kind", ["postgres"])
SOON = 20


async def waits(connection: Any, watcher: Any) -> None:
    """Wait until a session waits for a lock."""
    pid = connection.get_server_pid()
    async with asyncio.timeout(SOON):
        while not await watcher.fetchval("SELECT cardinality(pg_blocking_pids($1)) > 0", pid):
            await asyncio.sleep(0.01)


@pytest.fixture
async def three(url: str):
    made = [await asyncpg.connect(url) for _ in range(3)]
    yield made
    for connection in made:
        await connection.close()


async def enqueue(store: PostgresStore, connection: Any, job: Any) -> Any:
    work = store.jobs.within().enqueue([job])
    [receipt] = work.read(await connection.fetchval(work.text, work.value))
    return receipt


async def test_a_unique_job_whose_id_another_transaction_takes_meanwhile_gives_that_job(store, three):
    one, two, watcher = three
    plain = new()
    first, second = one.transaction(), two.transaction()
    await first.start()
    await enqueue(store, one, plain)
    await second.start()
    await two.execute("CREATE TEMP TABLE written (n integer)")
    late = asyncio.ensure_future(enqueue(store, two, new(id=plain.id, unique=UniqueKey("k"))))
    await waits(two, watcher)
    await first.commit()

    receipt = await asyncio.wait_for(late, SOON)

    assert (receipt.id, receipt.created) == (plain.id, False)
    await two.execute("INSERT INTO written VALUES (1)")  # the transaction goes on
    await second.commit()
    [other] = await put_in(store, new(unique=UniqueKey("k")))
    assert [job.id for job in await found(store)] == [plain.id, other]  # the key was not kept


async def test_the_function_for_other_languages_goes_on_where_its_id_is_taken_meanwhile(store, three):
    one, two, watcher = three
    plain = new()
    first, second = one.transaction(), two.transaction()
    await first.start()
    await enqueue(store, one, plain)
    await second.start()
    options = json.dumps({"uuid": plain.id.hex(), "unique": {"key": "k"}})
    late = asyncio.ensure_future(
        two.fetchval(f"SELECT {store._layout.schema}.enqueue('t', '{{}}', $1::text::json)", options)
    )
    await waits(two, watcher)
    await first.commit()

    made = await asyncio.wait_for(late, SOON)

    assert made.bytes == plain.id
    await second.commit()
    assert [job.id for job in await found(store)] == [plain.id]


async def test_a_chosen_id_that_is_pruned_meanwhile_is_still_remembered(store, three, clock):
    one, two, watcher = three
    job = new(id=chosen_id("packhorse", "words"))
    await put_in(store, job)
    await run(store, Done())
    clock.turn(30 * DAY)
    prune = one.transaction()
    await prune.start()
    schema, name = store._layout.schema, str(UUID(bytes=job.id))  # what prune does
    await one.execute(f"INSERT INTO {schema}.tombstones VALUES ({clock.now() + DAY}, '{name}', NULL, 'done')")
    await one.execute(f"DELETE FROM {schema}.ended WHERE id = '{name}'")
    await one.execute(f"DELETE FROM {schema}.jobs WHERE id = '{name}'")
    await one.execute(f"INSERT INTO {schema}.count_deltas (queue, done) VALUES ('default', -1)")
    late = two.transaction()
    await late.start()
    again = asyncio.ensure_future(enqueue(store, two, job))
    await waits(two, watcher)
    await prune.commit()

    receipt = await asyncio.wait_for(again, SOON)

    assert not receipt.created
    await late.commit()
    assert await found(store) == []
