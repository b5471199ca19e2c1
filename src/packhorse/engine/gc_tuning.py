"""How often a worker's process looks for garbage."""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

MIN_YOUNG_OBJECTS = 10_000


class Threshold:
    """The threshold of the process while workers run in it: raised for the first, put back after the last."""

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._workers = 0
        self._before = (0, 0, 0)

    def hold(self) -> None:
        """Another worker runs."""
        with self._changing:
            now = gc.get_threshold()
            if not self._workers:
                self._before = now
            self._workers += 1
            if 0 < now[0] < MIN_YOUNG_OBJECTS:
                gc.set_threshold(MIN_YOUNG_OBJECTS, *now[1:])

    def put_back(self) -> None:
        """A worker has ended."""
        with self._changing:
            self._workers -= 1
            if not self._workers:
                gc.set_threshold(*self._before)


THRESHOLD = Threshold()


@contextmanager
def relaxed_gc() -> Iterator[None]:
    """Look after ten thousand new objects instead of seven hundred, unless the user chose more or turned it off.

    Jobs in flight are thousands of objects and hardly a cycle: at full speed looking took a tenth of the time.
    """
    THRESHOLD.hold()
    try:
        yield
    finally:
        THRESHOLD.put_back()
