"""Print all fields of one job, and why it is not running."""

from collections.abc import Iterator
from typing import Any

import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from packhorse.app import App
from packhorse.cli import formatting
from packhorse.cli.screen import Screen, plain, table
from packhorse.dead_letters.letter import DeadLetter
from packhorse.jobs.explain import explain
from packhorse.jobs.job import Job

FACTS = ("id", "task", "queue", "state", "reason", "detail", "priority", "attempt", "lost", "key", "tenant", "unique",
         "parent", "worker", "enqueued_at", *formatting.MOMENTS)  # fmt: skip
DATA = ("arguments", "headers", "progress", "result")


async def show_job(app: App, job: Job, screen: Screen, *, arguments: bool = True) -> None:
    """Print a job; without ``arguments`` its arguments and result are left out."""
    store = await app.store()
    queues = {queue.name: queue for queue in await store.queues.stats()}
    why = explain(job, queues.get(job.queue), await store.fleet.workers(), await store.ping())
    known = {**formatting.job_data(job, arguments=arguments), "why": why}
    screen.show(known, lambda: Group(*_facts(known), *_failures(known)))


def show_letter(letter: DeadLetter, job: Job, screen: Screen, *, arguments: bool, full: bool) -> None:
    """Print a dead job with its attempts, and its last traceback: the frames of your own code, or all with ``full``."""
    trace = letter.traceback if full else letter.trimmed_traceback
    about = {"fingerprint": letter.fingerprint, "trimmed_traceback": letter.trimmed_traceback}
    known = {**formatting.job_data(job, arguments=arguments), **about}
    screen.show(known, lambda: Group(*_facts({**known, "why": ""}), *_attempts(letter), *_lines(trace)))


def _attempts(letter: DeadLetter) -> Iterator[RenderableType]:
    rows = [
        (
            each.number,
            each.failed_at,
            f"{each.duration.total_seconds():.3f} s",
            each.worker or None,
            each.release or None,
            f"{each.error_type}: {each.error_message}".rstrip(": "),
        )
        for each in letter.attempts
    ]
    if rows:
        yield Text("")
        yield table(("attempt", "failed", "took", "worker", "release", "error"), rows, right=["attempt", "took"])
    yield Text(f"\nfingerprint {letter.fingerprint}")


def _lines(trace: str) -> Iterator[RenderableType]:
    if trace:
        yield Text("\n" + "\n".join(map(plain, trace.rstrip().splitlines())))


def _facts(known: dict[str, Any]) -> Iterator[RenderableType]:
    rows = [(name, known[name]) for name in FACTS if known[name] not in (None, "")]
    if known["children"]:
        rows.append(("children", f"{known['delivered']} of {known['children']} have ended"))
    rows += [(name, msgspec.json.encode(known[name]).decode()) for name in DATA if known[name] is not None]
    facts = table(("", ""), rows)
    facts.show_header = False
    yield facts
    if known["why"]:
        yield Text(f"\n{plain(known['why'])}")


def _failures(known: dict[str, Any]) -> Iterator[RenderableType]:
    for failure in known["failures"]:
        yield Text(f"\nattempt {failure['attempt']} at {plain(failure['at'])}: {plain(failure['type'])}", style="bold")
        yield Text("\n".join(map(plain, (failure["traceback"] or failure["message"]).rstrip().splitlines())))
