"""Small keyed values with versions."""

from collections.abc import Sequence
from struct import Struct
from typing import Any

from packhorse.model import caps
from packhorse.model.effect import Put
from packhorse.model.page import Page
from packhorse.model.record import Record
from packhorse.stores import edge
from packhorse.stores.redis.keyspace import Keyspace
from packhorse.stores.redis.settling import put_options

_TIMES = Struct(">ddd")


class Records:
    """The records facet."""

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace

    async def put(self, puts: Sequence[Put]) -> list[int | None]:
        """Write records by compare-and-set and answer each new version, or None where the expectation failed."""
        edge.puts(puts)
        if not puts:
            return []
        rows: list[Any] = []
        for put in puts:
            rows += (put.kind, put.key, put_options(put), put.value or b"")
        versions = await self._keyspace.run("put", puts=rows)
        return [int(version) if version else None for version in versions]

    async def get(self, kind: str, keys: Sequence[str]) -> list[Record | None]:
        """Answer each key with its record, or None."""
        edge.keys(kind, keys)
        if not keys:
            return []
        texts = await self._keyspace.run("get_records", kind=kind, names=list(keys))
        return [_record(kind, key, text) if text else None for key, text in zip(keys, texts, strict=True)]

    async def find(self, kind: str, *, prefix: str = "", limit: int = 100, cursor: str | None = None) -> Page[Record]:
        """Answer the records of a kind whose key begins with a prefix, in the order of their keys, page by page."""
        edge.limit(limit)
        edge.prefix(kind, prefix)
        if cursor:
            caps.key("cursor", cursor)
        # No key holds the byte 255, so it stands behind every key with the prefix.
        first = f"({cursor}" if cursor else f"[{prefix}"
        last, *found = await self._keyspace.run(
            "find_records", kind=kind, **{"from": first}, upto=b"(" + prefix.encode() + b"\xff", limit=limit
        )
        items = tuple(_record(kind, name.decode(), text) for name, text in zip(found[::2], found[1::2], strict=True))
        return Page(items, last.decode() or None)

    async def due(self, kind: str, limit: int) -> list[Record]:
        """Answer records whose due moment has come, soonest first."""
        edge.limit(limit)
        edge.prefix(kind, "")
        found = await self._keyspace.run("due_records", kind=kind, limit=limit)
        return [_record(kind, name.decode(), text) for name, text in zip(found[::2], found[1::2], strict=True)]

    async def drop(self, kind: str, keys: Sequence[str]) -> int:
        """Remove records and say how many were there."""
        edge.keys(kind, keys)
        if not keys:
            return 0
        return int(await self._keyspace.run("drop_records", kind=kind, names=list(keys)))


def _record(kind: str, key: str, text: bytes) -> Record:
    version, due, expires = _TIMES.unpack_from(text)
    return Record(kind, key, text[_TIMES.size :], int(version), int(due), int(expires))
