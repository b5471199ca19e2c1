"""Mistakes that are easily made: each is answered with one sentence that says what to do."""

import click
import pytest

from packhorse.cli.root import packhorse
from tests.cli import forks
from tests.cli.shell import Shell
from tests.cli.test_help import PATHS, found

WIDTH = 80  # columns of a terminal

MISTAKES: dict[tuple[str, ...], tuple[int, str]] = {
    ("job", "ls"): (2, "No such command 'job'. Did you mean 'jobs'?"),
    ("purge", "default"): (2, "No such command 'purge'."),
    ("-A", "shop", "jobs", "ls"): (2, "Write the option -A after the command: packhorse jobs ls -A shop"),
    ("--url=sqlite:///x.db", "doctor"): (2, "Write the option --url after the command: packhorse doctor --url …"),
    ("enqueue", "-A", "shop", "ad", "a=1", "b=2"): (2, "The app has no task 'ad': did you mean 'add'?"),
    ("enqueue", "-A", "shop", "unheard-of"): (2, "The app has no task 'unheard-of': it has add, "),
    ("enqueue", "-A", "shop", "add", "a=1", "b=2", "--timeout", "5s"): (2, "--timeout needs --wait."),
    ("jobs", "replay", "-A", "shop", "nonsense"): (1, "There is no job 'nonsense'"),
    ("queues", "wait", "-A", "shop", "defualt"): (
        1,
        "There is no queue 'defualt': no job is in it; did you mean 'default'?",
    ),
    ("worker", "shop", "--lease", "1ms"): (2, "'1ms' is too short: use 0.1s or more."),
    ("worker", "shop:add"): (3, "shop:add is not an App, its type is AsyncTask: use shop:app"),
}


async def test_a_mistake_is_answered_with_what_to_do(folder: Shell):
    await folder.run("enqueue", "-A", "shop", "add", "a=1", "b=2")  # there is a store

    answers = await forks.run([(folder, mistake) for mistake in MISTAKES])

    for (mistake, (code, words)), answer in zip(MISTAKES.items(), answers, strict=True):
        assert words in answer.err, mistake
        assert (answer.code, answer.out) == (code, ""), mistake


@pytest.mark.parametrize("path", [(), *(path for path in PATHS if isinstance(found(path), click.Group))], ids=" ".join)
def test_no_list_of_commands_breaks_off_in_a_sentence(path: tuple[str, ...]):
    group = found(path) if path else packhorse
    formatter = click.HelpFormatter(width=WIDTH)
    group.format_help(click.Context(group, info_name="packhorse", terminal_width=WIDTH), formatter)

    assert "..." not in formatter.getvalue().partition("Commands:")[2]
