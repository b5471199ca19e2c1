"""The exit codes of all commands, and the table of them that help texts show."""

OK = 0
FAILED = 1  # what was asked for did not go well: a dead job, no live worker, a job that is not there
USAGE = 2  # an option or argument is wrong; also click's own
APP = 3  # the app cannot be found or imported
STORE = 4  # the store cannot be reached, or its layout is not this release's
OUTPUT = 5  # it was done, but what it had to say could not be written
STOPPED = 128  # plus the number of the signal that cut a command short

TABLE = """\b
Exit codes:
  0    all went well
  1    what was asked for failed, or is not there
  2    an option or argument is wrong
  3    the app cannot be found or imported
  4    the store cannot be reached or used
  5    it was done, but its output could not be written
  128  and the number of the signal that cut it short (130: Ctrl-C)
"""
