"""Exit codes of all commands, and the table that help texts show."""

OK = 0
FAILED = 1  # the request failed: a dead job, no live worker, a missing job
USAGE = 2  # an option or argument is wrong; also click's own
APP = 3  # the app cannot be found or imported
STORE = 4  # the store cannot be reached, or its layout does not fit this release
OUTPUT = 5  # the command succeeded, but its output could not be written
STOPPED = 128  # plus the number of the signal that stopped the command

TABLE = """\b
Exit codes:
  0    success
  1    the request failed, or what it names does not exist
  2    an option or argument is wrong
  3    the app cannot be found or imported
  4    the store cannot be reached or used
  5    the command succeeded, but its output could not be written
  128  plus the number of the signal that stopped it (130: Ctrl-C)
"""
