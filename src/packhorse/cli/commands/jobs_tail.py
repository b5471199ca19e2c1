"""`packhorse jobs tail`: print the events of jobs as they happen."""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime

import click

from packhorse.cli.command import Command
from packhorse.cli.screen import Screen, plain, with_screen
from packhorse.cli.target import CliTarget, with_target
from packhorse.cli.values import Moment
from packhorse.errors import UndecodablePayload
from packhorse.model import limits
from packhorse.model.clock import SYSTEM, moment
from packhorse.model.event import LIFECYCLE, Change, Event, unpack
from packhorse.model.ids import JobId, id_text
from packhorse.model.job import StoredJob
from packhorse.stores.contract import Store

PAGE_SIZE = 100
PROBE_SIZE = 10  # entries read to find one with a valid time
POLL_EVERY_US = 250_000
MAX_OFFSET = 2**53 - 1

CHANGES = {change.name.lower(): change for change in Change}


@click.command(cls=Command)
@click.option("-q", "--queue", help="Only events of jobs in this queue.")
@click.option("-t", "--task", help="Only events of jobs of this task.")
@click.option(
    "-e",
    "--event",
    "events",
    multiple=True,
    type=click.Choice(list(CHANGES)),
    help="Only events of this kind; may be given several times.",
)
@click.option("--since", type=Moment(back=True), help="Start with the events since then: 15m, 2h, 2026-01-31T12:00Z.")
@click.option("--no-follow", is_flag=True, help="Print the events so far, then end.")
@with_target
@with_screen
async def tail(
    queue: str | None,
    task: str | None,
    events: Sequence[str],
    since: datetime | None,
    *,
    no_follow: bool,
    target: CliTarget,
    screen: Screen,
) -> None:
    """Print the events of jobs as they happen, until Ctrl-C. With --json each line is a JSON document."""
    wanted = {CHANGES[event] for event in events} or set(Change)
    async with target.open() as app:
        store = await app.store()
        async for event in _events(store, since, follow=not no_follow):
            try:
                changes = [(change, job) for change, job in unpack(event.data) if change in wanted]
            except UndecodablePayload as error:
                screen.line({"offset": event.offset, "error": str(error)}, f"Entry {event.offset} was skipped: {error}")
                continue
            known = await _known(store, [job for _, job in changes])
            for change, job in changes:
                found = known.get(job)
                name, line = (found.task, found.queue) if found else (None, None)
                if queue in (None, line) and task in (None, name):
                    _print(screen, event, change, id_text(job), name, line)


def _when(event: Event) -> datetime | None:
    """Return when it was written; None if the time is damaged."""
    try:
        return moment(event.at) if event.at > 0 else None
    except (TypeError, ValueError, OverflowError):
        return None


def _print(screen: Screen, event: Event, change: Change, job: str, task: str | None, queue: str | None) -> None:
    word, at = change.name.lower(), _when(event)
    data = {"at": at, "event": word, "id": job, "task": task, "queue": queue, "offset": event.offset}
    screen.line(data, f"{plain(at)}  {word:<9}  {job}  {plain(task)}  {plain(queue)}")


async def _events(store: Store, since: datetime | None, *, follow: bool) -> AsyncIterator[Event]:
    after = await _start(store, since)
    while True:
        page = await store.streams.read(LIFECYCLE, after=after, limit=PAGE_SIZE)
        for event in page:
            yield event
            after = event.offset
        if not page:
            if not follow:
                return
            await SYSTEM.sleep(POLL_EVERY_US)


async def _start(store: Store, since: datetime | None) -> int:
    """Find the offset to read after by binary search: events since a moment, or without one new events.

    Entries with a damaged time are passed by.
    """
    low, high = 0, MAX_OFFSET
    while low < high:
        middle = (low + high) // 2
        page = await store.streams.read(LIFECYCLE, after=middle, limit=PROBE_SIZE)
        dated = [(event.offset, at) for event in page if (at := _when(event)) is not None]
        if not page or (since is not None and dated and dated[0][1] >= since):
            high = middle
        else:
            low = dated[0][0] if since is not None and dated else page[-1].offset
    return low


async def _known(store: Store, ids: Sequence[JobId]) -> dict[JobId, StoredJob]:
    found: dict[JobId, StoredJob] = {}
    for start in range(0, len(ids), limits.ITEMS):
        jobs = await store.jobs.get(ids[start : start + limits.ITEMS], bodies=False)
        found |= {job.id: job for job in jobs if job is not None}
    return found
