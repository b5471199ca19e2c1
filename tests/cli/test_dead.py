"""packhorse dead: dead letters, one by one or by what killed them."""

import pytest

from packhorse import App
from packhorse.cli.command import CliError
from packhorse.cli.commands.dead_edit import given_arguments
from packhorse.model.ids import parse_id
from packhorse.model.job import State
from tests.cli.scene import Scene
from tests.cli.shell import Shell
from tests.factories import DEAD, end, states, take


async def test_dead_letters_are_listed_and_counted(scenes: Scene):
    listed, by_task, by_reason, some, table, gone = await scenes.each(
        "dead ls --json",
        "dead ls --by task --json",
        "dead ls --by reason --json",
        "dead ls --json -t pay",
        "dead ls --by task",
        "dead ls --by error",
    )

    assert {job["id"] for job in listed.json} == {scenes.ids[word] for word in ("dead", "dead too", "unpaid")}
    assert [(kind["task"], kind["count"]) for kind in by_task.json] == [("mail", 2), ("pay", 1)]
    assert all(set(kind) == {"task", "count", "first", "last", "newest"} for kind in by_task.json)
    assert by_task.json[0]["newest"]["id"] == scenes.ids["dead too"]
    assert gone.code == 2
    assert [(kind["reason"], kind["count"]) for kind in by_reason.json] == [("final", 2), ("exhausted", 1)]
    assert [job["id"] for job in some.json] == [scenes.ids["unpaid"]]
    assert "ConnectionError: the till is closed" in table.out


async def test_errors_are_listed_as_groups(scenes: Scene):
    listed, of_task, table = await scenes.each("dead groups --json", "dead groups --json -t pay", "dead groups")

    assert {(group["task"], group["error_type"], group["deaths"]) for group in listed.json} == {
        ("mail", "Broken", 2),
        ("pay", "ConnectionError", 1),
    }
    [group] = of_task.json
    assert (group["newest"], group["exact"]) == ([scenes.ids["unpaid"]], False)
    assert "the till is closed" in table.out
    assert "made of the newest 1,000 dead jobs" in table.out
    assert "made of the newest 1,000 dead jobs" in listed.err
    [found] = await scenes.each(f"dead ls --json --group {group['fingerprint']}")
    assert [job["id"] for job in found.json] == [scenes.ids["unpaid"]]


async def test_a_dead_letter_is_shown_with_its_attempts_and_its_traceback(scene: Scene):
    text, full = await scene.each(
        f"dead show {scene.ids['unpaid']}", f"dead show --full-traceback {scene.ids['unpaid']}"
    )

    for shown in (text, full):
        assert "attempt  failed" in shown.out
        assert "ConnectionError: the till is closed" in shown.out
        assert "ConnectionError: closed" in shown.out
        assert "fingerprint " in shown.out


async def dead_job(folder: Shell, why: str) -> str:
    """A dead job of a task of the shop."""
    async with App(f"sqlite:///{folder.folder / 'packhorse.db'}") as app:
        job = await app.queue("default").enqueue("fail", {"why": why})
        store = await app.store()
        [lease] = await take(store, 1)
        await end(store, lease, DEAD)
        return job.id


async def arguments_of(folder: Shell, job: str) -> object:
    async with App(f"sqlite:///{folder.folder / 'packhorse.db'}") as app:
        return (await app.job(job).info()).data


async def test_a_dead_job_is_replayed_with_other_arguments(folder: Shell):
    job = await dead_job(folder, "no")
    replay = ("dead", "replay", "-A", "shop", job)
    refused, planned, asked, both = [
        await folder.run(*replay, *more)
        for more in (
            ("--arguments", '{"why": 5}'),
            ("--arguments", '{"why": "coal"}', "--dry-run"),
            ("--arguments", '{"why": "coal"}'),
            ("--arguments", "{}", "--edit"),
        )
    ]
    done = await folder.run(*replay, "--arguments", '{"why": "coal"}', "--yes", "--json")

    assert (refused.code, "Expected `str`, got `int`" in refused.err) == (1, True)
    assert (planned.code, "would be replaced by" in planned.out) == (0, True)
    assert (asked.code, 'fail will run in the queue default with {"why":"coal"}' in asked.err) == (2, True)
    assert (both.code, "either --edit or --arguments" in both.err) == (2, True)
    assert (done.json["replaces"], done.json["done"]) == (job, True)
    assert await arguments_of(folder, done.json["job_id"]) == {"why": "coal"}


@pytest.mark.parametrize(("text", "why"), [("{", "are no JSON:"), ("[]", "are no JSON object")])
def test_arguments_that_are_no_json_object_are_refused(text: str, why: str):
    with pytest.raises(CliError, match=why):
        given_arguments(text)


async def test_arguments_of_a_dead_job_are_edited_in_the_editor(folder: Shell):
    job = await dead_job(folder, "no")
    untouched = await folder.run("dead", "replay", "-A", "shop", job, "--edit", "--yes", EDITOR="true")
    edited = await folder.run(
        "dead", "replay", "-A", "shop", job, "--edit", "--yes", "--json", EDITOR="sed -i s/no/coal/"
    )

    assert (untouched.code, untouched.err) == (1, "Error: Nothing was changed.\n")
    assert await arguments_of(folder, edited.json["job_id"]) == {"why": "coal"}


async def test_a_dead_letter_is_shown_and_a_living_job_is_not(scene: Scene):
    shown, living, unknown, nothing = await scene.each(
        f"dead show --json {scene.ids['unpaid']}",
        f"dead show {scene.ids['ready']}",
        "dead show nonsense",
        "dead ls -q held",
    )

    assert shown.json["failures"][0]["type"] == "ConnectionError"
    assert (living.code, "is ready, not dead: use `packhorse jobs show" in living.err) == (1, True)
    assert (unknown.code, "There is no job 'nonsense'" in unknown.err) == (1, True)
    assert nothing.out == "No dead job matches.\n"


async def test_dead_letters_are_replayed_and_dropped_and_nothing_else_is(own_scenes: Scene):
    ids = {word: parse_id(own_scenes.ids[word]) for word in ("dead", "dead too", "unpaid", "ready", "cancelled")}
    living, replayed, dropped, rest, all_left = await own_scenes.each(
        f"dead drop --yes {own_scenes.ids['ready']}",
        f"dead replay --yes --json {own_scenes.ids['dead']}",
        "dead drop --yes --json --error 'till is closed'",
        "dead replay --yes --json -t mail",
        "dead drop --all --yes --json",
    )

    assert (living.code, "is ready: it cannot be dropped." in living.err) == (1, True)
    assert [run.json for run in (replayed, dropped, rest, all_left)] == [
        {"replayed": 1},
        {"dropped": 1},
        {"replayed": 1},
        {"dropped": 0},
    ]
    store = own_scenes.open()
    await store.open()
    found = dict(zip(ids, await states(store, *ids.values()), strict=True))
    await store.close()
    assert found == {
        "dead": State.READY,
        "dead too": State.READY,
        "unpaid": None,
        "ready": State.READY,
        "cancelled": State.CANCELLED,
    }


async def test_all_of_them_must_be_printed(scene: Scene):
    silent, both, unasked = await scene.each("dead drop --yes", "dead drop --all -q email --yes", "dead drop --all")

    assert (silent.code, "their ids, filters, or --all" in silent.err) == (2, True)
    assert (both.code, "in one way" in both.err) == (2, True)
    assert (unasked.code, "3 jobs will be dropped. Use --yes" in unasked.err) == (2, True)
