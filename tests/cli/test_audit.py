"""packhorse audit: who did what, newest first."""

from tests.cli.scene import Scene


async def test_actions_of_commands_are_listed_newest_first(own_scenes: Scene):
    paused, purged, listed, table, older = await own_scenes.each(
        "queues pause email",
        "queues resume email",
        "audit --json",
        "audit",
        "audit --before 2 --json",
    )

    assert (paused.code, purged.code) == (0, 0)
    entries = listed.json
    assert [(entry["number"], entry["action"], entry["target"], entry["via"]) for entry in entries] == [
        (2, "resume", "email", "cli"),
        (1, "pause", "email", "cli"),
    ]
    assert set(entries[0]) == {
        "number", "at", "action", "who", "via", "target", "filter", "count", "outcome", "error", "operation", "address",
        "request_id",
    }  # fmt: skip
    assert "pause" in table.out
    assert older.json == [entries[1]]


async def test_a_store_without_actions_says_so(own_scene: Scene):
    [ended] = await own_scene.each("audit")
    assert ended.out == "Nothing was done by hand here in the last 90 days.\n"
