"""Many commands, each in a process of its own that is forked after the imports: for tables of cases.

Run as a script: reads a JSON list of ``{"folder", "arguments", "variables"}``, writes a list of ``[code, out, err]``.
"""

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.cli.shell import Ended, Shell

Case = tuple[Shell, Sequence[str]]


async def run(cases: Sequence[Case]) -> list[Ended]:
    """Run these commands, and answer how each ended."""
    data = [
        {"folder": str(shell.folder), "arguments": [*arguments], "variables": shell.environment}
        for shell, arguments in cases
    ]
    paths = [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",  # the folder of this script is none of the commands' business
        __file__,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate(json.dumps(data).encode())
    return [Ended(*each) for each in json.loads(out)]


def _forked(case: dict[str, object]) -> tuple[int, str, str]:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        pid = os.fork()
        if pid == 0:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            _command(case)
        _, status = os.waitpid(pid, 0)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode())
    return os.waitstatus_to_exitcode(status), texts[0], texts[1]


def _command(case: dict[str, object]) -> None:
    from packhorse.cli.main import main

    code = 99
    try:
        os.chdir(str(case["folder"]))
        os.environ.clear()
        os.environ.update(case["variables"])  # type: ignore[call-overload]
        sys.argv = ["packhorse", *case["arguments"]]  # type: ignore[misc]
        main()
    except SystemExit as error:
        code = int(error.code or 0)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    import packhorse.cli.commands.enqueue
    import packhorse.cli.commands.worker  # noqa: F401

    json.dump([_forked(case) for case in json.load(sys.stdin)], sys.stdout)
