"""A record that cannot be opened costs only itself: it is dead as undecodable, and its neighbours run."""

import asyncio
import sqlite3
from contextlib import closing

import pytest

from packhorse.errors import SchemaMismatch, UndecodablePayload
from packhorse.model.job import State
from packhorse.model.page import Filter
from packhorse.model.reason import DeadReason
from packhorse.testing.faults import RaiseError
from tests.conftest import kinds, namespace
from tests.damage import TAG
from tests.engine.factories import Crossing, EventName, Once, at_once, job, worker
from tests.factories import one, put_in
from tests.integration.keyspaces import client_of

RECORDS = {
    "a name that is not UTF-8": lambda record: record.replace(b"work", b"w\xe9rk"),
    "the form of a newer release": lambda record: b"3" + record[1:],
    "a length that is no number": lambda record: record.replace(b"\x1f2\x1e", b"\x1f?\x1e"),
    "nothing but a start": lambda record: record[:5],
}
COLUMNS = {
    "a task that is not UTF-8": "task = CAST(x'77e9' AS TEXT)",
    "a lane that is not UTF-8": "lane = CAST(x'77e9' AS TEXT)",
    "arguments that are no JSON": "payload = x'7bff'",
    "arguments that are of another type": "payload = 'text'",
    "arguments that are a number": "payload = 5",
    "a task that is bytes": "task = x'77'",
}
BYTEA = {"arguments that are no JSON": "payload = '\\x7bff'"}


async def damage_redis(url, bad, change):
    async with client_of(url) as client:
        await client.hset(f"{TAG}:jobs", bad, change(await client.hget(f"{TAG}:jobs", bad)))


async def damage_sqlite(url, bad, change):
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection, connection:
        connection.execute(f"UPDATE packhorse_jobs SET {change} WHERE id = ?", (bad,))


async def damage_postgres(url, bad, change):
    import asyncpg

    connection = await asyncpg.connect(url)
    await connection.execute(f"UPDATE {namespace('postgres')}.jobs SET {change} WHERE id = '{bad.hex()}'")
    await connection.close()


DAMAGES = {
    "sqlite": (damage_sqlite, COLUMNS),
    "redis": (damage_redis, RECORDS),
    "valkey": (damage_redis, RECORDS),
    "postgres": (damage_postgres, BYTEA),
}
CASES = [
    pytest.param(kind, damage, change, id=f"{kind}: {name}")
    for kind in kinds()
    if kind in DAMAGES
    for damage, changes in [DAMAGES[kind]]
    for name, change in changes.items()
]


@pytest.mark.parametrize(("kind", "damage", "change"), CASES)
@pytest.mark.parametrize("idle", [True, False], ids=["idle", "busy"])
async def test_a_record_that_cannot_be_opened_costs_only_itself(
    url, live, other, telemetry, recorder, damage, change, idle
):
    await other.queues.pause(["default"])
    bad, *good = await put_in(other, job("work", priority=1), *(job("work") for _ in range(5)))
    await damage(url, bad, change)
    if not idle:
        await other.queues.resume(["default"])
    async with worker(live, at_once(), telemetry) as working:
        if idle:
            await working.idle()
            await other.queues.resume(["default"])
        await recorder.until(EventName.DONE, len(good))
        await recorder.until(EventName.DEAD)

    found = await one(live, bad)
    assert (found.state, found.reason) == (State.DEAD, DeadReason.UNDECODABLE)
    assert {(await one(live, each)).lost for each in good} == {0}
    counts = (await live.jobs.count())["default"]
    assert (counts[State.DONE], counts[State.DEAD]) == (5, 1)
    assert [stats.name for stats in await live.queues.stats()] == ["default"]
    assert len((await live.jobs.find(Filter())).items) == 6


async def test_a_listener_survives_a_hint_it_cannot_read(live, other, telemetry, recorder):
    crossing = Crossing()
    crossing.rules["wakes"] = Once(
        RaiseError(UndecodablePayload("no such hint")), RaiseError(ValueError("nor this one"))
    )
    async with worker(crossing.before(live), at_once(), telemetry) as working:
        await working.idle()
        for count in (1, 2, 3):
            await put_in(other, job("work"))
            await recorder.until(EventName.DONE, count)
        reported = await recorder.until(EventName.EXCHANGE_FAILED, 2)

    assert [str(fields["error"]) for fields in reported] == ["no such hint", "nor this one"]


async def test_a_worker_stops_at_a_layout_that_its_listener_finds_newer(memory):
    crossing = Crossing()
    crossing.rules["wakes"] = lambda *_: RaiseError(SchemaMismatch("upgrade Packhorse"))
    working = worker(crossing.before(memory), at_once())
    await working.__aenter__()
    await working.idle()
    await put_in(memory, job("work"))
    await asyncio.wait_for(working.stopped(), 20)

    with pytest.raises(SchemaMismatch, match="upgrade"):
        await working.__aexit__(None, None, None)
