"""packhorse events tail: what happens to jobs, as it happens."""

import asyncio
import json
import re
import signal
import sqlite3
from contextlib import closing
from typing import Any

from packhorse.stores.redis.packing import MOMENT
from tests.cli.scene import Scene
from tests.cli.shell import PATIENCE
from tests.factories import new, put_in

KEYS = {"at", "event", "job_id", "task", "queue", "tenant", "correlation_id", "attempt", "worker", "reason", "error_type",
        "error_message", "duration", "position"}  # fmt: skip
CTRL_C = "\x03"


async def test_what_has_happened_is_reported_in_order(scenes: Scene):
    all_of_it, dead, till, future = await scenes.each(
        "events tail --since 1h --no-follow --json",
        "events tail --since 1h --no-follow --json dead replayed -q email",
        "events tail --since 1h --no-follow --json -t pay",
        "events tail --no-follow --json",
    )

    lines = [json.loads(line) for line in all_of_it.out.splitlines()]
    assert all(set(line) == KEYS for line in lines)
    assert len({line["position"] for line in lines}) == len(lines)
    done = [line["event"] for line in lines if line["job_id"] == scenes.ids["done"]]
    assert done == ["enqueued", "claimed", "done"]
    letters = [json.loads(line) for line in dead.out.splitlines()]
    assert [line["job_id"] for line in letters] == [scenes.ids[word] for word in ("dead", "dead too", "unpaid")]
    assert {json.loads(line)["task"] for line in till.out.splitlines()} == {"pay"}
    assert future.out == ""


async def test_it_follows_until_ctrl_c(own_scenes: Scene):
    tail = own_scenes.terminal("events", "tail", "-q", "news")
    store = own_scenes.open()
    await store.open()
    try:
        async with asyncio.timeout(PATIENCE):
            while "enqueued" not in tail.text:  # it tells of what comes after it has begun
                await put_in(store, new("tell", queue="gossip"), new("tell", queue="news"))
                await asyncio.sleep(0.05)
    finally:
        await store.close()

    tail.type(CTRL_C)

    assert await tail.ended() == 128 + signal.SIGINT
    assert "Traceback" not in tail.text
    assert "gossip" not in tail.text
    [position] = re.findall(r"To go on from here: --after (\d+\.\d+)", tail.text)
    [rest] = await own_scenes.each(f"events tail --no-follow --after {position}")
    assert rest.code == 0


async def test_mistakes_are_explained(scenes: Scene):
    name, position, beyond, both = await scenes.each(
        "events tail --no-follow died",
        "events tail --no-follow --after yesterday",
        "events tail --no-follow --after 999999999.1",
        "events tail --after earliest --since 1h",
    )

    assert "'dead'" in name.err
    assert "give the position of an event" in position.err
    assert "the log ends before it" in beyond.err
    assert "--after or --since" in both.err
    assert {name.code, position.code, beyond.code, both.code} == {2}


async def add(scene: Scene, count: int, *, data: bytes | None = None, at: int | None = None) -> None:
    """Put entries into the log as only another program would: like its last one, but for what is given."""
    if scene.url.startswith("sqlite"):
        with closing(sqlite3.connect(scene.url.removeprefix("sqlite:///"))) as file, file:
            for _ in range(count):
                file.execute(
                    "INSERT INTO packhorse_lifecycle (at, data) SELECT coalesce(?, at), coalesce(?, data) "
                    "FROM packhorse_lifecycle ORDER BY number DESC LIMIT 1",
                    (at, data),
                )
    elif scene.url.startswith("postgres"):
        import asyncpg

        connection, log = await asyncpg.connect(scene.url), f"{scene.namespace}.lifecycle"
        for _ in range(count):
            await connection.execute(
                f"INSERT INTO {log} (at, data) SELECT coalesce($1, at), coalesce($2, data) "
                f'FROM {log} ORDER BY "offset" DESC LIMIT 1',
                at,
                data,
            )
        await connection.close()
    else:
        import redis.asyncio

        client: Any = redis.asyncio.from_url(scene.url.replace("valkey://", "redis://"))
        [heads], [log] = await client.keys("*:stream_heads"), await client.keys("*:stream:packhorse.jobs")
        [(_, last)] = await client.xrevrange(log, count=1)
        moment = last[b"t"] if at is None else MOMENT.pack(at)
        for _ in range(count):
            offset = await client.hincrby(heads, "packhorse.jobs", 1)
            await client.xadd(log, {"t": moment, "d": last[b"d"] if data is None else data}, id=f"{offset}-0")
        await client.aclose()


async def tail_since(scene: Scene) -> list[dict[str, Any]]:
    """What tail prints of the last hour after one more job."""
    store = scene.open()
    await store.open()
    await put_in(store, new("after", queue="news"))
    await store.close()
    [tail] = await scene.each("events tail --since 1h --no-follow --json")
    assert tail.code == 0, tail.err
    return [json.loads(line) for line in tail.out.splitlines()]


async def test_an_entry_that_cannot_be_read_is_reported_and_so_is_what_comes_after_it(own_scenes: Scene):
    await add(own_scenes, 1, data=b"q")

    bad, after = (await tail_since(own_scenes))[-2:]
    assert bad == {"gap": 1, "damaged": True, "position": bad["position"]}
    assert after["task"] == "after"
    [rest] = await own_scenes.each(f"events tail --no-follow --json --after {bad['position']}")
    assert [json.loads(line) for line in rest.out.splitlines()] == [after]


async def test_entries_whose_moment_cannot_be_read_are_reported_without_one_and_hide_no_others(own_scenes: Scene):
    before = await tail_since(own_scenes)
    await add(own_scenes, 3, at=2**62)
    await add(own_scenes, 3, at=0)

    lines = await tail_since(own_scenes)
    assert lines[: len(before)] == before
    *bad, after = lines[len(before) :]
    assert {(line["event"], line["job_id"], line["at"]) for line in bad} == {("enqueued", before[-1]["job_id"], None)}
    assert (len(bad), after["task"]) == (6, "after")
