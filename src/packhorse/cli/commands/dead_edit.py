"""`packhorse dead replay --edit`: replay a dead job with other arguments."""

from typing import Any

import click
import msgspec

from packhorse.app import App
from packhorse.cli.command import CliError
from packhorse.cli.screen import Screen
from packhorse.dead_letters.edited import EditedReplay


def given_arguments(text: str) -> dict[str, Any]:
    """Read arguments as a person has written them."""
    try:
        found = msgspec.json.decode(text.encode())
    except msgspec.DecodeError as error:
        raise CliError(f"The arguments are no JSON: {error}") from error
    if not isinstance(found, dict):
        raise CliError('The arguments are no JSON object: write {"name": value, …}.')
    return found


async def replay_edited(app: App, job: str, arguments: str | None, screen: Screen, *, yes: bool, dry_run: bool) -> None:
    """Replay a job with these arguments, or those that a person leaves in the editor; say first what would be done."""
    changed = given_arguments(arguments if arguments is not None else await _edited(app, job))
    plan = await app.dead.replay(job, arguments=changed, dry_run=True)
    if plan.refused:
        raise CliError(plan.refused)
    if dry_run:
        _show(plan, screen)
        return
    call = msgspec.json.encode(plan.arguments).decode()
    screen.confirm(
        f"{plan.task} will run in the queue {plan.queue} with {call}, and {plan.replaces} is dropped", yes=yes
    )
    _show(await app.dead.replay(job, arguments=changed), screen)


async def _edited(app: App, job: str) -> str:
    letter = await app.dead.get(job)
    before = msgspec.json.format(msgspec.json.encode(letter.arguments), indent=2).decode()
    after = click.edit(before, extension=".json")
    if after is None:  # the file was not saved
        raise CliError("Nothing was changed.")
    return after


def _show(made: EditedReplay, screen: Screen) -> None:
    verb = "replaced by" if made.done else "would be replaced by"
    screen.show(msgspec.structs.asdict(made), lambda: f"{made.replaces} {verb} {made.job_id}.")
