"""packhorse jobs replay, cancel and rm: by ids and by filters."""

import signal

from packhorse.model.ids import parse_id
from packhorse.model.job import NewJob, State
from tests.cli.scene import Scene
from tests.factories import states

CTRL_C = "\x03"


async def standing(scene: Scene, *words: str) -> list[State | None]:
    """Where the jobs of these names stand now."""
    store = scene.open()
    await store.open()
    try:
        return await states(store, *(parse_id(scene.ids[word]) for word in words))
    finally:
        await store.close()


async def test_jobs_are_changed_by_their_ids(own_scenes: Scene):
    ids = own_scenes.ids

    runs = await own_scenes.each(
        f"jobs replay --yes --json {ids['dead']} {ids['cancelled']}",
        f"jobs cancel --yes --json {ids['scheduled']} {ids['first']}",
        f"jobs rm --yes --json {ids['done']} {ids['behind']}",
    )

    assert [run.json for run in runs] == [{"replayed": 2}, {"cancelled": 2}, {"removed": 2}]
    assert await standing(own_scenes, "dead", "cancelled") == [State.READY, State.READY]
    assert await standing(own_scenes, "scheduled", "first") == [State.CANCELLED, State.RUNNING]
    assert await standing(own_scenes, "done", "behind") == [None, None]


async def test_jobs_are_changed_by_filters(own_scenes: Scene):
    runs = await own_scenes.each(
        "jobs replay --yes --json -s dead --error 'it broke'",
        "jobs cancel --yes --json --key till",
        "jobs rm --yes --json --reason exhausted",
    )

    assert [run.json for run in runs] == [{"replayed": 2}, {"cancelled": 2}, {"removed": 1}]
    assert await standing(own_scenes, "dead", "dead too", "unpaid") == [State.READY, State.READY, None]
    assert await standing(own_scenes, "first", "behind") == [State.RUNNING, State.CANCELLED]


async def test_what_cannot_be_done_is_printed_and_the_rest_is_done(own_scene: Scene):
    ended = await own_scene.run("jobs", "replay", "--yes", own_scene.ids["ready"], own_scene.ids["dead"], "nonsense")

    assert (ended.code, ended.out) == (1, "1 job replayed.\n")
    assert f"The job {own_scene.ids['ready']} is ready: it cannot be replayed." in ended.err
    assert "There is no job 'nonsense'" in ended.err
    assert await standing(own_scene, "ready", "dead") == [State.READY, State.READY]


async def test_a_limit_bounds_what_is_done_and_nothing_is_done_unasked(own_scene: Scene):
    refused = await own_scene.run("jobs", "rm", "-s", "dead")
    ended = await own_scene.run("jobs", "rm", "-s", "dead", "-n", "2", "--yes")

    assert (refused.code, refused.err) == (
        2,
        "Error: 3 jobs will be removed. Use --yes to go on without being asked.\n",
    )
    assert ended.out == "2 jobs removed.\n"
    assert (await standing(own_scene, "dead", "dead too", "unpaid")).count(None) == 2


async def test_more_than_a_page_is_done_page_by_page(own_scenes: Scene):
    store = own_scenes.open()
    await store.open()
    for _ in range(3):
        await store.jobs.enqueue([NewJob(task="bulk", queue="bulk") for _ in range(500)])
    await store.close()

    runs = await own_scenes.each(
        "jobs cancel --yes --json -q bulk -t bulk",
        "jobs cancel --yes --json -q bulk",
        "jobs rm --yes --json -q bulk -n 1499",
        "jobs rm --yes --json -q bulk",
    )

    assert [run.json for run in runs] == [{"cancelled": 1500}, {"cancelled": 0}, {"removed": 1499}, {"removed": 1}]


async def test_scheduled_jobs_are_promoted(own_scenes: Scene):
    by_id, by_filter, refused = await own_scenes.each(
        f"jobs promote --yes --json {own_scenes.ids['scheduled']}",
        "jobs promote --yes --json -q email",
        f"jobs promote --yes {own_scenes.ids['ready']}",
    )

    assert [by_id.json, by_filter.json] == [{"promoted": 1}, {"promoted": 1}]
    assert (refused.code, "is ready: it cannot be promoted." in refused.err) == (1, True)
    assert await standing(own_scenes, "scheduled", "retried", "stranger") == [State.READY, State.READY, State.WAITING]


async def test_a_dry_run_counts_and_names_jobs_and_changes_none(own_scene: Scene):
    words, document, by_id, audit = await own_scene.each(
        "jobs rm -s dead --dry-run",
        "dead replay --all --dry-run --json",
        f"jobs cancel --dry-run --json {own_scene.ids['ready']} {own_scene.ids['dead']}",
        "audit --json",
    )

    ids = {own_scene.ids[word] for word in ("dead", "dead too", "unpaid")}
    assert words.out.splitlines()[0] == "3 jobs would be removed."
    assert set(words.out.splitlines()[1:]) == ids
    assert (document.json["total"], set(document.json["sample"])) == (3, ids)
    assert by_id.json == {"total": 1, "sample": [own_scene.ids["ready"]]}
    assert audit.json == []
    assert await standing(own_scene, "dead", "ready") == [State.DEAD, State.READY]


async def test_what_commands_change_is_audited_with_its_filter_before_and_after(own_scene: Scene):
    [_, _, listed] = await own_scene.each(
        "jobs rm --yes -s dead -t pay", f"jobs cancel --yes {own_scene.ids['ready']}", "audit --json"
    )

    shown = [
        (each["action"], each["filter"], each["target"], each["outcome"], each["count"]) for each in listed.json[::-1]
    ]
    assert shown == [
        ("drop", {"task": "pay", "state": "dead"}, None, "started", None),
        ("drop", {"task": "pay", "state": "dead"}, None, "done", 1),
        ("cancel", None, own_scene.ids["ready"], "started", None),
        ("cancel", None, own_scene.ids["ready"], "done", 1),
    ]
    assert {each["via"] for each in listed.json} == {"cli"}


async def test_on_a_terminal_people_are_asked(own_scene: Scene):
    no = own_scene.terminal("jobs", "rm", "-s", "dead")
    await no.until("3 jobs will be removed.")
    await no.until("Go on? [y/N]")
    no.type("n\n")
    assert await no.ended() == 1
    assert "Nothing was changed." in no.text

    stopped = own_scene.terminal("jobs", "rm", "-s", "dead")
    await stopped.until("Go on? [y/N]")
    stopped.type(CTRL_C)
    assert await stopped.ended() == 128 + signal.SIGINT
    assert "Traceback" not in stopped.text
    assert await standing(own_scene, "dead") == [State.DEAD]

    yes = own_scene.terminal("jobs", "rm", "-s", "dead")
    await yes.until("Go on? [y/N]")
    yes.type("y\n")
    assert await yes.ended() == 0
    assert "counted" in yes.text  # progress
    assert "3 jobs removed." in yes.text
    assert await standing(own_scene, "dead") == [None]
