"""Every piece of Python in the documentation runs, and prints what the page says."""

import configparser
from pathlib import Path

import pytest

from tests.docs.pages import FENCE, PAGES, ROOT, Run, blocks
from tests.docs.shell import Shell, fits

KINDS = {"python", "console", "shell", "text", "ini"}
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
    assert {fence["kind"] for fence in FENCE.finditer(page.read_text())} <= KINDS


def test_settings_of_other_programs_can_be_read():
    found = [fence["text"] for page in PAGES for fence in FENCE.finditer(page.read_text()) if fence["kind"] == "ini"]

    assert found
    for text in found:
        parser = configparser.RawConfigParser(strict=False)
        parser.read_string(text)
        assert parser.sections()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_block_that_prints_says_what(page: Path):
    silent = [
        block.line
        for block in blocks(page)
        if "print(" in block.code and not (block.output or block.module or block.kind == "console")
    ]

    assert silent == []


def test_a_console_fits_what_is_reported_and_nothing_else():
    assert fits("id … state\n…\nlast", "id  task  state\n1\n2\nlast  \n")
    assert not fits("id … state", "id  task  status")


def test_a_console_that_fails_or_prints_something_else_is_noticed(tmp_path: Path):
    shell = Shell(tmp_path)

    shell.type("$ echo one; echo two\none\ntwo\n$ true\n")
    with pytest.raises(AssertionError, match="ended with 1"):
        shell.type("$ false\n")
    with pytest.raises(AssertionError, match="printed"):
        shell.type("$ echo one\ntwo\n")
