"""Records: small keyed values with versions, and the jobs that wait for them."""

from collections.abc import Sequence

from packhorse.model.effect import Put
from packhorse.model.job import State
from packhorse.model.page import Page
from packhorse.model.record import Record
from packhorse.stores import edge
from packhorse.stores.cursor import cursor_of, key_after
from packhorse.stores.sql.prefix import between
from packhorse.stores.sqlite.handle import StoreHandle
from packhorse.stores.sqlite.lanes import admit
from packhorse.stores.sqlite.places import PlacedJob, facts, leave
from packhorse.stores.sqlite.unit_of_work import SQL, UnitOfWork, as_json


def version(step: UnitOfWork, kind: str, key: str) -> int:
    """The version of a record, 0 if it is absent or has expired."""
    row = step.row(SQL.record, kind, key)
    return row[0] if row is not None and (not row[1] or row[1] > step.now) else 0


def expected(step: UnitOfWork, put: Put) -> bool:
    """Whether a put finds what it expects."""
    return put.expect is None or version(step, put.kind, put.key) == put.expect


def write(step: UnitOfWork, put: Put) -> tuple[int, bool]:
    """Write a record whatever was expected; its new version (0 if dropped) and whether it was not there before."""
    if put.value is not None:
        return write_value(step, put.kind, put.key, put.value, put.due, put.expires)
    before = version(step, put.kind, put.key)
    step.run(SQL.drop_record, put.kind, put.key)
    return 0, before == 0


def write_value(
    step: UnitOfWork, kind: str, key: str, value: bytes, due: int = 0, expires: int = 0
) -> tuple[int, bool]:
    """Write a value of any size; its new version and whether there was none before."""
    before = version(step, kind, key)
    after = max(before + 1, step.now)
    step.run(SQL.write_record, kind, key, after, due, expires, value)
    waiting = [PlacedJob(*row) for row in step.rows(SQL.waiting_on, kind, key, after)]
    if waiting:
        leave(step, State.WAITING, waiting)
        admit(step, [(placed, step.now) for placed in waiting], facts(step, [placed.seq for placed in waiting]))
    return after, before == 0


class SQLiteRecords:
    """Small keyed values with versions."""

    def __init__(self, database: StoreHandle) -> None:
        self._database = database

    async def put(self, puts: Sequence[Put]) -> list[int | None]:
        """Write records by compare-and-set."""
        edge.puts(puts)

        def work(step: UnitOfWork) -> list[int | None]:
            return [write(step, put)[0] if expected(step, put) else None for put in puts]

        return await self._database.write(work)

    async def get(self, kind: str, keys: Sequence[str]) -> list[Record | None]:
        """Answer each key with its record, or None."""
        edge.keys(kind, keys)

        def work(step: UnitOfWork) -> list[Record | None]:
            rows = step.rows(SQL.get_records, kind, as_json(keys), step.now)
            found = {index: Record(kind, keys[index], *rest) for index, *rest in rows}
            return [found.get(index) for index in range(len(keys))]

        return await self._database.read(work)

    async def find(self, kind: str, *, prefix: str = "", limit: int = 100, cursor: str | None = None) -> Page[Record]:
        """Answer the records of a kind by prefix, page by page."""
        edge.prefix(kind, prefix)
        edge.limit(limit)
        last = key_after(cursor)

        def work(step: UnitOfWork) -> Page[Record]:
            rows = step.rows(SQL.find_records, kind, *between(prefix, last), step.now, limit)
            items = tuple(Record(kind, *row) for row in rows)
            return Page(items, cursor_of(items[-1].key) if len(items) == limit else None)

        return await self._database.read(work)

    async def due(self, kind: str, limit: int) -> list[Record]:
        """Answer records whose due moment has come, soonest first."""
        edge.keys(kind, ())
        edge.limit(limit)
        return await self._database.read(
            lambda step: [Record(kind, *row) for row in step.rows(SQL.due_records, kind, step.now, limit)]
        )

    async def drop(self, kind: str, keys: Sequence[str]) -> int:
        """Remove records and say how many were there."""
        edge.keys(kind, keys)
        return await self._database.write(
            lambda step: step.run(SQL.drop_records, kind, as_json(keys), step.now).rowcount
        )
