"""packhorse jobs tail: what happens to jobs, as it happens."""

import asyncio
import json
import signal

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
