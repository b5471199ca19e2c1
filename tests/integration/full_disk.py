"""Fills the disk that a store lies on, frees some of it, and goes on; run in a process of its own on a disk of its own.

``python -m tests.integration.full_disk FOLDER ROUNDS`` prints what happened as JSON.
"""

import asyncio
import json
import resource
import shutil
import sqlite3
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

from packhorse.errors import OutcomeUnknown, StoreUnavailable
from packhorse.model.job import State
from packhorse.model.lease import Settlement
from packhorse.model.outcome import Done
from packhorse.stores import open_store
from packhorse.stores.contract import Store
from tests.conformance.invariants import check
from tests.factories import found, new, put_in, take

PAYLOAD = b'"' + b"x" * 20_000 + b'"'
ROOM = 2 << 20


class Disk:
    """Room that can be taken and given back: by a file, or where the disk is not ours, by a limit."""

    def __init__(self, folder: Path, limit: int | None) -> None:
        self._ballast = folder / "ballast"
        self._limit = limit

    def shrink(self, room: int = ROOM) -> None:
        if self._limit is None:
            free = shutil.disk_usage(self._ballast.parent).free
            self._ballast.write_bytes(bytes(max(0, free - room)))
        else:
            resource.setrlimit(resource.RLIMIT_FSIZE, (self._limit, resource.RLIM_INFINITY))

    def grow(self) -> None:
        if self._limit is None:
            self._ballast.unlink()
        else:
            self._limit += ROOM
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


async def fill(store: Store, refusals: Counter[str]) -> tuple[list[bytes], bytes]:
    """Enqueue until there is no room; what was acknowledged, and the one that was not."""
    stored: list[bytes] = []
    while True:
        job = new(payload=PAYLOAD)
        try:
            stored += await put_in(store, job)
        except (StoreUnavailable, OutcomeUnknown) as error:
            refusals[type(error).__name__] += 1
            return stored, job.id


async def settled_in_the_room_there_is(store: Store, disk: Disk) -> int:
    """Others take all that is left of the disk; the file has room inside, and the journal its own."""
    await store.jobs.drop(await put_in(store, *(new(payload=PAYLOAD) for _ in range(100))))
    await store.close()  # into the file with it
    await store.open()
    await put_in(store, *(new(payload=PAYLOAD) for _ in range(50)))
    leases = await take(store, 50)
    disk.shrink(room=0)
    for lease in leases:
        await store.jobs.exchange([Settlement(lease, Done(b"1" * 2000))])
    disk.grow()
    return len(leases)


async def story(folder: Path, rounds: int, limit: int | None) -> dict[str, object]:
    disk = Disk(folder, limit)
    path = folder / "store.db"
    store = open_store(f"sqlite:///{path}")
    await store.migrate()
    await store.open()
    refusals: Counter[str] = Counter()
    lost = 0
    verdicts: Counter[str] = Counter()
    for _ in range(rounds):
        await put_in(store, *(new(payload=PAYLOAD) for _ in range(20)))
        leases = await take(store, 10)
        disk.shrink()
        stored, refused = await fill(store, refusals)
        first = [Settlement(lease, Done()) for lease in leases[:5]]
        try:
            await store.jobs.exchange(first)
        except (StoreUnavailable, OutcomeUnknown) as error:
            refusals[type(error).__name__] += 1
        await store.jobs.count()  # can be read all the while
        disk.grow()
        known = {job.id for job in await found(store, limit=1000)}
        lost += len(set(stored) - known)
        await put_in(store, new(id=refused, payload=PAYLOAD))
        rest = [Settlement(lease, Done()) for lease in leases]
        verdicts.update((await store.jobs.exchange(rest)).verdicts)
        while more := await take(store, 100):
            await store.jobs.exchange([Settlement(lease, Done()) for lease in more])
        await check(store)
        await store.jobs.drop([job.id for job in await found(store, limit=1000, state=State.DONE)][:500])
    settled = await settled_in_the_room_there_is(store, disk) if limit is None else 0
    await store.close()
    with closing(sqlite3.connect(path)) as connection:
        integrity = [row[0] for row in connection.execute("PRAGMA integrity_check")]
    return {
        "refusals": refusals, "lost": lost, "verdicts": verdicts, "settled_when_full": settled, "integrity": integrity,
    }  # fmt: skip


if __name__ == "__main__":
    place, count = Path(sys.argv[1]), int(sys.argv[2])
    most = int(sys.argv[3]) if len(sys.argv) > 3 else None
    print(json.dumps(asyncio.run(story(place, count, most))))  # noqa: T201
