"""packhorse jobs tail: what happens to jobs, as it happens."""

import asyncio
import json
import signal
import sqlite3
from contextlib import closing
from typing import Any

from tests.cli.scene import Scene
from tests.cli.shell import PATIENCE
from tests.making import new, put_in

KEYS = {"at", "event", "id", "task", "queue", "offset"}
CTRL_C = "\x03"


async def test_what_has_happened_is_told_in_order(scenes: Scene):
    all_of_it, dead, till, future = await scenes.each(
        "jobs tail --since 1h --no-follow --json",
        "jobs tail --since 1h --no-follow --json -e dead -e replayed -q email",
        "jobs tail --since 1h --no-follow --json -t pay",
        "jobs tail --no-follow --json",
    )

    told = [json.loads(line) for line in all_of_it.out.splitlines()]
    assert all(set(line) == KEYS for line in told)
    assert [line["offset"] for line in told] == sorted(line["offset"] for line in told)
    done = [line["event"] for line in told if line["id"] == scenes.ids["done"]]
    assert done == ["enqueued", "claimed", "done"]
    letters = [json.loads(line) for line in dead.out.splitlines()]
    assert [line["id"] for line in letters] == [scenes.ids[word] for word in ("dead", "dead too", "unpaid")]
    assert {json.loads(line)["task"] for line in till.out.splitlines()} == {"pay"}
    assert future.out == ""


async def test_it_follows_until_ctrl_c(mendings: Scene):
    tail = mendings.terminal("jobs", "tail", "-q", "news")
    store = mendings.open()
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


async def add_nonsense(scene: Scene) -> None:
    """Put an entry into the log that no release can read."""
    if scene.url.startswith("sqlite"):
        with closing(sqlite3.connect(scene.url.removeprefix("sqlite:///"))) as file, file:
            file.execute("INSERT INTO packhorse_lifecycle (at, data) SELECT at, x'71' FROM packhorse_moment")
    elif scene.url.startswith("postgres"):
        import asyncpg

        connection = await asyncpg.connect(scene.url)
        await connection.execute(
            f"INSERT INTO {scene.namespace}.lifecycle (at, data) SELECT max(at), '\\x71' FROM {scene.namespace}.lifecycle"
        )
        await connection.close()
    else:
        import redis.asyncio

        client: Any = redis.asyncio.from_url(scene.url.replace("valkey://", "redis://"))
        [heads], [log] = await client.keys("*:heads"), await client.keys("*:stream:packhorse.jobs")
        [(_, last)] = await client.xrevrange(log, count=1)
        offset = await client.hincrby(heads, "packhorse.jobs", 1)
        await client.xadd(log, {"t": last[b"t"], "d": b"q"}, id=f"{offset}-0")
        await client.aclose()


async def test_an_entry_that_cannot_be_read_is_told_and_so_is_what_comes_after_it(mendings: Scene):
    await add_nonsense(mendings)
    store = mendings.open()
    await store.open()
    await put_in(store, new("after", queue="news"))
    await store.close()

    [told] = await mendings.each("jobs tail --since 1h --no-follow --json")

    bad, after = [json.loads(line) for line in told.out.splitlines()][-2:]
    assert set(bad) == {"offset", "error"}
    assert (after["task"], after["offset"]) == ("after", bad["offset"] + 1)
