"""Small keyed values with versions."""

from collections.abc import Sequence

from packhorse.model.effect import Put
from packhorse.model.page import Page
from packhorse.model.record import Record
from packhorse.stores import edge
from packhorse.stores.cursor import cursor_of, key_after
from packhorse.stores.postgres import encoding, rows
from packhorse.stores.postgres.namespace import Namespace
from packhorse.stores.sql.prefix import between


class PostgresRecords:
    """The records of a namespace."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace

    async def put(self, puts: Sequence[Put]) -> list[int | None]:
        """Write records by compare-and-set and answer each new version, or None where the expectation failed."""
        edge.puts(puts)
        versions = await self._namespace.call("put_records", encoding.puts(puts), self._namespace.now())
        return [version for (version,) in versions]

    async def get(self, kind: str, keys: Sequence[str]) -> list[Record | None]:
        """Answer each key with its record, or None."""
        edge.keys(kind, keys)
        found = {row[1]: rows.record(row) for row in await self._namespace.read("get_records", kind, keys, self._now())}
        return [found.get(key) for key in keys]

    async def find(self, kind: str, *, prefix: str = "", limit: int = 100, cursor: str | None = None) -> Page[Record]:
        """Answer the records of a kind whose key begins with a prefix, in the order of their keys, page by page."""
        edge.prefix(kind, prefix)
        edge.limit(limit)
        last = key_after(cursor)
        found = [
            rows.record(row)
            for row in await self._namespace.read("find_records", kind, *between(prefix, last), limit, self._now())
        ]
        return Page(tuple(found), cursor_of(found[-1].key) if len(found) == limit else None)

    async def due(self, kind: str, limit: int) -> list[Record]:
        """Answer records whose due moment has come, soonest first."""
        edge.keys(kind, ())
        edge.limit(limit)
        return [rows.record(row) for row in await self._namespace.read("due_records", kind, limit, self._now())]

    async def drop(self, kind: str, keys: Sequence[str]) -> int:
        """Remove records and say how many were there."""
        edge.keys(kind, keys)
        [[removed]] = await self._namespace.write("drop_records", kind, keys, self._now())
        return int(removed)

    def _now(self) -> int | None:
        return self._namespace.now()
