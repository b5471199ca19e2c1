"""One of several processes that enqueue, claim, settle and close on one file as fast as they can.

``python -m tests.integration.sqlite_storm FILE SECONDS`` prints the ids it enqueued and those it settled, as JSON.
"""

import asyncio
import json
import sys
import time

from packhorse.model.lease import Settlement, Verdict
from packhorse.model.outcome import Done
from packhorse.stores import open_store
from packhorse.stores.sqlite import file
from tests.factories import new, new_id, put_in, take

BLOB = b'"' + b"x" * 3000 + b'"'


async def storm(path: str, seconds: float) -> dict[str, list[str]]:
    file.CHECKPOINT_PAGES, file.LONG_JOURNAL = 20, 1 << 20  # checkpoints all the time
    me, until = new_id(), time.monotonic() + seconds
    stored: list[str] = []
    settled: list[str] = []
    while time.monotonic() < until:
        store = open_store(f"sqlite:///{path}")
        await store.open()
        for _ in range(20):
            stored += [job.hex() for job in await put_in(store, *(new(payload=BLOB) for _ in range(5)))]
            leases = await take(store, 5, worker=me)
            verdicts = (await store.jobs.exchange([Settlement(lease, Done(b"1")) for lease in leases])).verdicts
            settled += [
                lease.id.hex() for lease, verdict in zip(leases, verdicts, strict=True) if verdict is Verdict.WRITTEN
            ]
            await store.jobs.count()
        await store.close()  # the last one out makes a checkpoint too
    return {"stored": stored, "settled": settled}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(storm(sys.argv[1], float(sys.argv[2])))))  # noqa: T201
