"""`packhorse enqueue`: store a job from a terminal."""

import asyncio
import difflib
import inspect
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import click
import msgspec

from packhorse.app import App
from packhorse.cli import exit_codes
from packhorse.cli.command import CliError, Command
from packhorse.cli.screen import Screen, with_screen
from packhorse.cli.target import CliTarget, with_target
from packhorse.cli.values import Length, Moment, Pair, parse_value
from packhorse.errors import JobCancelled, JobFailed
from packhorse.jobs.call import Call
from packhorse.jobs.task import Task

HELP = f"""Store a job for TASK, with its arguments as one JSON object or as name=value.

A value is JSON if it parses as JSON, else text: amount=5, name=Ann, tags='["a", "b"]', code='"007"'. The app, named or
found in this folder, checks the arguments. With --url alone the job is stored unchecked.

\b
  packhorse enqueue add a=1 b=2 --wait
  packhorse enqueue email:welcome '{{"user_id": "u-1"}}' --queue email --delay 1h

{exit_codes.TABLE}"""

_TEXT: tuple[object, ...] = (str, "str", str | None, "str | None")


@click.command("enqueue", cls=Command, help=HELP, short_help="Store a job.")
@click.argument("task")
@click.argument("arguments", nargs=-1)
@with_target
@click.option("-q", "--queue", help="The queue; without it the queue of the task, or `default`.")
@click.option("--delay", type=Length(), help="Run it after this time at the earliest: 90s, 1h30m.")
@click.option("--at", type=Moment(), help="Run it at this moment at the earliest: 2026-01-31T12:00Z.")
@click.option("--priority", type=int, help="0 to 8191; lower numbers run first.")
@click.option("--id", help="An id that you choose. If a job with it exists, nothing is stored and that job is printed.")
@click.option("--key", help="The key of its lane; jobs with the same key run one after the other.")
@click.option("--tenant", help="The tenant the job belongs to.")
@click.option("--user", help="The user who requested the job.")
@click.option("--unique", type=Length(), help="Store at most one job with these arguments within this time.")
@click.option("--attempts", type=int, help="The most attempts, including the first.")
@click.option(
    "--header", "headers", type=Pair(), multiple=True, help="A header as name=value; may be given several times."
)
@click.option("--wait", is_flag=True, help="Wait until the job ends and print its result; exit code 1 if it died.")
@click.option("--timeout", type=Length(), help="With --wait, stop waiting after this time; the job goes on.")
@with_screen
async def enqueue(
    task: str,
    arguments: tuple[str, ...],
    target: CliTarget,
    screen: Screen,
    wait: bool,
    timeout: timedelta | None,
    **options: Any,
) -> None:
    """Store a job, and with ``wait`` wait for its end."""
    if timeout is not None and not wait:
        raise click.UsageError("--timeout needs --wait.")
    given = {name: value for name, value in options.items() if value not in (None, ())}
    if "headers" in given:
        given["headers"] = dict(given["headers"])
    async with target.open_with_tasks() as app:
        handle = await app.client.enqueue(_call(app, task, arguments, given))
        info = await handle.info()
        about: dict[str, Any] = {"id": handle.id, "task": info.task, "queue": info.queue, "created": handle.created}
        if not wait:
            line = f"{handle.id} {info.task} in {info.queue}: {info.state}"
            existed = "" if handle.created else " (already stored)"
            screen.show({**about, "state": info.state}, lambda: line + existed)
            return
        try:
            result = await app.job(handle.id).result(timeout)
        except (JobFailed, JobCancelled) as error:
            if screen.json:
                how = {"state": "dead" if isinstance(error, JobFailed) else "cancelled", "result": None}
                screen.show({**about, **how, "error": getattr(error, "error", None)}, str)
            raise
        except TimeoutError:
            state = await handle.state()
            if screen.json:
                screen.show({**about, "state": state, "result": None, "error": None}, str)
            raise CliError(f"The job {handle.id} has not ended yet: it is {state}. It goes on.") from None
        except asyncio.CancelledError:  # Ctrl-C
            click.echo(f"The job {handle.id} is stored and goes on.", err=True)
            raise
        screen.show({**about, "state": "done", "result": result, "error": None}, lambda: _json(result))


def _call(app: App, name: str, arguments: tuple[str, ...], options: dict[str, Any]) -> Call[Any]:
    task = app.registry.task(name)
    if task is not None:
        return task.using(**options).call(**_parsed(arguments, task))
    queue = options.pop("queue", "default")
    known = app.registry.names
    if known and app.registry.find(name, queue) is None:  # an app made from an address alone has no tasks
        near = difflib.get_close_matches(name, known, 1)
        advice = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(sorted(known)[:5])}."
        raise CliError(
            f"The app has no task {name!r}: {advice} For a task of another app, use --url alone.", exit_codes.USAGE
        )
    return app.queue(queue).call(name, _parsed(arguments, None), **options)


def _parsed(arguments: tuple[str, ...], task: Task[..., Any] | None) -> Mapping[str, Any]:
    if len(arguments) == 1 and arguments[0].lstrip().startswith("{"):
        try:
            return msgspec.json.decode(arguments[0], type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise click.UsageError(f"The arguments are not a JSON object: {error}.") from error
    kinds = {} if task is None else inspect.get_annotations(task.function)
    named: dict[str, Any] = {}
    for argument in arguments:
        name, equals, text = argument.partition("=")
        if not equals or not name:
            raise click.UsageError(
                f"{argument!r} is not understood: write name=value, or one JSON object for all arguments."
            )
        named[name] = text if kinds.get(name) in _TEXT else parse_value(text)
    return named


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
