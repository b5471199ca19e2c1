"""`packhorse workers`: the workers that live."""

from typing import Any

import click

from packhorse.cli.frame import Command
from packhorse.cli.screen import Screen, table, with_screen
from packhorse.cli.target import Target, with_target
from packhorse.jobs.explain import length
from packhorse.jobs.view import moment
from packhorse.model.ids import id_text
from packhorse.model.worker import Worker

LINE = ("name", "host", "pid", "release", "queues", "slots", "tasks", "since", "last beat")
SPARE = ("since", "tasks", "release", "host")  # in this order, on a narrow terminal


@click.command(cls=Command)
@with_target
@with_screen
async def workers(target: Target, screen: Screen) -> None:
    """List the workers that live."""
    async with target.open() as app:
        store = await app.store()
        now, alive = await store.ping(), await store.fleet.workers()
        screen.show(
            [plainly(worker) for worker in alive],
            lambda: (
                table(LINE, (_row(worker, now) for worker in alive), right=["pid", "slots", "tasks"], spare=SPARE)
                if alive
                else "No worker lives: `packhorse worker` starts one."
            ),
        )


def plainly(worker: Worker) -> dict[str, Any]:
    """A worker as programs read it."""
    return {
        "id": id_text(worker.id),
        "name": worker.name,
        "host": worker.host,
        "pid": worker.pid,
        "release": worker.release,
        "queues": worker.queues,
        "tasks": worker.tasks,
        "slots": worker.slots,
        "started": moment(worker.started),
        "seen": moment(worker.seen),
    }


def _row(worker: Worker, now: int) -> tuple[object, ...]:
    return (
        worker.name,
        worker.host,
        worker.pid,
        worker.release,
        ", ".join(worker.queues),
        worker.slots,
        len(worker.tasks),
        moment(worker.started),
        f"{length(now - worker.seen)} ago",
    )
