"""The commands by name. Each is imported when it is called, so that none pays for another."""

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


class Late(click.Group):
    """A group whose commands are imported when they are asked for."""

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
