"""Repair of what was changed by hand: jobs are checked against their rows, and counts against lists.

Packhorse itself never leaves them inconsistent; deleting keys or fields by hand does.
"""

import logging
from collections.abc import AsyncIterator, Sequence

from packhorse.model.clock import SYSTEM
from packhorse.model.ids import JobId, id_text
from packhorse.model.job import LEASE_US
from packhorse.stores.redis.keyspace import Keyspace

SAMPLE_EVERY_US = 10_000_000
SEARCH_EVERY_US = 600_000_000  # at least this long between two searches of a store whose counts do not fit
LIST_PAGE, JOBS_PER_CALL = 1000, 100
MAX_LISTED_IDS = 500_000  # ids of lists that are held in memory during a search
NO_JOB = bytes(16)
MAX_LOGGED = 10
_LOG = logging.getLogger("packhorse")


class Repair:
    """Checks a random sample of jobs; if counts do not fit, it searches the lists for every job."""

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace
        self._next_sample = self._next_search = 0
        self._scan_cursor = b"0"  # of the scan over counts: each call compares a part of them

    async def run_if_due(self) -> list[str]:
        """Check a sample if it is time for one, and return what was repaired."""
        now = SYSTEM.steady()
        if now < self._next_sample:
            return []
        self._next_sample = now + SAMPLE_EVERY_US
        fits, repaired = await self._repair(())
        if not fits and now >= self._next_search:
            self._next_search = now + SEARCH_EVERY_US
            repaired += await self._search_all()
        if repaired:
            _LOG.warning("The store was changed by hand; repaired: %s", ", ".join(repaired[:MAX_LOGGED]))
        return repaired

    async def _search_all(self) -> list[str]:
        repaired: list[str] = []
        listed: set[bytes] = set()
        async for entries in self._list_entries():
            listed.update(entries)
            if len(listed) > MAX_LISTED_IDS:
                return repaired  # jobs that are missing from lists are few among so many
        async for ids in self._jobs():
            missing = [job for job in ids if job not in listed]
            for first in range(0, len(missing), JOBS_PER_CALL):
                repaired += (await self._repair(missing[first : first + JOBS_PER_CALL]))[1]
        self._scan_cursor = b"0"
        while True:  # compare the counts of all queues, even if no job was checked
            repaired += (await self._repair((NO_JOB,)))[1]
            if self._scan_cursor == b"0":
                return [*repaired, "counts"]

    async def _repair(self, ids: Sequence[JobId]) -> tuple[bool, list[str]]:
        """Check these jobs, or a sample; return whether the counts fit, and what was repaired."""
        fits, self._scan_cursor, repaired = await self._keyspace.run(
            "repair", lease=LEASE_US, cursor=self._scan_cursor, targets=list(ids)
        )
        jobs = zip(repaired[::2], repaired[1::2], strict=True)
        return fits == b"1", [f"job {id_text(job)} {wrong.decode()}" for job, wrong in jobs]

    async def _jobs(self) -> AsyncIterator[list[bytes]]:
        """Yield the ids of all jobs, a page at a time."""
        cursor = b"0"
        while True:
            cursor, fields = await self._keyspace.read("HSCAN", "jobs", None, cursor, "COUNT", JOBS_PER_CALL)
            yield [job for job in fields[::2] if job]
            if cursor == b"0":
                return

    async def _list_entries(self) -> AsyncIterator[list[bytes]]:
        """Yield the entries of ready lists and lanes, a page at a time; jobs that move meanwhile may be missed."""
        queues = {field.rpartition(b"\x1f")[0] for field in await self._keyspace.read("HKEYS", "counts")}
        for queue in queues:
            for priority in await self._keyspace.read("ZRANGE", "priorities", queue, 0, -1):
                async for entries in self._pages("ready", b"%s\x1f%s" % (queue, priority)):
                    yield entries
        for lane in await self._keyspace.read("HKEYS", "lane_slots"):
            async for entries in self._pages("lane", lane):
                yield entries

    async def _pages(self, kind: str, name: bytes) -> AsyncIterator[list[bytes]]:
        """Yield the entries of one list, a page at a time."""
        first = 0
        while entries := await self._keyspace.read("LRANGE", kind, name, first, first + LIST_PAGE - 1):
            yield entries
            first += LIST_PAGE
