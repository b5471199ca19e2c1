"""Apply one action to many jobs, chosen by ids or filters: count first, then write page by page."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from packhorse.app import App
from packhorse.cli.command import CliError
from packhorse.cli.filters import Filters
from packhorse.cli.screen import Screen, console
from packhorse.errors import InvalidId
from packhorse.jobs.job import Job
from packhorse.jobs.search import PAGE_SIZE
from packhorse.model.ids import JobId, parse_id
from packhorse.model.job import State
from packhorse.stores.contract import Store

Write = Callable[[Store, list[JobId]], Awaitable[list[bool]]]

# The end of one job can make another ready. Waiting jobs are written first, so that none is missed.
OPEN = (State.WAITING, State.SCHEDULED, State.READY, State.RUNNING)
ENDED = (State.DEAD, State.CANCELLED, State.DONE)


@dataclass(frozen=True, slots=True)
class BulkAction:
    """An action: its past participle, its states, and a call that returns for each job if it was done."""

    done: str
    states: tuple[State, ...]
    write: Write

    async def run(self, app: App, ids: Sequence[str], filters: Filters, screen: Screen, *, yes: bool) -> None:
        """Apply it to the jobs with these ids, or without ids to all that the filters select."""
        await (self._listed(app, ids, screen, yes=yes) if ids else self._found(app, filters, screen, yes=yes))

    async def _listed(self, app: App, texts: Sequence[str], screen: Screen, *, yes: bool) -> None:
        store, ids = await app.store(), {app.client.job_id(text): text for text in texts}
        left: list[str] = []
        if not yes:
            jobs = [job for page in _batches(list(ids)) for job in await store.jobs.get(page, bodies=False)]
            if unknown := [text for text, job in zip(ids.values(), jobs, strict=True) if job is None]:
                raise CliError("\n".join(map(missing, unknown)))
            screen.confirm(f"{many(len(ids))} will be {self.done}", yes=yes)
        for page in _batches(list(ids)):
            found = {job.id: job.state for job in await store.jobs.get(page, bodies=False) if job is not None}
            fit = [job for job in page if found.get(job) in self.states]
            done = {job for job, was in zip(fit, await self.write(store, fit), strict=True) if was} if fit else set()
            left += [self._refusal(ids[job], found.get(job)) for job in page if job not in done]
        self._report(screen, len(ids) - len(left))
        if left:
            raise CliError("\n".join(left))

    async def _found(self, app: App, filters: Filters, screen: Screen, *, yes: bool) -> None:
        states = [state for state in self.states if filters.state in (None, state)]
        if not states:
            raise click.UsageError(f"A job that is {filters.state} cannot be {self.done}.")
        store, total, written = await app.store(), None, 0
        if not yes or shows_progress(screen):
            total = await _count(app, filters, states, screen)
            if not total:  # jobs that arrive after the count were not asked for
                self._report(screen, 0)
                return
            screen.confirm(f"{many(total)} will be {self.done}", yes=yes)
        with advancing(self.done, screen, total) as advance:
            async for jobs in pages(app, filters, states):
                written += sum(await self.write(store, [job.stored.id for job in jobs]))
                advance(len(jobs))
        self._report(screen, written)

    def _refusal(self, text: str, state: State | None) -> str:
        return missing(text) if state is None else f"The job {text} is {state}: it cannot be {self.done}."

    def _report(self, screen: Screen, count: int) -> None:
        screen.show({self.done: count}, lambda: f"{many(count)} {self.done}.")


async def pages(app: App, filters: Filters, states: Sequence[State]) -> AsyncIterator[list[Job]]:
    """Find the selected jobs a page at a time, one state after the other."""
    left = filters.limit
    for state in states:
        page: list[Job] = []
        async for job in replace(filters, state=state.value, limit=left).find(app):
            page.append(job)
            if len(page) == PAGE_SIZE:
                yield page
                left, page = None if left is None else left - PAGE_SIZE, []
        if page:
            yield page
            left = None if left is None else left - len(page)


async def _count(app: App, filters: Filters, states: Sequence[State], screen: Screen) -> int:
    total = 0
    with advancing("counted", screen) as advance:
        async for page in pages(app, filters, states):
            total += len(page)
            advance(len(page))
    return total


def shows_progress(screen: Screen) -> bool:
    """Whether progress is drawn: on a terminal, and not with ``--json``."""
    return not screen.json and console(stderr=True).is_terminal


@contextmanager
def advancing(word: str, screen: Screen, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Show progress on a terminal: a bar if the total is known, else a count."""
    bar = Progress(
        TextColumn(word), BarColumn(), MofNCompleteColumn(), console=console(stderr=True), transient=True,
        disable=not shows_progress(screen),
    )  # fmt: skip
    with bar:
        task = bar.add_task(word, total=total)
        yield lambda count: bar.advance(task, count)


def many(count: int) -> str:
    """Return ``1 job`` or ``3 jobs``."""
    return "1 job" if count == 1 else f"{count:,} jobs"


def _batches(ids: list[JobId]) -> Iterator[list[JobId]]:
    for start in range(0, len(ids), PAGE_SIZE):
        yield ids[start : start + PAGE_SIZE]


async def job_of(app: App, text: str) -> Job:
    """Return the job that a text names; raise CliError if the store does not have it."""
    [found] = await (await app.store()).jobs.get([app.client.job_id(text)])
    if found is None:
        raise CliError(missing(text))
    return Job(found)


def missing(text: str) -> str:
    """Return the message for a job that does not exist, with the possible reasons."""
    try:
        parse_id(text)
    except InvalidId:
        return f"There is no job {text!r}: it is not a job id, and no job with this chosen id is kept here."
    return f"There is no job {text}: it was never enqueued here, was removed, or is no longer kept."
