"""Reading the pieces of a result while its job still runs."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import msgspec

from packhorse.engine.emitted import HELD_MAX_EFFECTS
from packhorse.errors import JobNotFound
from packhorse.model import codec
from packhorse.model.clock import SYSTEM, Clock
from packhorse.model.ids import JobId, id_text
from packhorse.model.record import CHUNKS, chunk_head, chunk_key
from packhorse.stores.contract import Records

if TYPE_CHECKING:
    from packhorse.jobs.client import Client

POLL_MIN_US, POLL_MAX_US = 10_000, 250_000
READ_CHUNKS = 50


class Position(msgspec.Struct, frozen=True):
    """How far a reader is: pass it to read on from there, in this process or another."""

    fence: int = 0
    """The fence of the attempt that emitted the piece; each later attempt has a higher one."""
    number: int = 0
    """The number of its next piece."""


class Chunk(msgspec.Struct, frozen=True):
    """One piece, and where to read on after it. A job that is run again begins anew."""

    data: Any
    """What was given to ``emit``."""
    attempt: int
    """Which attempt emitted it; the first is 1."""
    after: Position
    """Where to read on after it."""


class _Now(msgspec.Struct, frozen=True):
    """Which attempt makes pieces."""

    fence: int
    attempt: int


async def chunks(client: "Client", job: JobId, after: Position, clock: Clock = SYSTEM) -> AsyncIterator[Chunk]:
    """The pieces of a job in order, as they come, until it has ended and all are read."""
    at, pause = after, POLL_MIN_US
    while True:
        store = await client.store()
        [known] = await store.jobs.get(
            [job], bodies=False
        )  # before the look, so that an end seen here has all its pieces there
        if known is None:
            raise JobNotFound(id_text(job))
        read = [chunk async for chunk in pieces_there(store.records, job, at)]
        for chunk in read:
            at = chunk.after
            yield chunk
        if known.state.ended and not read:
            return
        pause = POLL_MIN_US if read else min(round(pause * 1.5), POLL_MAX_US)
        if not read:
            await clock.sleep(pause)


async def pieces_there(records: Records, job: JobId, after: Position) -> AsyncIterator[Chunk]:
    """The pieces that are there already: of the attempt read so far, then of the one that makes pieces now."""
    [head] = await records.get(CHUNKS, [chunk_head(job)])
    if head is None:
        return
    now = codec.decode(head.value, _Now)
    rounds = [after.fence, now.fence] if 0 < after.fence < now.fence else [now.fence]
    for fence in rounds:
        number = after.number if fence == after.fence else 0
        while True:
            keys = [chunk_key(job, fence, number + index) for index in range(READ_CHUNKS)]
            found = await records.get(CHUNKS, keys)
            if found[0] is None and (following := await _following(records, job, fence, number)) is not None:
                number = following
                continue
            for record in found:
                if record is None:
                    break
                number += 1
                yield Chunk(codec.decode(record.value), now.attempt, Position(fence, number))
            if None in found:
                break


async def _following(records: Records, job: JobId, fence: int, number: int) -> int | None:
    """The number of the next piece that is there, from this one on, for it may have come since; None if none is.

    Where this one is not, either those between are not kept any more, because there were too many since. Or the store
    refused them: pieces are stored in order and not more than ``HELD_MAX_EFFECTS`` together, so one that comes after a gap is near.
    """
    near = range(number, number + HELD_MAX_EFFECTS + 1)
    found = await records.get(CHUNKS, [chunk_key(job, fence, other) for other in near])
    there = [other for other, record in zip(near, found, strict=True) if record is not None]
    return there[0] if there else await _oldest(records, job, fence, after=number)


async def _oldest(records: Records, job: JobId, fence: int, *, after: int) -> int | None:
    """The number of the oldest piece of an attempt that is still kept, if it comes after this one."""
    prefix = chunk_key(job, fence, 0).rpartition("/")[0]
    page = await records.find(CHUNKS, prefix=f"{prefix}/", limit=1)
    oldest = int(page.items[0].key.rpartition("/")[2]) if page.items else 0
    return oldest if oldest > after else None
