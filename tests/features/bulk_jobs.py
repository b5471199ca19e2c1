"""Jobs for tests of bulk actions, and what became of them."""

from typing import Any

from packhorse import App
from packhorse.bulk.bulk import INLINE_JOBS
from packhorse.jobs.search import PAGE_SIZE
from packhorse.model.lease import Settlement
from tests.factories import DEAD, new, put_in, take

MANY = INLINE_JOBS + PAGE_SIZE + 300  # four pages, the last one not full


async def make_ready(app: App, count: int, queue: str = "mail", **options: Any) -> list[bytes]:
    """Jobs that are ready, or scheduled with a delay."""
    store, ids = await app.store(), list[bytes]()
    while len(ids) < count:
        some = min(PAGE_SIZE, count - len(ids))
        ids += await put_in(store, *(new("mail", queue=queue, **options) for _ in range(some)))
    return ids


async def make_dead(app: App, count: int, queue: str = "mail") -> list[bytes]:
    """Jobs that are dead, in the order of their deaths."""
    store, made = await app.store(), await make_ready(app, count, queue)
    while leases := await take(store, PAGE_SIZE, queue):
        await store.jobs.exchange([Settlement(lease, DEAD) for lease in leases])
    return made


async def counts(app: App, queue: str = "mail") -> dict[str, int]:
    return {state: count for state, count in (await app.queue(queue).counts()).items() if count}


async def audited(app: App) -> list[tuple[object, ...]]:
    return [(entry.action, entry.filter, entry.outcome.value, entry.count) async for entry in app.audit]
