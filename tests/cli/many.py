"""Many commands in one process, one after the other: importing is most of the time that one takes."""

import json
import shlex
import sys

from click.testing import CliRunner

from packhorse.cli.root import packhorse


def run(line: str) -> tuple[int, str, str]:
    """The exit code of a command, and what it wrote."""
    ended = CliRunner().invoke(packhorse, shlex.split(line), prog_name="packhorse")
    if ended.exception is not None and not isinstance(ended.exception, SystemExit):
        raise ended.exception
    return ended.exit_code, ended.stdout, ended.stderr


if __name__ == "__main__":
    json.dump([run(line) for line in json.load(sys.stdin)], sys.stdout)
