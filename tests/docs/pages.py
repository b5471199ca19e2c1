"""Pages of the documentation as something that can be run.

The Python blocks of a page run from top to bottom in one namespace and one folder, with ``await`` allowed anywhere; those
that do not await run without an event loop. A ``text`` block right after one is what it prints. A block that begins with
the name of a file (``# shop.py``) is that file, and is imported. A ``console`` block is typed into a shell in the same folder.
"""

import ast
import asyncio
import contextlib
import importlib
import inspect
import io
import logging
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

from packhorse import App
from packhorse.jobs.portal import PORTAL
from tests.docs.shell import Shell

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(?P<kind>[a-z]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# (?P<name>[a-z_]+)\.py\n")


class Block(NamedTuple):
    """A piece of Python or a console on a page, where it stands, and what it prints if the page says so."""

    kind: str
    code: str
    line: int
    output: str | None

    @property
    def module(self) -> str | None:
        """The module it is the file of, if it is one."""
        found = FILE.match(self.code)
        return found["name"] if found else None


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of a page that can be run."""
    text = page.read_text()
    fences = list(FENCE.finditer(text))
    for number, fence in enumerate(fences):
        if fence["kind"] in ("python", "console"):
            after = fences[number + 1] if number + 1 < len(fences) else None
            reported = after is not None and after["kind"] == "text" and not text[fence.end() : after.start()].strip()
            line = text.count("\n", 0, fence.start("text"))
            yield Block(fence["kind"], fence["text"], line, after["text"] if after is not None and reported else None)


class Run:
    """One run of a page in a folder of its own."""

    def __init__(self, page: Path, folder: Path) -> None:
        self._page, self._folder = page, folder
        self._names: dict[str, Any] = {"__name__": "page"}
        self._shell = Shell(folder)
        self.modules: list[str] = []

    async def block(self, block: Block) -> str:
        """Run a block and answer what it printed; a console sees to that by itself."""
        if block.kind == "console":
            await asyncio.to_thread(self._shell.type, block.code)
            return ""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            if block.module is None:
                await asyncio.wait_for(self._run(self._compiled(block)), 60)
            else:
                (self._folder / f"{block.module}.py").write_text(block.code)
                self.modules.append(block.module)
                importlib.invalidate_caches()
                importlib.import_module(block.module)
        return printed.getvalue()

    async def _run(self, code: CodeType) -> None:
        """Run code that awaits on this loop, and other code where there is none, as a script would."""
        if code.co_flags & inspect.CO_COROUTINE:
            await eval(code, self._names)
        else:
            await asyncio.to_thread(exec, code, self._names)

    def _compiled(self, block: Block) -> CodeType:
        # Empty lines before it, so that a traceback tells the line of the page.
        code = "\n" * block.line + block.code
        return compile(code, str(self._page), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)

    async def end(self) -> None:
        """What the end of a program does; and let the next page have modules of the same names."""
        await asyncio.to_thread(self._shell.close)
        for value in list(self._names.values()):
            if isinstance(value, App):
                await value.close()
        await asyncio.to_thread(PORTAL.stop)
        logging.getLogger("packhorse").handlers.clear()
        for module in self.modules:
            sys.modules.pop(module, None)
