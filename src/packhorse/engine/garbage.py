"""How often a worker's process looks for garbage."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

YOUNG = 10_000


@contextmanager
def seldom() -> Iterator[None]:
    """Look for cycles after 10,000 new objects, not after 700 as Python does, unless something else was chosen.

    Jobs in flight are thousands of objects and hardly a cycle: at full speed looking took a tenth of the time.
    """
    before = gc.get_threshold()
    if 0 < before[0] < YOUNG:
        gc.set_threshold(YOUNG, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
