"""packhorse dead: dead letters, one by one or by what killed them."""

from packhorse.model.ids import parse_id
from packhorse.model.job import State
from tests.cli.scene import Scene
from tests.factories import states


async def test_dead_letters_are_listed_and_counted(scenes: Scene):
    listed, by_error, by_reason, some, table = await scenes.each(
        "dead ls --json",
        "dead ls --by error --json",
        "dead ls --by reason --json",
        "dead ls --json -t pay",
        "dead ls --by error",
    )

    assert {job["id"] for job in listed.json} == {scenes.ids[word] for word in ("dead", "dead too", "unpaid")}
    assert [(kind["task"], kind["error"], kind["count"]) for kind in by_error.json] == [
        ("mail", "Broken", 2),
        ("pay", "ConnectionError", 1),
    ]
    assert all(set(kind) == {"task", "error", "count", "first", "last", "newest"} for kind in by_error.json)
    assert by_error.json[0]["newest"]["id"] == scenes.ids["dead too"]
    assert [(kind["reason"], kind["count"]) for kind in by_reason.json] == [("final", 2), ("exhausted", 1)]
    assert [job["id"] for job in some.json] == [scenes.ids["unpaid"]]
    assert "ConnectionError: the till is closed" in table.out


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
