"""What chooses the app, the store and a worker's settings can be set in the environment; nothing else can."""

import re
import sys
from collections.abc import Callable
from typing import Any

import click
import pytest

from packhorse.cli.command import Command
from packhorse.cli.main import main
from packhorse.cli.values import Length, Moment, Numbers, Pair
from tests.cli import forks
from tests.cli.shell import Shell
from tests.cli.test_help import PATHS, found, options

VALUES = {Length: "7m", Moment: "7m", Numbers: "name:7", Pair: "name=7"}
TARGET = {"app", "url", "namespace"}
WORKER = {
    "queues", "concurrency", "queue_concurrency", "lease", "grace", "name", "processes", "loop", "log_level", "log_format", "live",
}  # fmt: skip
CHOSEN = [path for path in PATHS if any(option.envvar for option in options(path))]
Call = Callable[[tuple[str, ...]], dict[str, Any]]


def given(option: click.Option, usual: Any) -> str:
    """A value that is not the usual one."""
    if option.is_flag:
        return "false" if usual else "true"
    if isinstance(option.type, click.Choice):
        return next(choice for choice in option.type.choices if choice != usual)
    return VALUES.get(type(option.type), "7")


class Begun(Exception):
    """What a command was called with."""

    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__()
        self.values = values


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> Call:
    """Calls the command line up to where a command begins; answers the values of its options."""

    def begin(self: Command, ctx: click.Context) -> None:
        raise Begun(ctx.params)

    def run(path: tuple[str, ...]) -> dict[str, Any]:
        needed = [each for each in found(path).params if isinstance(each, click.Argument) and each.required]
        monkeypatch.setattr(sys, "argv", ["packhorse", *path, *(VALUES.get(type(each.type), "7") for each in needed)])
        with pytest.raises(Begun) as begun:
            main()
        return begun.value.values

    monkeypatch.setattr(Command, "invoke", begin)
    return run


def variables(path: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Those that the help of a command names, in the order of its options."""
    monkeypatch.setattr(sys, "argv", ["packhorse", *path, "--help"])
    with pytest.raises(SystemExit):
        main()
    return re.findall(r"env\s+var:\s+(PACKHORSE_\w+)", capsys.readouterr().out)


@pytest.mark.parametrize("path", CHOSEN, ids=" ".join)
def test_what_a_variable_says_reaches_the_command(
    path: tuple[str, ...], call: Call, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    usual, chosen = call(path), [option for option in options(path) if option.envvar]

    assert {str(option.name) for option in chosen} == (TARGET | WORKER if path == ("worker",) else TARGET)
    for option, variable in zip(chosen, variables(path, capsys, monkeypatch), strict=True):
        before = usual[str(option.name)]
        with monkeypatch.context() as environment:
            environment.setenv(variable, given(option, before))
            assert call(path)[str(option.name)] not in (before, None), variable


async def test_what_is_wrong_in_a_variable_is_refused_as_if_it_was_typed(folder: Shell):
    wrong = {"PACKHORSE_CONCURRENCY": "many", "PACKHORSE_LEASE": "soon", "PACKHORSE_LOOP": "round"}
    cases = [(Shell(folder.folder, **{variable: value}), ("worker",)) for variable, value in wrong.items()]

    for variable, answer in zip(wrong, await forks.run(cases), strict=True):
        assert answer.code == 2, variable
        assert re.search(f"Invalid value for .*'--{variable.rpartition('_')[2].lower()}'", answer.err)


async def test_no_variable_stands_for_an_answer_or_a_filter(folder: Shell):
    await folder.enqueue("add", a=1, b=2)
    variables = {"PACKHORSE_QUEUES_PURGE_YES": "1", "PACKHORSE_DEAD_DROP_ALL": "1", "PACKHORSE_WORKER_CHECK": "1"}
    changed = Shell(folder.folder, **variables, PACKHORSE_APP="shop")

    purged, dropped = await forks.run([(changed, ("queues", "purge", "default")), (changed, ("dead", "drop"))])

    assert (purged.code, purged.err) == (2, "Error: 1 job will be removed. Use --yes to go on without being asked.\n")
    assert (dropped.code, "Name the jobs to be dropped" in dropped.err) == (2, True)
