"""`packhorse jobs tail`: what happens to jobs, as it happens."""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime

import click

from packhorse.cli.frame import Command
from packhorse.cli.screen import Screen, plain, with_screen
from packhorse.cli.target import Target, with_target
from packhorse.cli.values import Moment
from packhorse.errors import UndecodablePayload
from packhorse.jobs.view import moment
from packhorse.model import caps
from packhorse.model.clock import SYSTEM
from packhorse.model.event import LIFECYCLE, Change, Event, unpack
from packhorse.model.ids import JobId, id_text
from packhorse.model.job import Job
from packhorse.stores.contract import Store

PAGE = 100
PAUSE = 250_000  # microseconds
FURTHEST = 2**53 - 1

NAMES = {change.name.lower(): change for change in Change}


@click.command(cls=Command)
@click.option("-q", "--queue", help="Only of this queue.")
@click.option("-t", "--task", help="Only of this task.")
@click.option(
    "-e",
    "--event",
    "events",
    multiple=True,
    type=click.Choice(list(NAMES)),
    help="Only this kind of event; may be given several times.",
)
@click.option("--since", type=Moment(back=True), help="Begin with what has happened since: 15m, 2h, 2026-01-31T12:00Z.")
@click.option("--no-follow", is_flag=True, help="Tell what has happened so far, then end.")
@with_target
@with_screen
async def tail(
    queue: str | None,
    task: str | None,
    events: Sequence[str],
    since: datetime | None,
    *,
    no_follow: bool,
    target: Target,
    screen: Screen,
) -> None:
    """Follow what happens to jobs, until Ctrl-C. With --json each line is a JSON document."""
    wanted = {NAMES[event] for event in events} or set(Change)
    async with target.open() as app:
        store = await app.store()
        async for event in _events(store, since, follow=not no_follow):
            try:
                changes = [(change, job) for change, job in unpack(event.data) if change in wanted]
            except UndecodablePayload as error:
                screen.line(
                    {"offset": event.offset, "error": str(error)}, f"Entry {event.offset} was passed over: {error}"
                )
                continue
            known = await _known(store, [job for _, job in changes])
            for change, job in changes:
                found = known.get(job)
                name, line = (found.task, found.queue) if found else (None, None)
                if queue in (None, line) and task in (None, name):
                    _tell(screen, event, change, id_text(job), name, line)


def _tell(screen: Screen, event: Event, change: Change, job: str, task: str | None, queue: str | None) -> None:
    word, at = change.name.lower(), moment(event.at)
    told = {"at": at, "event": word, "id": job, "task": task, "queue": queue, "offset": event.offset}
    screen.line(told, f"{plain(at)}  {word:<9}  {job}  {plain(task)}  {plain(queue)}")


async def _events(store: Store, since: datetime | None, *, follow: bool) -> AsyncIterator[Event]:
    after = await _start(store, None if since is None else round(since.timestamp() * 1_000_000))
    while True:
        page = await store.streams.read(LIFECYCLE, after=after, limit=PAGE)
        for event in page:
            yield event
            after = event.offset
        if not page:
            if not follow:
                return
            await SYSTEM.sleep(PAUSE)


async def _start(store: Store, since: int | None) -> int:
    """The offset behind which the events since a moment stand, or without one those to come: found by halving."""
    low, high = 0, FURTHEST
    while low < high:
        middle = (low + high) // 2
        page = await store.streams.read(LIFECYCLE, after=middle, limit=1)
        if not page or (since is not None and page[0].at >= since):
            high = middle
        else:
            low = page[0].offset
    return low


async def _known(store: Store, ids: Sequence[JobId]) -> dict[JobId, Job]:
    found: dict[JobId, Job] = {}
    for start in range(0, len(ids), caps.ITEMS):
        found |= {job.id: job for job in await store.jobs.get(ids[start : start + caps.ITEMS]) if job is not None}
    return found
