"""``packhorse enqueue``: jobs from a shell, checked by the app or stored by name."""

import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

from packhorse import App
from tests.cli import forks
from tests.cli.shell import Shell
from tests.conftest import namespace

KEYS = ["id", "task", "queue", "created", "state"]


async def test_a_job_is_stored_by_its_name_alone(shell: Shell, kind: str, url: str):
    options = [
        "--queue",
        "far",
        "--delay",
        "1h",
        "--priority",
        "3",
        "--id",
        "mine",
        "--key",
        "k",
        "--tenant",
        "t",
        "--user",
        "u",
    ]
    options += ["--header", "x=1", "--header", "y=z"]
    cases = (("other:task", '{"a": [1, null]}', *options), ("other:task", "--id", "mine"))

    first, again = await forks.run([(shell, ("enqueue", *case, "--json")) for case in cases])

    assert (list(first.json), first.json["created"], first.json["state"]) == (KEYS, True, "scheduled")
    assert again.json == {**first.json, "created": False}
    async with App(url, namespace=namespace(kind)) as app:
        job = await app.job(first.json["id"]).info()
    assert (job.task, job.queue, job.data, job.priority, job.key) == ("other:task", "far", {"a": [1, None]}, 3, "k")
    assert (job.tenant, job.user, job.headers["x"], job.headers["y"]) == ("t", "u", 1, "z")
    assert job.due_at is not None
    assert timedelta(minutes=59) < job.due_at - datetime.now(UTC) < timedelta(minutes=61)


async def test_waiting_prints_what_the_job_returned(shell: Shell):
    worker = shell.start("worker", "shop")
    add, fail, sleep = (
        ("add", "a=1", "b=2", "--timeout", "30s", "--json"),
        ("fail", "why=no coal", "--json"),
        ("sleep", "seconds=60", "--timeout", "100ms"),
    )
    done, failed, late, late_json = await forks.run(
        [(shell, ("enqueue", "-A", "shop", "--wait", *case)) for case in (add, fail, sleep, (*sleep, "--json"))]
    )
    worker.signal(signal.SIGKILL)

    assert done.json == {**done.json, "state": "done", "result": 3, "error": None}
    assert list(done.json) == [*KEYS, "result", "error"] == list(failed.json)
    assert (failed.code, failed.json["state"], failed.json["error"]) == (1, "dead", "ValueError: no coal")
    assert failed.err == f"Error: The job {failed.json['id']} (fail) is dead as exhausted: ValueError: no coal\n"
    assert (late.code, late.out) == (1, "")
    assert "has not ended yet: it is " in late.err
    assert (late_json.code, list(late_json.json), late_json.json["result"]) == (1, list(done.json), None)
    assert f"The job {late_json.json['id']} has not ended yet: it is {late_json.json['state']}." in late_json.err


async def test_ctrl_c_while_waiting_ends_the_waiting_and_names_the_job(folder: Shell):
    waiting = folder.start("enqueue", "-A", "shop", "add", "a=1", "b=2", "--wait")
    job = ""
    while not job:
        assert waiting.process.poll() is None, waiting.text
        listed = await folder.run("jobs", "ls", "--json", "-A", "shop")
        job = listed.json[0]["id"] if listed.json else ""

    waiting.signal(signal.SIGINT)

    assert await waiting.ended() == 128 + signal.SIGINT
    assert waiting.text == f"The job {job} is stored and goes on.\n"


async def test_values_are_read_as_json_or_text(folder: Shell, tmp_path: Path):
    arguments = ("n=5", "word=Ann", 'text="5"', "list=[1]", "empty=", "eq=a=b", "none=null")
    cases = [
        ("any", *arguments),
        ("greet", "name=5", "times=2", "-A", "shop"),
        ("greet", '{"name": "x"}', "-A", "shop"),
    ]
    url = f"sqlite:///{tmp_path}/packhorse.db"

    answers = await forks.run(
        [(folder, ("enqueue", *case, "--json", *(() if "-A" in case else ("--url", url)))) for case in cases]
    )

    async with App(url) as app:
        data = [(await app.job(answer.json["id"]).info()).data for answer in answers]
    assert data == [
        {"n": 5, "word": "Ann", "text": "5", "list": [1], "empty": "", "eq": "a=b", "none": None},
        {"name": "5", "times": 2},
        {"name": "x"},
    ]
    assert [answer.json["queue"] for answer in answers] == ["default", "letters", "letters"]


async def test_what_is_wrong_is_printed(folder: Shell):
    cases = {
        ("add", "a=1"): "add() does not take these arguments: missing a required argument: 'b'",
        ("add", "a=1", "b=x"): "add() does not take these arguments: Expected `int`, got `str` - at `$.b`",
        ("ad",): "The app has no task 'ad': did you mean 'add'?",
        ("add", "a"): "'a' is not understood: write name=value, or one JSON object for all arguments.",
        ("add", '{"a":'): "The arguments are not a JSON object: ",
        ("add", "a=1", "b=2", "--at", "soon"): "Invalid value for '--at': 'soon' is not a moment: use 15m, 2h,",
        ("add", "a=1", "b=2", "--delay", "soon"): "Invalid value for '--delay': 'soon' is not a duration: use 90s, 5m,",
        ("add", "a=1", "b=2", "--delay", "1s", "--at", "1m"): "give delay= or at=, not both",
        ("add", "a=1", "b=2", "--header", "x"): "Invalid value for '--header': 'x' is not of the form name=value.",
        ("add", "a=1", "b=2", "--priority", "-1"): "priority -1 is refused: give a whole number from 0 to 8191",
    }

    answers = await forks.run([(folder, ("enqueue", "-A", "shop", *case)) for case in cases])

    for words, answer in zip(cases.values(), answers, strict=True):
        assert (answer.code, answer.out) == (2, ""), words
        assert words in answer.err
        assert "Traceback" not in answer.err


async def test_a_repeated_unique_job_is_the_first(folder: Shell):
    first, second = await forks.run([(folder, ("enqueue", "-A", "shop", "add", "a=1", "b=2", "--unique", "1h"))] * 2)

    assert second.out.split()[0] == first.out.split()[0]
    assert second.out.endswith("ready (already stored)\n")
