"""What can be done to jobs: replay, cancel, remove."""

from packhorse.cli.bulk import ENDED, OPEN, Act
from packhorse.model.ids import JobId
from packhorse.model.job import State
from packhorse.stores.contract import Store


async def _replay(store: Store, ids: list[JobId]) -> list[bool]:
    return await store.jobs.replay(ids)


async def _cancel(store: Store, ids: list[JobId]) -> list[bool]:
    """A running job stays running until its worker has heard of it; one that had ended before is not counted."""
    before = await store.jobs.get(ids)
    after = await store.jobs.cancel(ids)
    return [
        was is not None and not was.state.ended and now in (State.CANCELLED, State.RUNNING)
        for was, now in zip(before, after, strict=True)
    ]


async def _drop(store: Store, ids: list[JobId]) -> list[bool]:
    return await store.jobs.drop(ids)


REPLAY = Act("replayed", (State.DEAD, State.CANCELLED), _replay)
CANCEL = Act("cancelled", OPEN, _cancel)
REMOVE = Act("removed", (*OPEN, *ENDED), _drop)
