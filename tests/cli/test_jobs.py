"""packhorse jobs ls, show and errors."""

import re
from datetime import UTC, datetime, timedelta

from tests.cli.scene import Scene

BRIEF = {
    "id", "task", "queue", "state", "reason", "priority", "attempt", "lost", "key", "tenant", "enqueued_at",
    "due_at", "ready_at", "started_at", "lease_expires_at", "waiting_since", "ended_at",
    "error",
}  # fmt: skip
WHOLE = BRIEF | {
    "detail", "headers", "arguments", "result", "progress", "unique", "parent", "children", "delivered", "worker",
    "cancelling", "failures", "why",
}  # fmt: skip


async def test_a_list_tells_of_every_job(scenes: Scene):
    ended = await scenes.run("jobs", "ls", "--json")

    assert {job["id"] for job in ended.json} == set(scenes.ids.values())
    assert all(set(job) == BRIEF for job in ended.json)


async def test_filters_leave_what_fits(scene: Scene):
    fits = {
        "-s dead": {"dead", "dead too", "unpaid"},
        "-s dead -t pay": {"unpaid"},
        "--reason exhausted": {"unpaid"},
        "--error 'till is closed'": {"unpaid"},
        "--header order=o-1": {"unpaid"},
        "--tenant acme": {"dead"},
        "--key till": {"first", "behind"},
        "-q held --enqueued-after 1h": {"paused"},
        "--enqueued-after 2999-01-01T00:00:00Z": set(),
    }
    words = {job: word for word, job in scene.ids.items()}

    *runs, two = await scene.each(*(f"jobs ls --json {filters}" for filters in fits), "jobs ls --json -n 2")

    found = [{words[job["id"]] for job in run.json} for run in runs]
    assert dict(zip(fits, found, strict=True)) == fits
    assert len(two.json) == 2


async def test_people_get_a_table(scene: Scene):
    found, nothing = await scene.each("jobs ls -s dead", "jobs ls -q empty")
    head, *rows = found.out.splitlines()

    assert head.split() == ["id", "task", "queue", "state", "reason", "attempt", "enqueued_at", "since", "error"]
    assert len(rows) == 3
    assert any("ConnectionError: the till is closed" in row for row in rows)
    assert nothing.out == "No job matches.\n"


async def test_all_that_is_known_of_a_job_is_shown(scenes: Scene):
    words = ("unpaid", "first", "done")
    unpaid, running, done = [
        ended.json for ended in await scenes.each(*(f"jobs show --json {scenes.ids[word]}" for word in words))
    ]

    assert all(set(job) == WHOLE for job in (unpaid, running, done))
    assert (unpaid["state"], unpaid["reason"], unpaid["headers"]) == ("dead", "exhausted", {"order": "o-1"})
    assert [error["traceback"] for error in unpaid["failures"]] == ["Traceback …\nConnectionError: closed\n"]
    assert (running["state"], running["progress"], running["key"]) == (
        "running",
        {"percent": 50, "message": "half"},
        "till",
    )
    assert (done["arguments"], done["result"]) == ({"to": "ann"}, {"sent": True})


async def test_it_is_printed_why_a_job_is_not_running(scene: Scene):
    reasons = {
        "paused": "packhorse queues resume held",
        "alone": "packhorse worker -q nobody",
        "stranger": "knows the task mial",
        "behind": "key till",
        "retried": "tried again in 59m",
        "first": "has been running for ",
        "ready": "waits for its turn",
    }

    runs = await scene.each(*(f"jobs show --json {scene.ids[word]}" for word in reasons))

    for run, why in zip(runs, reasons.values(), strict=True):
        assert why in run.json["why"]


