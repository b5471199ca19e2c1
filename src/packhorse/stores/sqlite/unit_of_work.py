"""One write verb inside a transaction: its moment, the numbers it hands out, what it has to report at the end."""

import re
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

import msgspec

from packhorse.model.event import Change, pack
from packhorse.model.ids import JobId
from packhorse.model.job import State
from packhorse.model.queue import ENQUEUED
from packhorse.stores.sql.statements import Statements

SQL = Statements("packhorse.stores.sqlite")

_ROW = re.compile(r"VALUES (\([?\d, ]+\))")
_READS = re.compile(r"(--.*\s+)*(SELECT|WITH)")  # what may be run twice
_BLOCK = 256


def as_json(rows: object) -> str:
    """Rows as the one JSON parameter of a statement."""
    return msgspec.json.encode(rows, enc_hook=str).decode()  # what is Unreadable has its replacements


class UnreadableText(str):
    """Text of a row that is not UTF-8, with replacements for bad bytes."""

    __slots__ = ()


def _shown(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return UnreadableText(data, errors="replace")


class UnitOfWork:
    """What a verb reads and writes with. Counts, events and hints are gathered and written once, by ``finish``."""

    def __init__(self, connection: sqlite3.Connection, now: int, number: int) -> None:
        self._connection, self.execute = connection, connection.execute
        self.now = now
        self.number = number
        self.work = False
        self.ends = False
        self.published = False
        self._counts: defaultdict[tuple[str, State], int] = defaultdict(int)
        self._changes: dict[Change, list[JobId]] = {}
        self._left: set[str] = set()
        self._past: defaultdict[tuple[str, str], int] = defaultdict(int)

    def run(self, statement: str, *values: object) -> sqlite3.Cursor:
        """Execute a statement with its values."""
        return self.execute(statement, values)

    def rows(self, statement: str, *values: object) -> list[Any]:
        """All rows of a statement; text that is not UTF-8 comes as ``UnreadableText``."""
        try:
            return self.execute(statement, values).fetchall()
        except sqlite3.OperationalError as error:
            return self._replaced(error, statement, values)

    def row(self, statement: str, *values: object) -> Any:
        """The first row of a statement, or None; text that is not UTF-8 comes as ``UnreadableText``."""
        try:
            return self.execute(statement, values).fetchone()
        except sqlite3.OperationalError as error:
            return next(iter(self._replaced(error, statement, values)), None)

    def _replaced(self, error: sqlite3.OperationalError, statement: str, values: Sequence[object]) -> list[Any]:
        """Read once more with replacements for bad bytes, if that is what was wrong."""
        if "decode to UTF-8" not in str(error) or not _READS.match(statement):
            raise error
        self._connection.text_factory = _shown
        try:
            return self.execute(statement, values).fetchall()
        finally:
            self._connection.text_factory = str

    def put(self, statement: str, rows: Sequence[Sequence[object]], *shared: object) -> int:
        """Insert rows by a statement that is written for one, and answer how many went in.

        What all rows share is bound once: it has numbers in the statement (?1, ?2) and stands before what has none.
        Blocks of a power of two keep the prepared statements few. Rows as one JSON parameter take twice the time
        (4.0 against 2.0 us a row of nine values), executemany 3.0 or more, and it gives up the GIL for each.
        """
        done = written = 0
        while left := len(rows) - done:
            size = min(_BLOCK, 1 << left.bit_length() - 1)
            values = [*shared, *chain.from_iterable(rows[done : done + size])]
            written += self.execute(_many(statement, size), values).rowcount
            done += size
        return written

    def next(self, count: int = 1) -> int:
        """The first of so many fresh numbers."""
        first = self.number + 1
        self.number += count
        return first

    def count(self, queue: str, state: State, by: int) -> None:
        """Note that a queue has more or fewer jobs in a state."""
        self._counts[queue, state] += by

    def left_end(self, queue: str, state: State, by: int) -> None:
        """Note that jobs of a queue have left their end."""
        self.count(queue, state, -by)
        self._past[queue, state] += by

    def removed(self, queue: str, by: int) -> None:
        """Note that jobs of a queue were removed; it is forgotten if it holds none any more."""
        self._past[queue, ENQUEUED] += by
        self._left.add(queue)

    def changed(self, change: Change, jobs: Iterable[JobId]) -> None:
        """Note what happened to jobs."""
        self._changes.setdefault(change, []).extend(jobs)

    def finish(self, *, events: bool) -> None:
        """Write what was gathered."""
        counts = [(queue, state, by) for (queue, state), by in self._counts.items() if by]
        if len(counts) == 1:
            self.execute(SQL.count, counts[0])
        elif counts:
            self.execute(SQL.counts, (as_json(counts),))
        if self._past:
            past = [(queue, what, by) for (queue, what), by in self._past.items() if by]
            self.execute(SQL.past_counts, (as_json(past),))
        for queue in self._left:
            self.execute(SQL.forget_empty_queue, (queue,))
        if events and (data := pack(self._changes)):
            self.execute(SQL.add_lifecycle, (self.now, data))


@lru_cache(maxsize=256)
def _many(statement: str, count: int) -> str:
    return _ROW.sub(lambda row: "VALUES " + ", ".join([row[1]] * count), statement)


def seqs_of(step: UnitOfWork, ids: Sequence[JobId]) -> list[int | None]:
    """The rowids of jobs, in the order of their ids."""
    found = dict(step.rows(SQL.seqs, b"".join(ids), as_json(range_list(len(ids)))))
    return [found.get(index) for index in range(len(ids))]


def range_list(count: int) -> list[int]:
    """0 to count - 1, to be joined with by a statement."""
    return list(range(count))
