"""The commands by name. Each is imported when it is called, so that none pays for another."""

import difflib
from importlib import import_module
from typing import Any

import click

# name: (module, attribute)
COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("demo.command", "demo"),
    "worker": ("worker", "worker"),
    "enqueue": ("enqueue", "enqueue"),
    "jobs": ("jobs", "jobs"),
    "queues": ("queues", "queues"),
    "dead": ("dead", "dead"),
    "schedules": ("schedules", "schedules"),
    "workers": ("workers", "workers"),
    "migrate": ("migrate", "migrate"),
    "doctor": ("doctor", "doctor"),
    "completion": ("completion", "completion"),
}


OF_COMMANDS = ("-A", "--app", "--url", "--namespace")  # options that other programs have before the command


class Late(click.Group):
    """A group whose commands are imported when they are asked for."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse options that belong to a command, and say where they stand."""
        option, equals, _ = (args[0] if args else "").partition("=")
        if option in OF_COMMANDS:
            rest = args[1:] if equals else args[2:]
            words = " ".join([word for word in rest if not word.startswith("-")][:2]) or "COMMAND"
            value = args[1] if option in ("-A", "--app") and len(args) > 1 and not equals else "…"
            ctx.fail(f"The option {option} stands after the command: packhorse {words} {option} {value}")
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command of the first word; one that is not there is answered with the nearest."""
        if args[0] not in COMMANDS and not args[0].startswith("-") and not ctx.resilient_parsing:
            near = difflib.get_close_matches(args[0], COMMANDS, 1)
            ctx.fail(f"No such command {args[0]!r}.{f' Did you mean {near[0]!r}?' if near else ''}")
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command of a name."""
        if cmd_name not in COMMANDS:
            return None
        module, attribute = COMMANDS[cmd_name]
        command: Any = getattr(import_module(f"packhorse.cli.{module}"), attribute)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=Late, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="packhorse")
def packhorse() -> None:
    """Work that must not happen in the request: run it, look at it, mend it."""
