"""Whether a worker lives, for probes: the store answers, and the worker has said so lately."""

import socket

from packhorse.cli.frame import Trouble
from packhorse.cli.screen import Screen
from packhorse.cli.target import Target
from packhorse.cli.workers import plainly
from packhorse.model import caps
from packhorse.model.worker import Worker


async def check(target: Target, name: str | None, screen: Screen) -> None:
    """Say that a worker of this name, or of this host, lives; Trouble if none does."""
    async with target.open() as app:
        store = await app.store()
        now, workers = await store.ping(), await store.fleet.workers()
    mine = [worker for worker in workers if _is(worker, name)]
    if mine or screen.json:
        screen.show([plainly(worker) for worker in mine], lambda: "\n".join(_said(worker, now) for worker in mine))
    if not mine:
        who = f"named {name}" if name else f"of this host ({socket.gethostname()})"
        others = ", ".join(worker.name for worker in workers[:5])
        raise Trouble(
            f"No worker {who} has said that it lives. {f'Others do: {others}.' if others else 'Nor any other.'}"
        )


def _said(worker: Worker, now: int) -> str:
    return f"{worker.name} lives: it said so {max(0, now - worker.seen) / caps.SECOND:.1f} s ago"


def _is(worker: Worker, name: str | None) -> bool:
    """By its name, behind which a supervisor puts a number, or by its host."""
    if name is None:
        return worker.host == socket.gethostname()
    return worker.name == name or worker.name.rpartition(":")[0] == name
