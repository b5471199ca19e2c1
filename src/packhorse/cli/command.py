"""Base classes of all commands: run coroutines, turn errors into a message and an exit code."""

import asyncio
import inspect
import signal
from typing import Any

import click

from packhorse.audit.actor import acting
from packhorse.audit.entry import Via
from packhorse.cli import exit_codes
from packhorse.errors import JobError, PackhorseError, SchemaMismatch, StoreError, StoreUnavailable, WorkerStuck
from packhorse.model.printable import printable
from packhorse.stores.kinds import kind_of
from packhorse.stores.url import shown
from packhorse.telemetry.redact import redacted

ADDRESS = "packhorse.address"  # key in ctx.meta: address of the store that the command uses


class CliError(click.ClickException):
    """An error with a message for people and an exit code."""

    def __init__(self, message: str, code: int = exit_codes.FAILED) -> None:
        super().__init__(message)
        self.exit_code = code  # type: ignore[misc]  # click reads it from the instance

    def format_message(self) -> str:
        """Return the message without terminal escapes: it may contain text of a job."""
        return printable(self.message, keep="\n")


class _Listed(click.Command):
    """A command whose first sentence is not shortened in the list of its group."""

    def get_short_help_str(self, limit: int = 45) -> str:  # noqa: ARG002 - the list breaks lines
        """Return the first sentence of the help text."""
        return super().get_short_help_str(limit=1000)


class Command(_Listed):
    """A command whose body may be a coroutine; a Packhorse error ends it with a message, not a traceback."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for option in self.params:
            if isinstance(option, click.Option):
                option.show_envvar = True

    def invoke(self, ctx: click.Context) -> Any:
        """Run the body; await it if it is a coroutine."""
        try:
            answer = super().invoke(ctx)
            if inspect.iscoroutine(answer):
                with acting(via=Via.CLI), asyncio.Runner() as runner:
                    answer = runner.run(answer)
            return answer
        except PackhorseError as error:
            raise cli_error(error, ctx.meta.get(ADDRESS)) from error
        except KeyboardInterrupt:
            ctx.exit(exit_codes.STOPPED + signal.SIGINT)


class CommandGroup(click.Group, _Listed):
    """A group whose commands are of the class ``Command``."""

    command_class = Command
    group_class = type


def cli_error(error: PackhorseError, address: str | None) -> CliError:
    """Return the message and exit code for an error; ``address`` is that of the store in use."""
    where = shown(address) if address else "its address"
    if isinstance(error, StoreUnavailable):
        kind = kind_of(address or "")
        check = kind.check if kind else "does it run, and is the address right?"
        return CliError(
            f"The store at {where} cannot be used: {redacted(str(error))}\nCheck: {check}", exit_codes.STORE
        )
    if isinstance(error, SchemaMismatch):
        return CliError(f"The store at {where}: {error}", exit_codes.STORE)
    if isinstance(error, StoreError):
        return CliError(f"The store at {where}: {redacted(str(error))}", exit_codes.STORE)
    if isinstance(error, JobError | WorkerStuck):
        return CliError(str(error), exit_codes.FAILED)
    return CliError(str(error), exit_codes.USAGE)
