"""packhorse queues: look, pause, resume, drain, purge, wait."""

import signal
from collections.abc import AsyncIterator
from typing import ClassVar

from packhorse import App, Job
from packhorse.cli.filters import Filters
from packhorse.cli.queues import DRAIN
from packhorse.cli.screen import Screen
from packhorse.model.ids import parse_id
from packhorse.model.job import State
from tests.cli.scene import Scene
from tests.making import states

KEYS = {"queue", "paused", *State, "oldest_ready", "next_due"}
CTRL_C = "\x03"


async def test_queues_are_listed_with_their_jobs_by_state(scenes: Scene):
    listed, table = await scenes.each("queues ls --json", "queues ls")

    found = {queue["queue"]: queue for queue in listed.json}
    assert all(set(queue) == KEYS for queue in listed.json)
    assert list(found) == ["default", "email", "held", "nobody's"]
    email = {state.value: found["email"][state] for state in State}
    assert email == {
        "scheduled": 2, "ready": 2, "running": 0, "waiting": 1, "done": 1, "dead": 3, "cancelled": 1,
    }  # fmt: skip
    assert [name for name, queue in found.items() if queue["paused"]] == ["held"]
    assert found["email"]["oldest_ready"] < found["email"]["next_due"]
    assert found["default"]["oldest_ready"] is None
    assert "paused" in table.out


async def test_a_queue_is_paused_and_resumed(mendings: Scene):
    paused, resumed, listed = await mendings.each(
        "queues pause email default", "queues resume held email", "queues ls --json"
    )

    assert (paused.out, resumed.out) == ("Paused: email, default.\n", "Resumed: held, email.\n")
    assert [queue["queue"] for queue in listed.json if queue["paused"]] == ["default"]


async def test_a_queue_is_drained_and_purged(mendings: Scene):
    ids = [parse_id(mendings.ids[word]) for word in ("ready", "scheduled", "retried", "stranger", "dead", "done")]
    unasked, drained, purged, nothing = await mendings.each(
        "queues drain email",
        "queues drain email --yes --json",
        "queues purge email --yes --json",
        "queues purge email --yes",
    )

    assert (unasked.code, unasked.err) == (
        2,
        "Error: 5 jobs will be cancelled. Say --yes to go on without being asked.\n",
    )
    assert (drained.json, purged.json) == ({"cancelled": 5}, {"removed": 10})
    assert nothing.out == "0 jobs removed.\n"
    store = mendings.open()
    await store.open()
    assert await states(store, *ids) == [None] * 6
    assert sum((await store.jobs.count())["default"].values()) == 2
    await store.close()


async def test_waiting_ends_when_nothing_is_ready_or_running(mendings: Scene):
    waiting = mendings.terminal("queues", "wait", "default")
    await waiting.until("0/1")
    store = mendings.open()
    await store.open()
    await store.jobs.cancel([parse_id(mendings.ids["behind"])])
    [first] = await store.jobs.get([parse_id(mendings.ids["first"])])
    assert first is not None
    await store.jobs.drop([first.id])
    await store.close()

    assert await waiting.ended() == 0
    assert "Nothing of default is ready or running." in waiting.text


async def test_waiting_is_given_up_after_a_while_and_with_ctrl_c(mending: Scene):
    [late] = await mending.each("queues wait held --timeout 0.1")
    waiting = mending.terminal("queues", "wait", "held")
    await waiting.until("0/1")
    waiting.type(CTRL_C)

    assert (late.code, "Still ready or running in held: 1 job. Is a worker there" in late.err) == (1, True)
    assert await waiting.ended() == 128 + signal.SIGINT
    assert "Traceback" not in waiting.text
    store = mending.open()
    await store.open()
    assert await states(store, parse_id(mending.ids["paused"])) == [State.READY]
    await store.close()


class Arriving(Filters):
    """Filters that fit no job until all states of a drain were counted; then one is enqueued."""

    looks: ClassVar[int] = 0

    async def find(self, app: App) -> AsyncIterator[Job]:
        async for job in super().find(app):
            yield job
        Arriving.looks += 1
        if Arriving.looks == len(DRAIN.states):
            await app.queue("email").enqueue("late", {})


async def test_what_arrives_after_nothing_was_counted_is_left_alone():
    async with App("sqlite:///:memory:") as app:
        await DRAIN.run(app, (), Arriving(queue="email"), Screen(), yes=False)

        assert [job.status for job in (await app.find()).items] == ["ready"]


async def test_a_queue_that_nobody_knows_is_refused(mending: Scene):
    answers = await mending.each(
        "queues pause emial",
        "queues resume emial",
        "queues drain emial --yes",
        "queues purge emial --yes",
        "queues ls --json",
    )

    for answer in answers[:-1]:
        said = "Error: There is no queue 'emial': no job is in it; did you mean 'email'?\n"
        assert (answer.code, answer.err) == (1, said)
    assert "emial" not in {queue["queue"] for queue in answers[-1].json}
