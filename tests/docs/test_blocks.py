"""Every piece of Python in the documentation runs, and prints what the page says."""

import asyncio
import sys
from pathlib import Path

import pytest

from tests.docs.pages import FENCE, PAGES, ROOT, Run, blocks

RUNNING = [page for page in PAGES if any(blocks(page))]


@pytest.mark.parametrize("page", RUNNING, ids=lambda page: str(page.relative_to(ROOT)))
async def test_the_blocks_of_a_page_run_and_print_what_it_says(page: Path, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    run = Run(page, tmp_path)
    try:
        for block in blocks(page):
            printed = await run.block(block)
            if block.output is not None:
                assert printed == block.output, f"{page.name}, the block at line {block.line}"
    finally:
        await run.end()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_block_says_what_it_is(page: Path):
    assert {fence["kind"] for fence in FENCE.finditer(page.read_text())} <= {"python", "shell", "text"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_block_that_prints_says_what(page: Path):
    silent = [block.line for block in blocks(page) if "print(" in block.code and not (block.output or block.module)]

    assert silent == []


async def test_the_tutorial_works_as_told_in_two_processes(tmp_path: Path):
    [tasks, worker, order] = [block for block in blocks(ROOT / "docs" / "tutorial.md") if block.module][:3]
    for block in (tasks, worker, order):
        (tmp_path / f"{block.module}.py").write_text(block.code)

    working = await asyncio.create_subprocess_exec(sys.executable, "worker.py", cwd=tmp_path)
    try:
        asking = await asyncio.create_subprocess_exec(
            sys.executable, "order.py", cwd=tmp_path, stdout=asyncio.subprocess.PIPE
        )
        printed, _ = await asyncio.wait_for(asking.communicate(), 60)
    finally:
        working.terminate()
        code = await asyncio.wait_for(working.wait(), 60)

    assert printed.decode().splitlines()[-1] == "Receipt(order_id='o-1', total=12.5)"
    assert (asking.returncode, code) == (0, 0)
