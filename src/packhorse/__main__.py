"""``python -m packhorse`` is the command ``packhorse``."""

from packhorse.cli.main import main

main()
