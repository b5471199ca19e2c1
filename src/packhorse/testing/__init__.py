"""Test code that uses Packhorse: run jobs until nothing is left to do, with a clock that the test sets."""

from packhorse.testing.clock import TurnedClock
from packhorse.testing.worker import run_until_idle

__all__ = ["TurnedClock", "run_until_idle"]
