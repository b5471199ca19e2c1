"""Many writers at once, a tenth of them changing their minds: exactly what was committed exists and runs.

Each writer goes through all adapters of a store. With ``PACKHORSE_TEST_LONG=1`` there are 50,000 transactions at each store,
which takes minutes; ``PACKHORSE_TEST_TRANSACTIONS`` says another number.
"""

import asyncio
import os
import random
import sqlite3
import sys
import threading
from collections import Counter
from typing import Any

import psycopg
import pytest

from packhorse import App
from packhorse.jobs.portal import PORTAL
from tests.conftest import kinds
from tests.features.callers import MINE, TABLE, Callers
from tests.features.factories import everything, until

WRITERS = 8
USUAL = 50_000 if os.environ.get("PACKHORSE_TEST_LONG") else 1600
TRANSACTIONS = int(os.environ.get("PACKHORSE_TEST_TRANSACTIONS", USUAL))
OPEN = 3  # transactions of a writer that are open at once, where a database can have more than one


@pytest.fixture(params=[kind for kind in kinds() if kind in Callers.KINDS])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Writer(threading.Thread):
    """A program of its own: its loop, its connections, its share of the numbers."""

    def __init__(self, app: App, callers: Callers, names: list[str], numbers: range, seed: int) -> None:
        super().__init__(name=f"writer-{seed}")
        self._app, self._callers, self._names, self._numbers = app, callers, names, numbers
        self._random = random.Random(seed)
        self.committed: list[tuple[int, str]] = []
        self.rolled_back = 0
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            asyncio.run(self._all())
        except BaseException as error:
            self.error = error

    async def _all(self) -> None:
        share = len(self._numbers) // len(self._names)
        for at, name in enumerate(self._names):
            last = at == len(self._names) - 1
            await self._by(name, self._numbers[at * share : None if last else (at + 1) * share])
        await self._app.close()

    async def _by(self, name: str, numbers: range) -> None:
        """All transactions by one adapter, several open at once and ended in any order."""
        many = 1 if self._callers.kind == "sqlite" else OPEN
        opened: list[Any] = [self._callers.open(self._app, name) for _ in range(many)]
        begins = [await one.__aenter__() for one in opened]
        for at in range(0, len(numbers), many):
            ends = []
            for number, begin in zip(numbers[at : at + many], begins, strict=False):
                transaction = await begin()
                await transaction.write(number)
                job = await transaction.enqueue(self._app.queue("writers").call("note", {"number": number}))
                ends.append((number, job.id, transaction))
            self._random.shuffle(ends)
            for number, job, transaction in ends:
                if self._random.random() < 0.1:
                    await transaction.rollback()
                    self.rolled_back += 1
                else:
                    await transaction.commit()
                    self.committed.append((number, job))
        for one in opened:
            await one.__aexit__(None, None, None)


async def test_s56_exactly_the_committed_jobs_of_many_writers_exist_and_run(make: Any, kind: str, url: str):
    app, producing = make(), make()
    await app.open()
    _prepare(kind, url)
    ran: Counter[int] = Counter()

    @app.task(name="note", queue="writers", keep_done=10_000_000)
    async def note(number: int) -> None:
        ran[number] += 1

    names = list(Callers.KINDS[kind])
    share = TRANSACTIONS // WRITERS
    writers = [
        Writer(producing, Callers(kind, url), names[at % len(names) :] + names[: at % len(names)], numbers, at)
        for at in range(WRITERS)
        for numbers in [range(at * share, (at + 1) * share)]
    ]
    async with app.worker("writers", concurrency=50):
        for writer in writers:
            writer.start()
        for writer in writers:
            await asyncio.to_thread(writer.join)
        assert [writer.error for writer in writers if writer.error] == []
        committed = dict(pair for writer in writers for pair in writer.committed)

        async def all_ran() -> bool:
            return len(ran) >= len(committed)

        await until(all_ran, 60)
    await asyncio.to_thread(producing.sync.close)
    PORTAL.stop()

    assert sum(writer.rolled_back for writer in writers) + len(committed) == share * WRITERS
    assert ran == Counter(committed.keys())
    assert sorted(committed.values()) == sorted(job.id for job in await everything(app))
    assert _rows(kind, url) == sorted(committed)
    sys.stdout.write(f"\n{kind}: {len(committed):,} of {share * WRITERS:,} transactions committed, as many jobs ran\n")


def _connected(kind: str, url: str) -> Any:
    return sqlite3.connect(url.removeprefix("sqlite:///"), timeout=30) if kind == "sqlite" else psycopg.connect(url)


def _prepare(kind: str, url: str) -> None:
    connection = _connected(kind, url)
    connection.execute(TABLE)
    connection.execute(f"delete from {MINE}")
    connection.commit()
    connection.close()


def _rows(kind: str, url: str) -> list[int]:
    connection = _connected(kind, url)
    rows = sorted(row[0] for row in connection.execute(f"select n from {MINE}").fetchall())
    connection.close()
    return rows
