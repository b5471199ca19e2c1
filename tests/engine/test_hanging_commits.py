"""A commit that never returns: its attempt is stopped like any other, and the process can end."""

import asyncio
import threading

import pytest

from packhorse.engine import transactions
from packhorse.model.job import State
from packhorse.model.reason import DeadReason
from packhorse.stores import open_store
from tests.engine.factories import SECOND, EventName, Tasks, job, worker
from tests.factories import one, put_in


class Session:
    """A transaction of the user's own that does not come back from its commit, or not even from rolling back."""

    given = None
    ending = threading.Event()

    def __init__(self, *, undoes: bool) -> None:
        self._undoes = undoes
        self.begun = False

    async def enter(self) -> None:
        self.begun = True

    async def settle(self, settlement, notes, held) -> None:
        self.ending.set()
        await asyncio.Event().wait()

    async def roll_back(self) -> None:
        if not self._undoes:
            self.ending.set()
            await asyncio.Event().wait()

    def abandon(self) -> None: ...


class Sessions:
    def __init__(self, *, undoes: bool) -> None:
        self._undoes = undoes

    def check(self, store) -> None: ...

    def on_loop(self, store, limit) -> Session:
        return Session(undoes=self._undoes)


def hanging(*, undoes: bool = True, **options) -> Tasks:
    made = Tasks()

    @made.task(transaction=Sessions(undoes=undoes), attempts=1, **options)
    async def commit() -> None: ...

    @made.task(transaction=Sessions(undoes=undoes), attempts=1, **options)
    async def undo() -> None:
        raise ValueError("roll back")

    @made.task()
    async def work() -> None: ...

    return made


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(transactions, "ENDING_SECONDS", 0.1)


async def test_a_commit_that_does_not_return_is_stopped_by_the_timeout_of_its_task(memory, telemetry, recorder):
    async with worker(memory, hanging(timeout=SECOND // 5), telemetry, concurrency=1):
        [bad, _] = await put_in(memory, job("commit"), job("work"))
        await recorder.until(EventName.DEAD)
        await recorder.until(EventName.DONE)

    found = await one(memory, bad)
    assert (found.state, found.reason) == (State.DEAD, DeadReason.EXHAUSTED)
    assert "time" in found.failures[-1].type.lower() + found.failures[-1].message


async def test_the_lease_of_a_commit_that_cannot_even_be_rolled_back_runs_out(memory, telemetry, recorder):
    async with worker(memory, hanging(undoes=False, timeout=SECOND // 5), telemetry, concurrency=1) as working:
        [bad, _] = await put_in(memory, job("commit"), job("work"))
        await recorder.until(EventName.LEASE_LOST)
        await recorder.until(EventName.DONE)
        assert working._slots.held == {}

    assert (await one(memory, bad)).state is State.RUNNING  # until its lease is over


@pytest.mark.parametrize("task", ["commit", "undo"])
def test_a_process_ends_though_a_transaction_does_not(task):
    Session.ending.clear()

    async def main() -> None:
        store = open_store("sqlite:///:memory:")
        await store.migrate()
        await store.open()
        async with worker(store, hanging(undoes=False), grace=SECOND // 10):
            await put_in(store, job(task))
            while not Session.ending.is_set():
                await asyncio.sleep(0.01)
        await store.close()

    process = threading.Thread(target=lambda: asyncio.run(main()), daemon=True)
    process.start()
    process.join(20)

    assert not process.is_alive()
