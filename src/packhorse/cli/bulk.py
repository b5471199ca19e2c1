"""One thing done to many jobs: chosen by id or by filters, counted first, then page by page."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from packhorse.app import App
from packhorse.cli.filters import PAGE, Filters
from packhorse.cli.frame import Trouble
from packhorse.cli.screen import Screen, console
from packhorse.errors import InvalidId
from packhorse.jobs.view import Job
from packhorse.model.ids import JobId, chosen_id, parse_id
from packhorse.model.job import State
from packhorse.stores.contract import Store

Write = Callable[[Store, list[JobId]], Awaitable[list[bool]]]

# The end of one job can make another ready: those that wait go first, so that none is passed over.
OPEN = (State.WAITING, State.SCHEDULED, State.READY, State.RUNNING)
ENDED = (State.DEAD, State.CANCELLED, State.DONE)


@dataclass(frozen=True, slots=True)
class Act:
    """What is done: in a word, to jobs in which states, by a call that answers for each job whether it was done."""

    done: str
    states: tuple[State, ...]
    write: Write

    async def run(self, app: App, ids: Sequence[str], filters: Filters, screen: Screen, *, yes: bool) -> None:
        """Do it to the jobs with these ids, or without any to all that fit the filters."""
        await (self._listed(app, ids, screen, yes=yes) if ids else self._found(app, filters, screen, yes=yes))

    async def _listed(self, app: App, texts: Sequence[str], screen: Screen, *, yes: bool) -> None:
        store, ids = await app.store(), {job_id(app, text): text for text in texts}
        left: list[str] = []
        if not yes:
            jobs = [job for page in _cut(list(ids)) for job in await store.jobs.get(page)]
            if unknown := [text for text, job in zip(ids.values(), jobs, strict=True) if job is None]:
                raise Trouble("\n".join(map(missing, unknown)))
            screen.gate(f"{many(len(ids))} will be {self.done}", yes=yes)
        for page in _cut(list(ids)):
            found = {job.id: job.state for job in await store.jobs.get(page) if job is not None}
            fit = [job for job in page if found.get(job) in self.states]
            done = {job for job, was in zip(fit, await self.write(store, fit), strict=True) if was} if fit else set()
            left += [self._why_not(ids[job], found.get(job)) for job in page if job not in done]
        self._tell(screen, len(ids) - len(left))
        if left:
            raise Trouble("\n".join(left))

    async def _found(self, app: App, filters: Filters, screen: Screen, *, yes: bool) -> None:
        states = [state for state in self.states if filters.state in (None, state)]
        if not states:
            raise click.UsageError(f"A job that is {filters.state} cannot be {self.done}.")
        store, total, written = await app.store(), None, 0
        if not yes or drawn(screen):
            total = await _count(app, filters, states, screen)
            if not total:  # jobs that arrive from now on are nobody's wish
                self._tell(screen, 0)
                return
            screen.gate(f"{many(total)} will be {self.done}", yes=yes)
        with advancing(self.done, screen, total) as advance:
            async for jobs in pages(app, filters, states):
                written += sum(await self.write(store, [job.stored.id for job in jobs]))
                advance(len(jobs))
        self._tell(screen, written)

    def _why_not(self, text: str, state: State | None) -> str:
        return missing(text) if state is None else f"The job {text} is {state}: it cannot be {self.done}."

    def _tell(self, screen: Screen, count: int) -> None:
        screen.show({self.done: count}, lambda: f"{many(count)} {self.done}.")


async def pages(app: App, filters: Filters, states: Sequence[State]) -> AsyncIterator[list[Job]]:
    """The jobs that fit, a page at a time, one state after the other."""
    left = filters.limit
    for state in states:
        page: list[Job] = []
        async for job in replace(filters, state=state.value, limit=left).find(app):
            page.append(job)
            if len(page) == PAGE:
                yield page
                left, page = None if left is None else left - PAGE, []
        if page:
            yield page
            left = None if left is None else left - len(page)


async def _count(app: App, filters: Filters, states: Sequence[State], screen: Screen) -> int:
    total = 0
    with advancing("looked at", screen) as advance:
        async for page in pages(app, filters, states):
            total += len(page)
            advance(len(page))
    return total


def drawn(screen: Screen) -> bool:
    """Whether somebody sees how far it is."""
    return not screen.json and console(stderr=True).is_terminal


@contextmanager
def advancing(word: str, screen: Screen, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Show on a terminal how far it is; a bar, if it is known how much there is."""
    bar = Progress(
        TextColumn(word), BarColumn(), MofNCompleteColumn(), console=console(stderr=True), transient=True,
        disable=not drawn(screen),
    )  # fmt: skip
    with bar:
        task = bar.add_task(word, total=total)
        yield lambda count: bar.advance(task, count)


def many(count: int) -> str:
    """So many jobs."""
    return "1 job" if count == 1 else f"{count:,} jobs"


def _cut(ids: list[JobId]) -> Iterator[list[JobId]]:
    for start in range(0, len(ids), PAGE):
        yield ids[start : start + PAGE]


def job_id(app: App, text: str) -> JobId:
    """The id that a text means: a UUID, or the words of a chosen id."""
    try:
        return parse_id(text)
    except InvalidId:
        return chosen_id(app.namespace, text)


async def job_of(app: App, text: str) -> Job:
    """The job that a text means, which must be there."""
    [found] = await (await app.store()).jobs.get([job_id(app, text)])
    if found is None:
        raise Trouble(missing(text))
    return Job(found)


def missing(text: str) -> str:
    """That there is no such job, and what that can mean."""
    try:
        parse_id(text)
    except InvalidId:
        return f"There is no job {text!r}: it is no job id, and no chosen id of a job that is kept here."
    return f"There is no job {text}: it was never enqueued here, was removed, or is not kept any more."
