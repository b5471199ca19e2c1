"""Small keyed values with versions."""

import base64
import binascii
from collections.abc import Sequence

from packhorse.errors import InvalidName, InvalidOption
from packhorse.model import caps
from packhorse.model.effect import Put
from packhorse.model.page import Page
from packhorse.model.record import Record
from packhorse.stores.postgres import rows, wire
from packhorse.stores.postgres.namespace import Namespace
from packhorse.stores.sql.prefix import between


class PostgresRecords:
    """The records of a namespace."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace

    async def put(self, puts: Sequence[Put]) -> list[int | None]:
        """Write records by compare-and-set and answer each new version, or None where the expectation failed."""
        caps.items("puts", puts)
        return [version for (version,) in await self._namespace.write("put", wire.puts(puts), self._namespace.now())]

    async def get(self, kind: str, keys: Sequence[str]) -> list[Record | None]:
        """Answer each key with its record, or None."""
        _check(kind, keys)
        found = {row[1]: rows.record(row) for row in await self._namespace.read("get_records", kind, keys, self._now())}
        return [found.get(key) for key in keys]

    async def find(self, kind: str, *, prefix: str = "", limit: int = 100, cursor: str | None = None) -> Page[Record]:
        """Answer the records of a kind whose key begins with a prefix, in the order of their keys, page by page."""
        _check(kind, [prefix] if prefix else [])
        caps.within("limit", limit, 1, caps.LOOKED_AT)
        last = _key(cursor) if cursor else ""
        found = [
            rows.record(row)
            for row in await self._namespace.read("find_records", kind, *between(prefix, last), limit, self._now())
        ]
        return Page(tuple(found), _cursor(found[-1].key) if len(found) == limit else None)

    async def due(self, kind: str, limit: int) -> list[Record]:
        """Answer records whose due moment has come, soonest first."""
        _check(kind, [])
        caps.within("limit", limit, 1, caps.LOOKED_AT)
        return [rows.record(row) for row in await self._namespace.read("due_records", kind, limit, self._now())]

    async def drop(self, kind: str, keys: Sequence[str]) -> int:
        """Remove records and say how many were there."""
        _check(kind, keys)
        [[removed]] = await self._namespace.write("drop_records", kind, keys, self._now())
        return int(removed)

    def _now(self) -> int | None:
        return self._namespace.now()


def _check(kind: str, keys: Sequence[str]) -> None:
    caps.name("record kind", kind)
    caps.items("keys", keys)
    for key in keys:
        caps.key("record key", key)


def _cursor(key: str) -> str:
    return base64.urlsafe_b64encode(key.encode()).decode()


def _key(cursor: str) -> str:
    try:
        key = base64.b64decode(cursor.encode(), altchars=b"-_", validate=True).decode()
        caps.key("record key", key)
        return key
    except (UnicodeError, binascii.Error, InvalidName) as error:
        raise InvalidOption("cursor", cursor, "give the cursor of an earlier page") from error
