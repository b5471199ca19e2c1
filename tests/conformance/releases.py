"""Other releases of Packhorse: copies of the package with other steps of the layout, run in their own process."""

import asyncio
import os
import shutil
import sys
from pathlib import Path

import packhorse

PROGRAM = """
import asyncio, sys
from packhorse.stores import open_store

async def main(verb, url, namespace):
    store = open_store(url, namespace=namespace)
    try:
        print("ok", await getattr(store, verb)())
    except Exception as error:
        print(type(error).__name__, error)
    finally:
        await store.close()

asyncio.run(main(*sys.argv[1:]))
"""


WIDER = {
    "sqlite": "ALTER TABLE packhorse_jobs ADD COLUMN later TEXT;\n",
    "postgres": "ALTER TABLE {schema}.jobs ADD COLUMN later text;\n",
    "redis": "call('HSET', key('later'), '', '-')\n",
}


class Release:
    """A copy of the package that can be changed and asked to open or migrate a place."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(Path(packhorse.__file__).parent, folder / "packhorse", ignore=shutil.ignore_patterns("*.pyc"))

    def steps(self) -> list[Path]:
        """The files of the steps, in order."""
        found = sorted((self.folder / "packhorse" / "stores").glob("*/migrations/*.*"))
        return [path for path in found if path.suffix in (".sql", ".lua")]

    def add_a_step(self, *, compatible: bool = False) -> None:
        """Make it a later release, whose layout has one step more on every store."""
        for last in {path.parent: path for path in self.steps()}.values():
            words = f"-- compatible: {'yes' if compatible else 'no'}\n-- A step of a later release.\n"
            last.with_name(f"{'9999_later' if compatible else '9999_other'}{last.suffix}").write_text(words)

    def widen(self) -> None:
        """Make it a later release that keeps more: a column of its own beside those of the records, or a key."""
        self.add_a_step(compatible=True)
        for path in self.steps():
            if path.stem == "9999_later":
                path.write_text(path.read_text() + WIDER[path.parent.parent.name])

    def change_a_function(self, number: int, path: str, old: str, new: str) -> None:
        """Make it a later release with another function in PostgreSQL, and so with a function set of this number."""
        store = self.folder / "packhorse" / "stores" / "postgres"
        for file, before, after in (
            (store / "function_set.py", "NUMBER = 1 ", f"NUMBER = {number} "),
            (store / "functions" / path, old, new),
        ):
            text = file.read_text()
            assert before in text
            file.write_text(text.replace(before, after))

    def change_a_step(self) -> None:
        """Make it a release in which somebody edited steps that were taken already."""
        for path in self.steps():
            path.write_text(path.read_text() + "-- A line more.\n")

    async def run(self, verb: str, url: str, namespace: str) -> str:
        """What this release says when it opens or migrates a place."""
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", PROGRAM, verb, url, namespace,
            env={**os.environ, "PYTHONPATH": str(self.folder)}, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        out, _ = await child.communicate()
        return out.decode().strip()

    async def start(self, program: Path, *args: str) -> asyncio.subprocess.Process:
        """A program that runs with this release, and takes commands and prints answers."""
        return await asyncio.create_subprocess_exec(
            sys.executable, str(program), *args, env={**os.environ, "PYTHONPATH": str(self.folder)},
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
