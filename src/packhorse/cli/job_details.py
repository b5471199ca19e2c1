"""Print all fields of one job, and why it is not running."""

from collections.abc import Iterator
from typing import Any

import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from packhorse.app import App
from packhorse.cli import formatting
from packhorse.cli.screen import Screen, plain, table
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
    screen.show(known, lambda: Group(*_parts(known)))


def _parts(known: dict[str, Any]) -> Iterator[RenderableType]:
    rows = [(name, known[name]) for name in FACTS if known[name] not in (None, "")]
    if known["children"]:
        rows.append(("children", f"{known['delivered']} of {known['children']} have ended"))
    rows += [(name, msgspec.json.encode(known[name]).decode()) for name in DATA if known[name] is not None]
    facts = table(("", ""), rows)
    facts.show_header = False
    yield facts
    yield Text(f"\n{plain(known['why'])}")
    for failure in known["failures"]:
        yield Text(f"\nattempt {failure['attempt']} at {plain(failure['at'])}: {plain(failure['type'])}", style="bold")
        yield Text("\n".join(map(plain, (failure["traceback"] or failure["message"]).rstrip().splitlines())))
