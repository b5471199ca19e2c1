"""The way of one plain job to the store is short: few files, so that it can be read from top to bottom."""

import sys
from types import FrameType
from typing import Any

from packhorse import App

ROOT = "/src/packhorse/"
FILES = 10


async def test_a_plain_enqueue_goes_through_few_files_above_the_contract():
    app = App("sqlite:///:memory:")

    @app.task
    async def confirm(order: str, total: float) -> None: ...

    files: dict[str, None] = {}
    depth = 0

    def entered(frame: FrameType, event: str, _: Any) -> None:
        nonlocal depth
        _, own, path = frame.f_code.co_filename.rpartition(ROOT)
        if not own:
            return
        if path.startswith("stores/"):
            depth += {"call": 1, "return": -1}.get(event, 0)
        elif event == "call" and not depth:
            files[path] = None

    async with app:
        await confirm.enqueue("o-1", total=12.5)
        sys.setprofile(entered)
        try:
            await confirm.enqueue("o-2", total=12.5)
        finally:
            sys.setprofile(None)

    assert len(files) <= FILES, list(files)
    assert {"jobs/task.py", "jobs/client.py", "jobs/job_builder.py", "model/job.py"} <= set(files)
