"""`packhorse workers`: list the live workers."""

import click

from packhorse.cli.command import Command
from packhorse.cli.formatting import worker_data
from packhorse.cli.screen import Screen, table, with_screen
from packhorse.cli.target import CliTarget, with_target
from packhorse.jobs.explain import length
from packhorse.model.clock import moment
from packhorse.model.worker import WorkerInfo

COLUMNS = ("name", "host", "pid", "release", "queues", "slots", "tasks", "since", "last beat")
OPTIONAL_COLUMNS = ("since", "tasks", "release", "host")  # left out in this order on a narrow terminal


@click.command(cls=Command)
@with_target
@with_screen
async def workers(target: CliTarget, screen: Screen) -> None:
    """List the live workers."""
    async with target.open() as app:
        store = await app.store()
        now, alive = await store.ping(), await store.fleet.workers()
        screen.show(
            [worker_data(worker) for worker in alive],
            lambda: (
                table(
                    COLUMNS,
                    (_row(worker, now) for worker in alive),
                    right=["pid", "slots", "tasks"],
                    spare=OPTIONAL_COLUMNS,
                )
                if alive
                else "No worker is alive: `packhorse worker` starts one."
            ),
        )


def _row(worker: WorkerInfo, now: int) -> tuple[object, ...]:
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
