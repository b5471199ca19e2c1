"""A program of one release: for each line it reads, it enqueues a job, claims it, prints how long the lease lasts, and ends it.

``python claiming.py URL NAMESPACE``: run with the package of that release, so it imports nothing of the tests.
"""

import asyncio
import sys

from packhorse.errors import StoreError
from packhorse.model.ids import new_id, new_token
from packhorse.model.job import NewJob
from packhorse.model.lease import ClaimRequest, Settlement, Share
from packhorse.model.outcome import Done
from packhorse.stores import open_store
from packhorse.stores.contract import Store

LEASE = 10_000_000


async def lease_length(store: Store, queue: str) -> int:
    await store.jobs.enqueue([NewJob(task="work", queue=queue)])
    claim = ClaimRequest(worker=new_id(), token=new_token(), lease=LEASE, shares=(Share(queue, 1),))
    [lease] = (await store.jobs.exchange([], claim)).leases
    await store.jobs.exchange([Settlement(lease, Done())])
    return lease.until - lease.claimed


async def main(url: str, namespace: str) -> None:
    store = open_store(url, namespace=namespace)
    await store.open()
    queue = new_id().hex()
    while await asyncio.to_thread(sys.stdin.readline):
        try:
            answer = str(await lease_length(store, queue))
        except StoreError as error:
            answer = type(error).__name__
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
