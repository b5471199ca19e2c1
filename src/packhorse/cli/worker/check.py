"""`packhorse worker --check`: whether the store answers and a worker sent a heartbeat lately."""

import socket

from packhorse.cli.command import CliError
from packhorse.cli.formatting import worker_data
from packhorse.cli.screen import Screen
from packhorse.cli.target import CliTarget
from packhorse.model import limits
from packhorse.model.worker import WorkerInfo


async def check(target: CliTarget, name: str | None, screen: Screen) -> None:
    """Print the live workers of this name, or of this host; raise CliError if no worker is alive."""
    async with target.open() as app:
        store = await app.store()
        now, workers = await store.ping(), await store.fleet.workers()
    mine = [worker for worker in workers if _matches(worker, name)]
    if mine or screen.json:
        screen.show([worker_data(worker) for worker in mine], lambda: "\n".join(_line(worker, now) for worker in mine))
    if not mine:
        who = f"named {name}" if name else f"of this host ({socket.gethostname()})"
        others = ", ".join(worker.name for worker in workers[:5])
        raise CliError(
            f"No worker {who} is alive. {f'The workers that are alive: {others}.' if others else 'No other worker is alive.'}"
        )


def _line(worker: WorkerInfo, now: int) -> str:
    return f"{worker.name} is alive: last heartbeat {max(0, now - worker.seen) / limits.SECOND:.1f} s ago"


def _matches(worker: WorkerInfo, name: str | None) -> bool:
    """Compare the name, to which a supervisor adds a number, or without a name the host."""
    if name is None:
        return worker.host == socket.gethostname()
    return worker.name == name or worker.name.rpartition(":")[0] == name
