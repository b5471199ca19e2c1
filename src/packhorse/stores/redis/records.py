"""Small keyed values with versions."""

from collections.abc import Sequence
from struct import Struct
from typing import Any

from packhorse.model.effect import Put
from packhorse.model.page import Page
from packhorse.model.record import Record
from packhorse.stores import edge
from packhorse.stores.cursor import cursor_of, key_after
from packhorse.stores.redis.keyspace import Keyspace
from packhorse.stores.redis.settling import put_options

_TIMES = Struct(">ddd")


class RedisRecords:
    """The records facet."""

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace

    async def put(self, puts: Sequence[Put]) -> list[int | None]:
        """Write records by compare-and-set and return each new version, or None if the expectation failed."""
        edge.puts(puts)
        if not puts:
            return []
        rows: list[Any] = []
        for put in puts:
            rows += (put.kind, put.key, put_options(put), put.value or b"")
        versions = await self._keyspace.run("put", puts=rows)
        return [int(version) if version else None for version in versions]

    async def get(self, kind: str, keys: Sequence[str]) -> list[Record | None]:
        """Return the record of each key, or None."""
        edge.keys(kind, keys)
        if not keys:
            return []
        texts = await self._keyspace.run("get_records", kind=kind, names=list(keys))
        return [_record(kind, key, text) if text else None for key, text in zip(keys, texts, strict=True)]

    async def find(self, kind: str, *, prefix: str = "", limit: int = 100, cursor: str | None = None) -> Page[Record]:
        """Return a page of the records of a kind whose keys begin with a prefix, ordered by key."""
        edge.prefix(kind, prefix)
        edge.limit(limit)
        after = key_after(cursor)
        # No key holds the byte 255, so it stands behind every key with the prefix.
        first = f"({after}" if after else f"[{prefix}"
        last, *found = await self._keyspace.run(
            "find_records", kind=kind, **{"from": first}, upto=b"(" + prefix.encode() + b"\xff", limit=limit
        )
        items = tuple(_record(kind, name.decode(), text) for name, text in zip(found[::2], found[1::2], strict=True))
        return Page(items, cursor_of(last.decode()) if last else None)

    async def due(self, kind: str, limit: int) -> list[Record]:
        """Return records that are due, soonest first."""
        edge.keys(kind, ())
        edge.limit(limit)
        found = await self._keyspace.run("due_records", kind=kind, limit=limit)
        return [_record(kind, name.decode(), text) for name, text in zip(found[::2], found[1::2], strict=True)]

    async def drop(self, kind: str, keys: Sequence[str]) -> int:
        """Remove records and return how many existed."""
        edge.keys(kind, keys)
        if not keys:
            return 0
        return int(await self._keyspace.run("drop_records", kind=kind, names=list(keys)))


def _record(kind: str, key: str, text: bytes) -> Record:
    version, due, expires = _TIMES.unpack_from(text)
    return Record(kind, key, text[_TIMES.size :], int(version), int(due), int(expires))
