"""A journal that a power cut has ended anywhere: the file is what it was after the last commit that was synced before."""

import asyncio
import random
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from packhorse.model.lease import Lease
from packhorse.stores import open_store
from packhorse.stores.sqlite.store import SQLiteStore
from packhorse.testing import TurnedClock
from tests.integration.torn import LONG, audit, work

CUTS = 20_000 if LONG else 500
BACKFILLS = 2_000 if LONG else 40
AUDITS = 500 if LONG else 12
HEADER, FRAME_HEADER, PAGE = 32, 24, 4096
FRAME = FRAME_HEADER + PAGE


class Past(NamedTuple):
    """A file and its journal after some work, and what the file held after each acknowledged call, by journal length."""

    file: bytes
    journal: bytes
    states: dict[int, str]
    held: list[Lease]
    now: int


class Noting:
    """The verbs of a facet; after each answer something is noted."""

    def __init__(self, facet: Any, note: Callable[[], None]) -> None:
        self._facet = facet
        self._note = note

    def __getattr__(self, verb: str) -> Callable[..., Awaitable[Any]]:
        async def call(*args: Any, **options: Any) -> Any:
            answer = await getattr(self._facet, verb)(*args, **options)
            self._note()
            return answer

        return call


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Past:
    return asyncio.run(lived(tmp_path_factory.mktemp("past") / "store.db"))


async def lived(path: Path) -> Past:
    clock = TurnedClock()
    store = open_store(f"sqlite:///{path}", clock=clock)
    assert isinstance(store, SQLiteStore)
    await store.migrate()
    await store.open()
    journal = Path(f"{path}-wal")
    states: dict[int, str] = {}
    with closing(sqlite3.connect(path)) as reader:

        def note() -> None:
            states[journal.stat().st_size] = contents(reader)

        note()
        store.jobs = Noting(store.jobs, note)  # type: ignore[assignment]
        held = await work(store, clock, random.Random(7))
        past = Past(path.read_bytes(), journal.read_bytes(), states, held, clock.now())
    await store.close()
    assert len(past.journal) == max(states), "the journal began anew meanwhile: what was noted means nothing"
    return past


def contents(connection: sqlite3.Connection) -> str:
    """All that a file holds, in short."""
    return sha256("\n".join(connection.iterdump()).encode()).hexdigest()


def laid(path: Path, file: bytes, journal: bytes) -> Path:
    """A file and its journal as a machine finds them after the power is back."""
    path.write_bytes(file)
    Path(f"{path}-wal").write_bytes(journal)
    Path(f"{path}-shm").unlink(missing_ok=True)
    return path


def recovered(path: Path) -> str:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA synchronous = OFF")  # what is closed here need not survive
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return contents(connection)


def cut(past: Past, place: int, chance: random.Random) -> bytes:
    """A journal that ends somewhere, or has a hole there: what was not synced may be written in any order."""
    if chance.random() < 0.5:
        return past.journal[:place]
    hole = min(chance.choice((1, 512, PAGE)), len(past.journal) - place)
    return (
        past.journal[:place]
        + bytes(byte ^ 0xFF for byte in past.journal[place : place + hole])
        + past.journal[place + hole :]
    )


def places(past: Past, chance: random.Random) -> list[int]:
    """Where to cut: half of them between frames, half anywhere, none before the first call was acknowledged."""
    first, last = min(past.states), len(past.journal)
    frames = range(first, last + 1, FRAME)
    return [chance.choice(frames) if n % 2 else chance.randrange(first, last) for n in range(CUTS)]


def test_a_journal_cut_anywhere_gives_what_was_acknowledged_before_and_nothing_else(past: Past, tmp_path: Path):
    chance = random.Random(11)
    met = set()
    for place in places(past, chance):
        path = laid(tmp_path / "store.db", past.file, cut(past, place, chance))
        last = max(size for size in past.states if size <= place)
        assert recovered(path) == past.states[last], f"cut at {place}"
        met.add(last)
    assert len(met) > len(past.states) // 2


def test_a_checkpoint_that_was_cut_off_is_made_good_by_the_journal(past: Past, tmp_path: Path):
    chance = random.Random(13)
    frames = [past.journal[start : start + FRAME] for start in range(HEADER, len(past.journal), FRAME)]
    for _ in range(BACKFILLS):
        file = bytearray(past.file)
        for frame in chance.sample(frames, chance.randint(1, len(frames))):
            start = (int.from_bytes(frame[:4], "big") - 1) * PAGE
            torn = chance.choice((512, PAGE, PAGE))
            file.extend(bytes(max(0, start + PAGE - len(file))))
            file[start : start + torn] = frame[FRAME_HEADER : FRAME_HEADER + torn]
        path = laid(tmp_path / "store.db", bytes(file), past.journal)
        assert recovered(path) == past.states[len(past.journal)]


async def test_after_a_cut_every_job_has_one_place_and_can_be_run(past: Past, tmp_path: Path):
    chance = random.Random(17)
    for place in chance.sample(places(past, chance), AUDITS):
        path = laid(tmp_path / "store.db", past.file, cut(past, place, chance))
        clock = TurnedClock(past.now)
        store = open_store(f"sqlite:///{path}", clock=clock)
        await store.open()
        try:
            await audit(store, past.held, clock)
        finally:
            await store.close()
