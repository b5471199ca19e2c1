"""The root command `packhorse`. Each command is imported only when it is called, to start fast."""

import difflib
from importlib import import_module
from typing import Any

import click

DEMO = "packhorse_demo.command"  # a package of its own: only the command `demo` imports it
# The module of each command. The command has the same name in it.
COMMANDS: dict[str, str] = {
    "demo": DEMO,
    "worker": "packhorse.cli.commands.worker",
    "enqueue": "packhorse.cli.commands.enqueue",
    "jobs": "packhorse.cli.commands.jobs",
    "events": "packhorse.cli.commands.events",
    "queues": "packhorse.cli.commands.queues",
    "dead": "packhorse.cli.commands.dead",
    "schedules": "packhorse.cli.commands.schedules",
    "workers": "packhorse.cli.commands.workers",
    "alerts": "packhorse.cli.commands.alerts",
    "audit": "packhorse.cli.commands.audit",
    "migrate": "packhorse.cli.commands.migrate",
    "doctor": "packhorse.cli.commands.doctor",
    "completion": "packhorse.cli.commands.completion",
}
COMMAND_OPTIONS = ("-A", "--app", "--url", "--namespace")  # other programs take such options before the command


class LazyGroup(click.Group):
    """A group that imports each command when it is first used."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse an option that belongs to a command, and show where to write it."""
        option, equals, _ = (args[0] if args else "").partition("=")
        if option in COMMAND_OPTIONS:
            rest = args[1:] if equals else args[2:]
            words = " ".join([word for word in rest if not word.startswith("-")][:2]) or "COMMAND"
            value = args[1] if option in ("-A", "--app") and len(args) > 1 and not equals else "…"
            ctx.fail(f"Write the option {option} after the command: packhorse {words} {option} {value}")
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of the first word; for an unknown one, suggest the nearest name."""
        if args[0] not in COMMANDS and not args[0].startswith("-") and not ctx.resilient_parsing:
            near = difflib.get_close_matches(args[0], COMMANDS, 1)
            ctx.fail(f"No such command {args[0]!r}.{f' Did you mean {near[0]!r}?' if near else ''}")
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import and return a command; None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        command: Any = getattr(import_module(COMMANDS[cmd_name]), cmd_name)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="packhorse")
def packhorse() -> None:
    """Run background jobs, inspect them and repair what went wrong."""
