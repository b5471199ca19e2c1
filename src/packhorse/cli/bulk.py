"""Apply one action to many jobs, chosen by ids or filters: count first, then write page by page, both with progress."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from packhorse.app import App
from packhorse.bulk.bulk import BulkRun
from packhorse.bulk.order import BulkOrder
from packhorse.cli.command import CliError
from packhorse.cli.filters import Filters
from packhorse.cli.screen import Screen, console
from packhorse.errors import InvalidId
from packhorse.jobs.bulk_action import BulkAction
from packhorse.jobs.job import Job, JobState
from packhorse.jobs.search import Search
from packhorse.model.ids import parse_id


@dataclass(frozen=True, slots=True)
class BulkCommand:
    """An action of ``app.bulk`` as a command, run in this process, with its word for what was done."""

    action: BulkAction
    done: str
    state: str | None = None
    """The only state of jobs that it is for; None for all states of the action."""

    async def run(
        self, app: App, ids: Sequence[str], filters: Filters, screen: Screen, *, yes: bool, dry_run: bool = False
    ) -> None:
        """Apply it to the jobs with these ids, or without ids to all that the filters select."""
        if ids:
            await self._listed(app, ids, screen, yes=yes, dry_run=dry_run)
        else:
            await self._found(app, filters, screen, yes=yes, dry_run=dry_run)

    async def _listed(self, app: App, ids: Sequence[str], screen: Screen, *, yes: bool, dry_run: bool) -> None:
        search = Search(state=self.state)
        if dry_run:
            self._preview(screen, await app.bulk.run_ids(self.action, ids, search, dry_run=True))
            return
        if not yes:
            planned = await app.bulk.run_ids(self.action, ids, search, dry_run=True)
            if unknown := [text for text, state in planned.unchanged.items() if state is JobState.UNKNOWN]:
                raise CliError("\n".join(map(missing, unknown)))
            screen.confirm(f"{many(len(planned.unchanged))} will be {self.done}", yes=yes)
        run = await app.bulk.run_ids(self.action, ids, search)
        assert run.counts is not None
        self._report(screen, run.counts.changed)
        if run.unchanged:
            raise CliError("\n".join(self._refusal(text, state) for text, state in run.unchanged.items()))

    async def _found(self, app: App, filters: Filters, screen: Screen, *, yes: bool, dry_run: bool) -> None:
        order, total = await app.bulk.order(self.action, filters.search, filters.limit), None
        if dry_run or not yes or shows_progress(screen):
            counted = await self._count(app, order, screen)
            if dry_run:
                self._preview(screen, counted)
                return
            total = counted.total
            if not total:  # jobs that arrive after the count were not asked for
                self._report(screen, 0)
                return
            screen.confirm(f"{many(total)} will be {self.done}", yes=yes)
        with advancing(self.done, screen, total) as advance:
            counts = await app.bulk.run_here(order, advance)
        self._report(screen, counts.changed)

    async def _count(self, app: App, order: BulkOrder, screen: Screen) -> BulkRun:
        with advancing("counted", screen) as advance:
            return await app.bulk.preview(order, advance)

    def _refusal(self, text: str, state: JobState) -> str:
        return missing(text) if state is JobState.UNKNOWN else f"The job {text} is {state}: it cannot be {self.done}."

    def _report(self, screen: Screen, count: int) -> None:
        screen.show({self.done: count}, lambda: f"{many(count)} {self.done}.")

    def _preview(self, screen: Screen, run: BulkRun) -> None:
        total = run.total or 0
        words = f"{many(total)} would be {self.done}."
        screen.show({"total": total, "sample": run.sample}, lambda: "\n".join((words, *run.sample)))


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
