"""Now and then some jobs are looked at: whether they stand where their rows say, and whether the numbers fit.

Nothing of ours makes that untrue; somebody who deletes keys or fields by hand does.
"""

import logging
from collections.abc import AsyncIterator, Sequence

from packhorse.model.clock import SYSTEM
from packhorse.model.ids import JobId, id_text
from packhorse.model.job import LEASE
from packhorse.stores.redis.keyspace import Keyspace

EVERY = 10_000_000  # microseconds between two looks
PATIENCE = 600_000_000  # and between two searches of a store whose numbers do not fit
PAGE, TARGETS = 1000, 100
MOST = 500_000  # entries of lines that are held in memory while jobs are looked for
NOBODY = bytes(16)
SAID = 10
_LOG = logging.getLogger("packhorse")


class Mending:
    """Looks at a few jobs picked at random; where the numbers do not fit it looks for every job in every line."""

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace
        self._next = self._search = 0
        self._place = b"0"  # among the queues whose numbers are compared, some at each look

    async def look(self) -> list[str]:
        """One look, if it is time for one; answers what was put right."""
        now = SYSTEM.steady()
        if now < self._next:
            return []
        self._next = now + EVERY
        fits, said = await self._mend(())
        if not fits and now >= self._search:
            self._search = now + PATIENCE
            said += await self._search_all()
        if said:
            _LOG.warning("The store was touched by hand; put right: %s", ", ".join(said[:SAID]))
        return said

    async def _search_all(self) -> list[str]:
        said: list[str] = []
        lined: set[bytes] = set()
        async for entries in self._lines():
            lined.update(entries)
            if len(lined) > MOST:
                return said  # so many that jobs which are in no line are few against them
        async for ids in self._jobs():
            missing = [job for job in ids if job not in lined]
            for first in range(0, len(missing), TARGETS):
                said += (await self._mend(missing[first : first + TARGETS]))[1]
        self._place = b"0"
        while True:  # the numbers of all queues, also if no job was looked at
            said += (await self._mend((NOBODY,)))[1]
            if self._place == b"0":
                return [*said, "counts"]

    async def _mend(self, ids: Sequence[JobId]) -> tuple[bool, list[str]]:
        fits, self._place, mended = await self._keyspace.run("mend", lease=LEASE, place=self._place, targets=list(ids))
        jobs = zip(mended[::2], mended[1::2], strict=True)
        return fits == b"1", [f"job {id_text(job)} {wrong.decode()}" for job, wrong in jobs]

    async def _jobs(self) -> AsyncIterator[list[bytes]]:
        place = b"0"
        while True:
            place, fields = await self._keyspace.read("HSCAN", "jobs", None, place, "COUNT", TARGETS)
            yield [job for job in fields[::2] if job]
            if place == b"0":
                return

    async def _lines(self) -> AsyncIterator[list[bytes]]:
        """The entries of all lines, a page at a time; those that move meanwhile may be missed."""
        queues = {field.rpartition(b"\x1f")[0].decode() for field in await self._keyspace.read("HKEYS", "counts")}
        for queue in queues:
            for priority in await self._keyspace.read("ZRANGE", "priorities", queue, 0, -1):
                async for entries in self._pages("ready", f"{queue}\x1f{priority.decode()}"):
                    yield entries
        for turn in await self._keyspace.read("HKEYS", "held"):
            async for entries in self._pages("lane", turn.decode()):
                yield entries

    async def _pages(self, kind: str, name: str) -> AsyncIterator[list[bytes]]:
        first = 0
        while entries := await self._keyspace.read("LRANGE", kind, name, first, first + PAGE - 1):
            yield entries
            first += PAGE
