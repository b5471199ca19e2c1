"""What all commands share: async bodies run, errors become a message and an exit code, help names variables."""

import asyncio
import inspect
import signal
from typing import Any

import click

from packhorse.cli import exits
from packhorse.errors import JobError, PackhorseError, SchemaMismatch, StoreError, StoreUnavailable, WorkerStuck
from packhorse.model.printable import printable
from packhorse.stores.kinds import kind_of
from packhorse.stores.url import shown
from packhorse.telemetry.logs import redacted

ADDRESS = "packhorse.address"  # in ctx.meta: the store that the running command uses


class Trouble(click.ClickException):
    """A message for people and an exit code."""

    def __init__(self, message: str, code: int = exits.FAILED) -> None:
        super().__init__(message)
        self.exit_code = code  # type: ignore[misc]  # click reads it from the instance

    def format_message(self) -> str:
        """The message, which may hold the text of a job."""
        return printable(self.message, keep="\n")


class _Listed(click.Command):
    """A command whose first sentence is shown whole in the list of its group."""

    def get_short_help_str(self, limit: int = 45) -> str:  # noqa: ARG002 - the list breaks lines
        """The first sentence."""
        return super().get_short_help_str(limit=1000)


class Command(_Listed):
    """A command whose body may be a coroutine function, and that ends with a sentence instead of a traceback."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for option in self.params:
            if isinstance(option, click.Option):
                option.show_envvar = True

    def invoke(self, ctx: click.Context) -> Any:
        """Run the body to its end."""
        try:
            answer = super().invoke(ctx)
            if inspect.iscoroutine(answer):
                with asyncio.Runner() as runner:
                    answer = runner.run(answer)
            return answer
        except PackhorseError as error:
            raise trouble(error, ctx.meta.get(ADDRESS)) from error
        except KeyboardInterrupt:
            ctx.exit(exits.STOPPED + signal.SIGINT)


class Group(click.Group, _Listed):
    """A group of such commands."""

    command_class = Command
    group_class = type


def trouble(error: PackhorseError, address: str | None) -> Trouble:
    """What an error means to somebody at a terminal; ``address`` is that of the store in use."""
    where = shown(address) if address else "its address"
    if isinstance(error, StoreUnavailable):
        kind = kind_of(address or "")
        check = kind.check if kind else "does it run, and is the address right?"
        return Trouble(f"The store at {where} cannot be used: {redacted(str(error))}\nCheck: {check}", exits.STORE)
    if isinstance(error, SchemaMismatch):
        return Trouble(f"The store at {where}: {error}", exits.STORE)
    if isinstance(error, StoreError):
        return Trouble(f"The store at {where}: {redacted(str(error))}", exits.STORE)
    if isinstance(error, JobError | WorkerStuck):
        return Trouble(str(error), exits.FAILED)
    return Trouble(str(error), exits.USAGE)
