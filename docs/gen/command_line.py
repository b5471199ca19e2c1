"""The reference of the command line, from the commands' own words."""

from collections.abc import Iterator

import click

from packhorse.cli.commands import packhorse


def sections() -> str:
    """A section for every command."""
    return "\n".join(section(names, command) for names, command in commands())


def commands() -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command with its names, groups before what is in them."""
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
    """One command: how it is called, what it does, its options."""
    context = _context(names, command)
    usage = command.get_usage(context).removeprefix("Usage: ")
    lines = [f"## {' '.join(names)}", "", "```text", usage, "```", "", *_words(command), ""]
    if rows := [row for parameter in command.get_params(context) if (row := _row(parameter, context))]:
        lines += ["| option | | variable |", "|---|---|---|", *rows, ""]
    return "\n".join(lines)


def _context(names: tuple[str, ...], command: click.Command) -> click.Context:
    """A context as the command would have it, so that variables and usage are told right."""
    context = click.Context(packhorse, info_name=names[0], auto_envvar_prefix="PACKHORSE")
    here: click.Command = packhorse
    for name in names[1:]:
        assert isinstance(here, click.Group)
        found = here.get_command(context, name)
        assert found is not None
        here, context = found, click.Context(found, parent=context, info_name=name)
    assert here is command or len(names) == 1
    return context


def _words(command: click.Command) -> list[str]:
    text = (command.help or command.short_help or "").split("\f")[0]
    return [line.strip() for line in text.replace("\b\n", "").splitlines()]


def _row(parameter: click.Parameter, context: click.Context) -> str | None:
    if not isinstance(parameter, click.Option) or parameter.hidden or parameter.name == "help":
        return None
    record = parameter.get_help_record(context)
    if record is None:
        return None
    form, words = (cell.replace("|", r"\|") for cell in record)
    variable = _variable(parameter, context)
    return f"| `{form}` | {words} | {f'`{variable}`' if variable else ''} |"


def _variable(option: click.Option, context: click.Context) -> str:
    """The variable that gives an option its value."""
    if option.envvar:
        return option.envvar if isinstance(option.envvar, str) else " ".join(option.envvar)
    if not option.allow_from_autoenv or option.is_eager or not option.expose_value:
        return ""
    return f"{context.auto_envvar_prefix}_{(option.name or '').upper()}"
