"""A web app as a pre-forking server loads it: once, before it forks, and not without a call of its own."""

import os
from collections.abc import Callable, Iterable
from typing import Any

from tests.features.sync_tasks import note

note.sync.enqueue("loaded")


def application(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
    job = note.sync.enqueue(environ["QUERY_STRING"])
    start("201 Created", [("Content-Type", "text/plain")])
    return [f"{os.getpid()} {job.id}".encode()]
