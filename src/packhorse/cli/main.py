"""The command `packhorse`: without the extra it says how to get it."""

import sys
from importlib.util import find_spec


def main() -> None:
    """Run the command line."""
    if find_spec("click") is None or find_spec("rich") is None:
        sys.exit("The command line needs click and rich: pip install 'packhorse[cli]'")
    from packhorse.cli.commands import packhorse
    from packhorse.cli.output import prepare, show_lost

    prepare()
    try:
        packhorse(prog_name="packhorse")
    except OSError as error:
        sys.exit(show_lost(error))
