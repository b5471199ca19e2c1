"""Threads that pull what they run from a queue."""

import queue
import threading
from typing import Any

import pytest

from packhorse.engine.executors.threads import Threads

LONG = 10


class Work:
    """What the threads run: waits for its gate, and is noted down."""

    def __init__(self) -> None:
        self.begun: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.gate = threading.Event()

    def __call__(self, number: int) -> None:
        self.begun.put(number)
        self.gate.wait(LONG)
        self.done.put(number)

    def all_done(self, count: int) -> set[int]:
        return {self.done.get(timeout=LONG) for _ in range(count)}


@pytest.fixture
def work() -> Work:
    return Work()


def named(threads: Threads[Any]) -> int:
    return len(threads._threads)


def test_everything_is_run_once(work):
    threads: Threads[int] = Threads(4, work)
    work.gate.set()
    for number in range(200):
        threads.put(number)

    assert work.all_done(200) == set(range(200))
    threads.stop()


def test_no_more_run_at_once_than_there_are_threads(work):
    threads: Threads[int] = Threads(3, work)
    for number in range(10):
        threads.put(number)
    begun = [work.begun.get(timeout=LONG) for _ in range(3)]

    assert begun == [0, 1, 2]
    assert named(threads) == 3
    with pytest.raises(queue.Empty):
        work.begun.get_nowait()
    work.gate.set()
    work.all_done(10)
    threads.stop()


def test_a_thread_that_is_free_is_used_again(work):
    threads: Threads[int] = Threads(10, work)
    work.gate.set()
    for number in range(20):
        threads.put(number)
        work.done.get(timeout=LONG)

    assert named(threads) < 10
    threads.stop()


def test_no_thread_is_started_before_there_is_work(work):
    threads: Threads[int] = Threads(10, work)

    assert named(threads) == 0
    threads.stop()


def test_what_no_thread_has_begun_can_be_taken_back(work):
    threads: Threads[int] = Threads(2, work)
    for number in range(5):
        threads.put(number)
    for _ in range(2):
        work.begun.get(timeout=LONG)

    assert threads.take_back() == [2, 3, 4]
    work.gate.set()
    assert work.all_done(2) == {0, 1}
    threads.put(5)
    assert work.all_done(1) == {5}
    threads.stop()


def test_threads_end_after_what_they_run(work):
    threads: Threads[int] = Threads(2, work)
    threads.put(0)
    threads.put(1)
    for _ in range(2):
        work.begun.get(timeout=LONG)

    threads.stop()
    work.gate.set()

    for thread in threads._threads:
        thread.join(LONG)
        assert not thread.is_alive()
