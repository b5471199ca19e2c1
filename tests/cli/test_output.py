"""What commands write: no terminal escape out of a job, in any encoding, and the truth about an output that fails."""

import json
import re
import subprocess
from pathlib import Path
from typing import IO

from packhorse import App
from packhorse.model.ids import id_text
from packhorse.model.job import failure
from packhorse.model.reason import DeadReason
from tests.cli import forks
from tests.cli.shell import COMMAND, PATIENCE, Ended, Shell
from tests.factories import Dead, Done, new, put_in, run

EVIL = "no user \x1b]0;title\x07\x1b[2J\x9b31mowned"
COMMANDS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
STORE = ("--url", "sqlite:///here.db")


def run_command(
    shell: Shell, *arguments: str, stdout: int | IO[bytes] | None = subprocess.PIPE, **variables: str
) -> Ended:
    """Run a command with some standard output; None closes it."""
    command = " ".join((*COMMAND, *arguments, *STORE)) + (" >&-" if stdout is None else "")
    ended = subprocess.run(
        ["sh", "-c", command], cwd=shell.folder, env={**shell.environment, **variables}, stdout=stdout,
        stderr=subprocess.PIPE, timeout=PATIENCE, check=False,
    )  # fmt: skip
    out = (ended.stdout or b"").decode(variables.get("PYTHONIOENCODING", "utf-8"))
    return Ended(ended.returncode, out, ended.stderr.decode())


async def test_no_command_prints_a_terminal_escape_out_of_a_job(folder: Shell):
    async with App(f"sqlite:///{folder.folder / 'here.db'}") as app:
        store = await app.store()
        value = json.dumps(EVIL, ensure_ascii=False).encode()
        [dead] = await put_in(store, new(headers=b'{"x":%b}' % value))
        await run(store, Dead(DeadReason.EXHAUSTED, failure("Broken\x1b[2J", EVIL, f"Traceback\n{EVIL}\n")))
        [done] = await put_in(store, new(payload=b'{"x":%b}' % value))
        await run(store, Done(value))
    ways = [("jobs", "ls"), ("dead", "ls"), ("dead", "groups"), ("alerts", "ls"), ("audit",), ("queues", "ls")]
    ways += [("jobs", "show", id_text(job)) for job in (dead, done)]
    ways += [("dead", "show", id_text(dead)), ("events", "tail", "--since", "1h", "--no-follow")]
    cases = [(folder, (*way, *more, *STORE)) for way in ways for more in ((), ("--json",))]

    for (_, arguments), ended in zip(cases, await forks.run(cases), strict=True):
        assert (ended.code, COMMANDS.search(ended.out + ended.err)) == (0, None), (arguments, ended)
    shown = await forks.run([(folder, ("jobs", "show", id_text(done), "--json", *STORE))])
    assert shown[0].json["result"] == EVIL


async def test_neither_a_worker_nor_one_who_waits_prints_a_terminal_escape(folder: Shell):
    worker = folder.start("worker", "shop")
    arguments = json.dumps({"why": EVIL})
    waited = await folder.run("enqueue", "fail", arguments, "--wait", "-A", "shop")

    assert (waited.code, COMMANDS.search(waited.err)) == (1, None), waited
    assert r"no user \x1b]0;title" in await worker.until("dead")
    assert COMMANDS.search(worker.text) is None


async def test_text_that_the_encoding_does_not_have_is_escaped(folder: Shell):
    first = run_command(folder, "enqueue", "send", "-q", "żółw", PYTHONIOENCODING="latin-1")
    listed = run_command(folder, "jobs", "ls", "--json", PYTHONIOENCODING="latin-1")

    assert (first.code, first.err, first.out.split(" in ")[1]) == (0, "", "\\u017có\\u0142w: ready\n")
    assert [job["queue"] for job in listed.json] == ["żółw"]


async def test_an_output_that_fails_hides_nothing_that_was_done(folder: Shell):
    with Path("/dev/full").open("wb") as full:
        ways = [run_command(folder, "enqueue", "send", *more, stdout=full) for more in ((), ("--json",))]
        looks = [run_command(folder, *look, stdout=full) for look in (("jobs", "ls"), ("migrate", "sql", "--all"))]
        looks.append(run_command(folder, "jobs", "ls", "--help", stdout=full))
    ways.append(run_command(folder, "enqueue", "send", stdout=None))

    for ended in ways + looks:
        assert (ended.code, "Traceback" in ended.err) == (5, False), ended
        assert ended.err.startswith("Error: Standard output cannot be written: "), ended
    async with App(f"sqlite:///{folder.folder / 'here.db'}") as app:
        stored = [job.id for job in (await app.find()).items]
    assert stored == [re.findall(r"[0-9a-f-]{36}", ended.err)[0] for ended in ways]
