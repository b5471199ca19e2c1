"""Bulk actions on jobs: replay, cancel, remove."""

from packhorse.cli.bulk import ENDED, OPEN, BulkAction
from packhorse.model.ids import JobId
from packhorse.model.job import State
from packhorse.stores.contract import Store


async def _replay(store: Store, ids: list[JobId]) -> list[bool]:
    return await store.jobs.replay(ids)


async def _cancel(store: Store, ids: list[JobId]) -> list[bool]:
    """Cancel jobs; a running one stays running until its worker stops it. Ended jobs are not counted."""
    before = await store.jobs.get(ids, bodies=False)
    after = await store.jobs.cancel(ids)
    return [
        was is not None and not was.state.ended and now in (State.CANCELLED, State.RUNNING)
        for was, now in zip(before, after, strict=True)
    ]


async def _drop(store: Store, ids: list[JobId]) -> list[bool]:
    return await store.jobs.drop(ids)


REPLAY = BulkAction("replayed", (State.DEAD, State.CANCELLED), _replay)
CANCEL = BulkAction("cancelled", OPEN, _cancel)
REMOVE = BulkAction("removed", (*OPEN, *ENDED), _drop)
