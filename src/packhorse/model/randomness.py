"""The only place that asks for chance."""

import random
from collections.abc import Callable

Randomness = Callable[[], float]
"""Gives a number from 0 up to, but not including, 1."""

SYSTEM_RANDOMNESS: Randomness = random.random
