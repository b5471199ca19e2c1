"""``packhorse enqueue``: store a job from a shell."""

import asyncio
import difflib
import inspect
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import click
import msgspec

from packhorse.app import App
from packhorse.cli import exits
from packhorse.cli.frame import Command, Trouble
from packhorse.cli.screen import Screen, with_screen
from packhorse.cli.target import Target, with_target
from packhorse.cli.values import Length, Moment, Pair, reading
from packhorse.errors import JobCancelled, JobFailed
from packhorse.jobs import sending
from packhorse.jobs.call import Call
from packhorse.jobs.task import Task

HELP = f"""Store a job for TASK, with its arguments as one JSON object or as name=value.

A value is JSON if it reads as JSON, else text: amount=5, name=Ann, tags='["a", "b"]', code='"007"'. An app that is
named, or found in this folder, checks them; with --url alone the job is stored unchecked, for workers that know it.

\b
  packhorse enqueue add a=1 b=2 --wait
  packhorse enqueue email:welcome '{{"user_id": "u-1"}}' --queue email --delay 1h

{exits.TABLE}"""

_TEXT: tuple[object, ...] = (str, "str", str | None, "str | None")


@click.command("enqueue", cls=Command, help=HELP, short_help="Store a job.")
@click.argument("task")
@click.argument("arguments", nargs=-1)
@with_target
@click.option("-q", "--queue", help="The queue; without it that of the task, or `default`.")
@click.option("--delay", type=Length(), help="Run it after this time, not sooner: 90s, 1h30m.")
@click.option("--at", type=Moment(), help="Run it at this moment, not sooner: 2026-01-31T12:00Z.")
@click.option("--priority", type=int, help="0 to 8191; lower runs sooner.")
@click.option("--id", help="An id of your own choice; a second job with it is not stored, but the first one told.")
@click.option("--key", help="The key of its lane; jobs of one key run one after the other.")
@click.option("--tenant", help="The tenant it is for.")
@click.option("--user", help="The user who asks for it.")
@click.option("--unique", type=Length(), help="Store only one job with these arguments within this time.")
@click.option("--attempts", type=int, help="How often it is tried in all.")
@click.option(
    "--header", "headers", type=Pair(), multiple=True, help="A header to travel with it; may be given several times."
)
@click.option("--wait", is_flag=True, help="Wait for its end and print the result; exit code 1 if it died.")
@click.option("--timeout", type=Length(), help="With --wait, wait no longer than this; the job itself goes on.")
@with_screen
async def enqueue(
    task: str,
    arguments: tuple[str, ...],
    target: Target,
    screen: Screen,
    wait: bool,
    timeout: timedelta | None,
    **said: Any,
) -> None:
    """Store a job, and wait for its end if asked to."""
    if timeout is not None and not wait:
        raise click.UsageError("--timeout is for --wait: say --wait too.")
    said = {name: value for name, value in said.items() if value not in (None, ())}
    if "headers" in said:
        said["headers"] = dict(said["headers"])
    async with target.open_with_tasks() as app:
        handle = await sending.enqueue(_call(app, task, arguments, said))
        info = await handle.info()
        told: dict[str, Any] = {"id": handle.id, "task": info.task, "queue": info.queue, "created": handle.created}
        if not wait:
            words = f"{handle.id} {info.task} in {info.queue}: {info.status}"
            there = "" if handle.created else " (it was there already)"
            screen.show({**told, "status": info.status}, lambda: words + there)
            return
        try:
            result = await app.job(handle.id).result(timeout)
        except (JobFailed, JobCancelled) as error:
            if screen.json:
                how = {"status": "dead" if isinstance(error, JobFailed) else "cancelled", "result": None}
                screen.show({**told, **how, "error": getattr(error, "error", None)}, str)
            raise
        except TimeoutError:
            status = await handle.status()
            if screen.json:
                screen.show({**told, "status": status, "result": None, "error": None}, str)
            raise Trouble(f"The job {handle.id} has not ended yet: it is {status}. It goes on.") from None
        except asyncio.CancelledError:  # Ctrl-C
            click.echo(f"The job {handle.id} is stored and goes on.", err=True)
            raise
        screen.show({**told, "status": "done", "result": result, "error": None}, lambda: _json(result))


def _call(app: App, name: str, arguments: tuple[str, ...], said: dict[str, Any]) -> Call[Any]:
    task = app.registry.task(name)
    if task is not None:
        return task.using(**said).call(**_given(arguments, task))
    queue = said.pop("queue", "default")
    known = app.registry.names
    if known and app.registry.find(name, queue) is None:  # an app that only knows an address knows no names
        near = difflib.get_close_matches(name, known, 1)
        advice = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(sorted(known)[:5])}."
        raise Trouble(
            f"The app has no task {name!r}: {advice} For the task of another app, say --url alone.", exits.USAGE
        )
    return app.queue(queue).call(name, _given(arguments, None), **said)


def _given(arguments: tuple[str, ...], task: Task[..., Any] | None) -> Mapping[str, Any]:
    if len(arguments) == 1 and arguments[0].lstrip().startswith("{"):
        try:
            given = msgspec.json.decode(arguments[0], type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise click.UsageError(f"The arguments are no JSON object: {error}.") from error
        return given
    kinds = {} if task is None else inspect.get_annotations(task.function)
    named: dict[str, Any] = {}
    for argument in arguments:
        name, equals, text = argument.partition("=")
        if not equals or not name:
            raise click.UsageError(f"{argument!r} is not understood: say name=value, or one JSON object for all.")
        named[name] = text if kinds.get(name) in _TEXT else reading(text)
    return named


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
