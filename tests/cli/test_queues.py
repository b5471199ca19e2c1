"""packhorse queues: look, pause, resume, cancel-pending, purge, wait."""

import signal

from packhorse.model.ids import parse_id
from packhorse.model.job import State
from tests.cli.scene import Scene
from tests.factories import new, put_in, states

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


async def test_a_queue_is_paused_and_resumed(own_scenes: Scene):
    paused, resumed, listed = await own_scenes.each(
        "queues pause email default", "queues resume held email", "queues ls --json"
    )

    assert (paused.out, resumed.out) == ("Paused: email, default.\n", "Resumed: held, email.\n")
    assert [queue["queue"] for queue in listed.json if queue["paused"]] == ["default"]


async def test_pending_jobs_are_cancelled_and_a_queue_is_purged(own_scenes: Scene):
    ids = [parse_id(own_scenes.ids[word]) for word in ("ready", "scheduled", "retried", "stranger", "dead", "done")]
    unasked, cancelled, purged, nothing = await own_scenes.each(
        "queues cancel-pending email",
        "queues cancel-pending email --yes --json",
        "queues purge email --yes --json",
        "queues purge email --yes",
    )

    assert (unasked.code, unasked.err) == (
        2,
        "Error: 5 jobs will be cancelled. Use --yes to go on without being asked.\n",
    )
    assert (cancelled.json, purged.json) == ({"cancelled": 5}, {"removed": 10})
    assert nothing.out == "0 jobs removed.\n"
    store = own_scenes.open()
    await store.open()
    assert await states(store, *ids) == [None] * 6
    assert sum((await store.jobs.count())["default"].values()) == 2
    await store.close()


async def test_waiting_ends_when_nothing_is_ready_or_running(own_scenes: Scene):
    waiting = own_scenes.terminal("queues", "wait", "default")
    await waiting.until("0/1")
    store = own_scenes.open()
    await store.open()
    await store.jobs.cancel([parse_id(own_scenes.ids["behind"])])
    [first] = await store.jobs.get([parse_id(own_scenes.ids["first"])])
    assert first is not None
    await store.jobs.drop([first.id])
    await store.close()

    assert await waiting.ended() == 0
    assert "No job of default is ready or running." in waiting.text


async def test_waiting_is_given_up_after_a_while_and_with_ctrl_c(own_scene: Scene):
    [late] = await own_scene.each("queues wait held --timeout 0.1")
    waiting = own_scene.terminal("queues", "wait", "held")
    await waiting.until("0/1")
    waiting.type(CTRL_C)

    assert (late.code, "Still ready or running in held: 1 job. Does a worker serve it?" in late.err) == (1, True)
    assert await waiting.ended() == 128 + signal.SIGINT
    assert "Traceback" not in waiting.text
    store = own_scene.open()
    await store.open()
    assert await states(store, parse_id(own_scene.ids["paused"])) == [State.READY]
    await store.close()


async def test_what_arrives_after_the_count_is_left_alone(own_scene: Scene):
    asked = own_scene.terminal("queues", "cancel-pending", "email")
    await asked.until("Go on? [y/N]")
    store = own_scene.open()
    await store.open()
    [late] = await put_in(store, new("mail", queue="email"))
    asked.type("y\n")
    assert await asked.ended() == 0

    assert "5 jobs cancelled." in asked.text
    assert await states(store, late, parse_id(own_scene.ids["ready"])) == [State.READY, State.CANCELLED]
    await store.close()


async def test_a_queue_that_nobody_knows_is_refused(own_scene: Scene):
    answers = await own_scene.each(
        "queues pause emial",
        "queues resume emial",
        "queues cancel-pending emial --yes",
        "queues purge emial --yes",
        "queues ls --json",
    )

    for answer in answers[:-1]:
        message = "Error: There is no queue 'emial': no job is in it; did you mean 'email'?\n"
        assert (answer.code, answer.err) == (1, message)
    assert "emial" not in {queue["queue"] for queue in answers[-1].json}
