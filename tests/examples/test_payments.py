"""The payment example: killed workers and all, every payment is in the books once, or not at all."""

import asyncio
import importlib
import random
import signal
import sqlite3
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from packhorse import App, JobFailed
from tests.conftest import kinds
from tests.features.factories import until

ROOT = Path(__file__).parents[2]
KILLS, PAYMENTS, CENTS = 6, 120, 1000
NAMES = [f"account {number}" for number in range(5)]


@pytest.fixture(params=[kind for kind in kinds() if kind in ("sqlite", "postgres")])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def bank(place: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The bank as it runs at this address."""
    monkeypatch.setenv("PACKHORSE_URL", place)
    from examples.payments import bank

    return importlib.reload(bank)


@pytest.fixture
def books(kind: str, place: str) -> Callable[[str], list[Any]]:
    """What is in the books, seen from outside."""
    connect: Any = psycopg.connect if kind == "postgres" else sqlite3.connect
    address = place if kind == "postgres" else place.removeprefix("sqlite:///")

    def look(sql: str) -> list[Any]:
        connection = connect(address)
        try:
            cursor = connection.execute(sql)
            found = cursor.fetchall() if cursor.description else []
            connection.commit()
        finally:
            connection.close()
        return list(found)

    return look


async def worker() -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(sys.executable, "-m", "examples.payments.bank", "1s", cwd=ROOT)


async def test_s31_money_moves_once_however_often_workers_are_killed(bank, books):
    app: App = bank.app
    chance = random.Random(31)
    alive = [await worker(), await worker()]
    try:
        await (await bank.open_accounts.enqueue(NAMES, CENTS)).result(60)
        calls = [
            bank.pay.call(f"payment {number}", *chance.sample(NAMES, 2), chance.randint(1, 400))
            for number in range(PAYMENTS)
        ]
        jobs = await app.enqueue(*calls)
        for killed in range(KILLS):
            await until(partial(some, books, killed))
            alive[0].send_signal(signal.SIGKILL)
            await alive.pop(0).wait()
            alive.append(await worker())
        paid = set()
        for number, job in enumerate(jobs):
            try:
                await job.result(60)
                paid.add(f"payment {number}")
            except JobFailed:
                pass
    finally:
        for process in alive:
            process.send_signal(signal.SIGKILL)
            await process.wait()
        await app.close()

    entries = [payment for (payment,) in books("select payment from entries")]
    assert sorted(entries) == sorted(paid)
    assert 0 < len(paid) <= PAYMENTS
    assert sum(cents for (cents,) in books("select cents from accounts")) == CENTS * len(NAMES)


async def some(books: Callable[[str], list[Any]], killed: int) -> bool:
    """Whether enough was paid for the next kill to hit something."""
    [[count]] = books("select count(*) from entries")
    return bool(count >= killed * PAYMENTS // (KILLS * 3))


async def test_a_payment_that_cannot_be_made_leaves_no_trace(bank, books):
    app: App = bank.app
    async with app.worker("payments"):
        await (await bank.open_accounts.enqueue(NAMES[:2], 100)).result(30)
        job = await bank.pay.enqueue("too much", *NAMES[:2], 101)
        with pytest.raises(JobFailed, match="cannot pay 101"):
            await job.result(30)
    await app.close()

    assert books("select * from entries") == []
    assert sorted(cents for (cents,) in books("select cents from accounts")) == [100, 100]