async def test_it_is_seen_since_when_and_how_long_a_job_has_been_running(scenes: Scene):
    before = datetime.now(UTC)
    as_json, listed = await scenes.each("jobs ls -s running --json", "jobs ls -s running")

    moments = [datetime.fromisoformat(job["started_at"]) for job in as_json.json]
    assert moments
    assert all(before - timedelta(minutes=30) < moment <= before for moment in moments)
    _, *rows = listed.out.splitlines()
    assert all(re.search(r"\d\d:\d\d:\d\d \((\d+m)?\d+s\)", row) for row in rows)


async def test_a_person_sees_the_traceback_and_the_reason(scene: Scene):
    seen = (await scene.run("jobs", "show", scene.ids["unpaid"])).out

    assert "It is dead as exhausted (ConnectionError: the till is closed)" in seen
    assert f"packhorse jobs replay {scene.ids['unpaid']}" in seen
    assert "Traceback …\nConnectionError: closed" in seen


async def test_a_job_is_found_by_the_words_of_its_id_and_its_arguments_can_be_left_out(scene: Scene):
    seen, less = await scene.each("jobs show llm:42", "jobs show llm:42 --no-arguments")

    assert scene.ids["chosen"] in seen.out
    assert '{"secret":1}' in seen.out
    assert "secret" not in less.out


async def test_what_is_wrong_is_printed_with_what_to_do(scene: Scene, tmp_path):
    unknown, done = "00000000-0000-7000-8000-000000000000", scene.ids["done"]
    (tmp_path / "empty.db").touch()
    wrong = {
        f"show {unknown}": (1, f"There is no job {unknown}: it was never enqueued here"),
        "show nonsense": (1, "There is no job 'nonsense': it is not a job id"),
        "ls -s lost": (2, "'lost' is not one of 'scheduled', 'ready'"),
        "ls --reason mood": (2, "'mood' is not one of"),
        "ls --enqueued-after noon": (2, "'noon' is not a moment: use 15m"),
        "ls --header order": (2, "'order' is not of the form name=value"),
        "ls --url mongodb://x": (2, "The scheme 'mongodb' of the address is unknown"),
        "ls --url redis://127.0.0.1:1": (4, "redis-cli -u ADDRESS ping"),
        "ls --url postgresql://127.0.0.1:1/x": (4, "pg_isready -d ADDRESS"),
        f"ls --url sqlite:///{tmp_path}/none.db": (4, "packhorse migrate up"),
        f"ls --url sqlite:///{tmp_path}/empty.db": (4, "packhorse migrate up"),
        "rm": (2, "Name the jobs to be removed in one way: their ids, or filters."),
        f"rm {unknown} -q email": (2, "in one way"),
        "rm -q email": (2, "10 jobs will be removed. Use --yes"),
        f"rm {unknown} --yes": (1, f"There is no job {unknown}"),
        "replay -s ready -q email": (2, "a job that is ready cannot be replayed"),
        f"cancel {done} --yes": (1, f"The job {done} is done: it cannot be cancelled."),
    }

    runs = await scene.each(*(f"jobs {line}" for line in wrong))

    for (line, (code, words)), run in zip(wrong.items(), runs, strict=True):
        assert (run.code, words in run.err) == (code, True), (line, run)


async def test_on_a_narrow_terminal_an_id_stays_whole_and_columns_are_left_out(scene: Scene):
    columns = {width: (await shown(scene, str(width)))[1].split() for width in (80, 100, 150)}

    assert columns[80] == ["id", "task", "state", "error"]
    assert columns[100] == ["id", "task", "state", "reason", "error"]
    assert columns[150] == ["id", "task", "queue", "state", "reason", "attempt", "since", "error"]


async def shown(scene: Scene, width: str) -> list[str]:
    """The lines of a list on a terminal of this width; each id is on one of them."""
    listing = scene.terminal("jobs", "ls", "-s", "dead", COLUMNS=width)
    await listing.ended()
    lines = re.sub(r"\x1b\[[0-9;]*m", "", listing.text).splitlines()
    assert all(any(scene.ids[name] in line for line in lines) for name in ("dead", "dead too", "unpaid"))
    return lines
