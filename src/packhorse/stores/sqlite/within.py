"""Verbs as work for a connection of the caller's own: the same steps, on its thread, within its transaction."""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

from packhorse.errors import OtherDatabase, StoreUnavailable
from packhorse.model.job import NewJob, Receipt
from packhorse.model.lease import Lease, Settlement, Verdict
from packhorse.stores import edge
from packhorse.stores.contract import Routine
from packhorse.stores.sqlite.database import SQLiteDatabase
from packhorse.stores.sqlite.enqueue import enqueue
from packhorse.stores.sqlite.errors import translated
from packhorse.stores.sqlite.settle import SettlementWriter, keep_notes
from packhorse.stores.sqlite.unit_of_work import SQL, UnitOfWork

T = TypeVar("T")


class SQLiteWithin:
    """What can be part of a transaction of the caller's own."""

    def __init__(self, database: SQLiteDatabase) -> None:
        self._database = database

    def enqueue(self, jobs: Sequence[NewJob]) -> Routine[list[Receipt]]:
        """Store jobs within a transaction of the caller's own."""
        edge.jobs(jobs)
        return Routine(partial(self._run, lambda step: enqueue(step, jobs)))

    def check(self) -> Routine[None]:
        """Refuse a connection to another file."""
        return Routine(self._check)

    def settle(
        self, settlements: Sequence[Settlement], notes: Sequence[tuple[Lease, bytes]] = ()
    ) -> Routine[tuple[Verdict, ...]]:
        """Write outcomes with their effects within a transaction of the caller's own."""
        edge.settlements(settlements)
        edge.notes(notes)
        leases = [settlement.lease for settlement in settlements]

        def work(step: UnitOfWork) -> tuple[Verdict, ...]:
            keep_notes(step, notes)
            return tuple(SettlementWriter(step, leases).all(settlements))

        return Routine(partial(self._run, work))

    def _run(self, work: Callable[[UnitOfWork], T], connection: sqlite3.Connection) -> T:
        with _plain(connection), _translating():
            self._compare(connection)
            at, number = connection.execute(SQL.enter, (self._database.write_batch.now(),)).fetchone()
            connection.execute(SQL.save)
            try:
                step = UnitOfWork(connection, self._database.write_batch.moment(at), number)
                result = work(step)
                self._database.write_batch.finish(step)
            except BaseException:
                connection.execute(SQL.undo)
                raise
            finally:
                connection.execute(SQL.keep)
            return result

    def _check(self, connection: sqlite3.Connection) -> None:
        with _plain(connection), _translating():
            self._compare(connection)

    def _compare(self, connection: sqlite3.Connection) -> None:
        file = connection.execute(SQL.database_list).fetchall()[0][2]
        try:
            same = Path(file).samefile(self._database.path)
        except OSError:  # in memory, or gone
            same = False
        if not same:
            raise OtherDatabase(f"The connection is to {file or 'memory'}, the store is {self._database.path}")


@contextmanager
def _plain(connection: sqlite3.Connection) -> Iterator[None]:
    """Let rows be tuples and text be text for a while, whatever the caller made of them."""
    rows, text = connection.row_factory, connection.text_factory
    connection.row_factory, connection.text_factory = None, str
    try:
        yield
    finally:
        connection.row_factory, connection.text_factory = rows, text


@contextmanager
def _translating() -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        if "no such table: packhorse_moment" in str(error):
            raise OtherDatabase("The connection is to a file without a store") from error
        if "locked" in str(error) or "busy" in str(error):
            raise StoreUnavailable(
                f"Another connection writes ({error}): begin with BEGIN IMMEDIATE, which waits for it before anything is "
                "read, and keep transactions short"
            ) from error
        made = translated(error)
        raise made from error
