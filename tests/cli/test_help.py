"""Help, completion and the top of the command line: for every command there is."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from packhorse.cli.root import packhorse
from tests.cli import forks
from tests.cli.shell import Shell


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of every command and group."""
    ctx = click.Context(group)
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None
        yield (*path, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


def found(path: tuple[str, ...]) -> click.Command:
    command: click.Command | None = packhorse
    for name in path:
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), name)
    assert command is not None
    return command


def options(path: tuple[str, ...]) -> list[click.Option]:
    return [option for option in found(path).params if isinstance(option, click.Option)]


PATHS = list(commands(packhorse))


async def test_every_command_has_help(folder: Shell):
    answers = await forks.run([(folder, (*path, "--help")) for path in PATHS])

    for path, answer in zip(PATHS, answers, strict=True):
        assert (answer.code, answer.err) == (0, ""), path
        assert answer.out.startswith(f"Usage: packhorse {' '.join(path)} ")
        assert answer.out.split("\n\n")[1].strip(), f"{path} says nothing of itself"


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_every_option_is_explained(path: tuple[str, ...]):
    assert [option.name for option in options(path) if not option.help] == []


async def test_the_command_and_the_module_are_the_same(folder: Shell):
    import asyncio

    script = Path(sys.executable).with_name("packhorse")
    process = await asyncio.create_subprocess_exec(
        script, "--help", env=folder.environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()

    assert out.decode() == (await folder.run("--help")).out
    assert all(f"\n  {path[0]} " in out.decode() for path in PATHS if len(path) == 1)


async def test_an_unknown_command_is_refused(folder: Shell):
    [answer] = await forks.run([(folder, ("brew",))])

    assert (answer.code, answer.out) == (2, "")
    assert "No such command 'brew'." in answer.err


async def test_a_shell_can_complete(folder: Shell):
    completing = Shell(folder.folder, _PACKHORSE_COMPLETE="bash_complete", COMP_WORDS="packhorse wor", COMP_CWORD="1")
    scripts = [(folder, ("completion", name)) for name in ("bash", "zsh", "fish")]

    *printed, completed = await forks.run([*scripts, (completing, ())])

    assert all("_PACKHORSE_COMPLETE" in answer.out for answer in printed)
    assert [answer.out.split("\n")[0].partition("# in ")[2] for answer in printed] == [
        "~/.bashrc",
        "~/.zshrc",
        "~/.config/fish/config.fish",
    ]
    assert "plain,worker" in completed.out.splitlines()


WITHOUT = (
    "import sys; sys.modules[{!r}] = None; from packhorse.cli.main import main; main()"  # None: not to be imported
)


@pytest.mark.parametrize("module", ["click", "rich"])
def test_without_the_extra_it_is_printed_how_to_get_it(module: str):
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(module)], capture_output=True, text=True, check=False, timeout=30
    )

    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == "The command line needs click and rich: pip install 'packhorse[cli]'\n"
