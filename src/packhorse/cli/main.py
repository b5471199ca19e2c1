"""Entry point of the command `packhorse`. Without click and rich it prints how to install them."""

import sys
from importlib.util import find_spec


def main() -> None:
    """Run the command line."""
    if find_spec("click") is None or find_spec("rich") is None:
        sys.exit("The command line needs click and rich: pip install 'packhorse[cli]'")
    from packhorse.cli.output import prepare, show_lost
    from packhorse.cli.root import packhorse

    prepare()
    try:
        packhorse(prog_name="packhorse")
    except OSError as error:
        sys.exit(show_lost(error))
