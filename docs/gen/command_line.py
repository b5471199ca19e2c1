"""Generate the reference of the command line from the help texts of the commands."""

import inspect
import re
import textwrap
from collections.abc import Iterator

import click

from packhorse.cli.root import packhorse

VARIABLE = re.compile(r"env var: ([A-Z0-9_]+)")


def sections() -> str:
    """Return a section for every command."""
    return "\n".join(section(names, command) for names, command in commands())


def commands() -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield every command with its names, groups before their commands."""
    yield from _below((), packhorse)


def _below(above: tuple[str, ...], command: click.Command) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    names = (*above, command.name or "")
    yield names, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=command.name)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                yield from _below(names, below)


def section(names: tuple[str, ...], command: click.Command) -> str:
    """Describe one command: usage, help text, options."""
    context = _context(names, command)
    usage = command.get_usage(context).removeprefix("Usage: ")
    lines = [f"## {' '.join(names)}", "", "```text", usage, "```", "", *_words(command), ""]
    if rows := [row for parameter in command.get_params(context) if (row := _row(parameter, context))]:
        lines += ["| option | | variable |", "|---|---|---|", *rows, ""]
    return "\n".join(lines)


def _context(names: tuple[str, ...], command: click.Command) -> click.Context:
    """Make the context that the command would have, so that variables and usage are right."""
    context = click.Context(packhorse, info_name=names[0])
    here: click.Command = packhorse
    for name in names[1:]:
        assert isinstance(here, click.Group)
        found = here.get_command(context, name)
        assert found is not None
        here, context = found, click.Context(found, parent=context, info_name=name)
    assert here is command or len(names) == 1
    return context


def _words(command: click.Command) -> Iterator[str]:
    """Yield the help text of a command; preformatted parts as text blocks."""
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        lines = paragraph.replace("\f", "").split("\n")
        if lines[0].strip() == "\b":
            yield from ("```text", *textwrap.dedent("\n".join(lines[1:])).splitlines(), "```")
        else:
            yield from lines
        yield ""


def _row(parameter: click.Parameter, context: click.Context) -> str | None:
    """Format an option as a table row, with its variable in a column of its own."""
    if not isinstance(parameter, click.Option) or parameter.is_eager:
        return None
    record = parameter.get_help_record(context)
    if record is None:
        return None
    form, words = record
    variable = VARIABLE.search(words)
    rest = VARIABLE.sub("", words).replace("[; ", "[").replace("[]", "").strip()
    cells = (f"`{form}`", rest, f"`{variable[1]}`" if variable else "")
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"
