"""Pieces of a result beyond those that are kept."""

from collections.abc import Sequence

from packhorse import App, Position, current
from packhorse.engine.context import CHUNKS_KEPT
from packhorse.jobs.chunks import pieces_there
from packhorse.model.effect import Put
from packhorse.model.ids import parse_id
from packhorse.model.record import CHUNKS, Record, chunk_key
from packhorse.testing import TurnedClock, run_until_idle

EMITTED = CHUNKS_KEPT + 50


async def test_a_late_reader_gets_the_pieces_that_are_kept(clock: TurnedClock):
    app = App("sqlite:///:memory:", clock=clock)

    @app.task
    async def talk() -> None:
        for number in range(EMITTED):
            current().emit(number)

    async with app:
        job = await talk.enqueue()
        await run_until_idle(await app.store(), app.registry, clock=clock)

        late = [chunk.data async for chunk in job.stream()]
        fence = (await anext(job.stream())).after.fence
        slow = [chunk.data async for chunk in job.stream(after=Position(fence, 20))]
        last = [chunk.data async for chunk in job.stream(after=Position(fence, EMITTED - 1))]

    assert late == slow == list(range(50, EMITTED))
    assert last == [EMITTED - 1]


async def test_a_reader_goes_on_behind_pieces_that_were_never_stored(clock: TurnedClock):
    app = App("sqlite:///:memory:", clock=clock)

    @app.task
    async def talk() -> None:
        for number in range(300):
            current().emit(number)

    async with app:
        job = await talk.enqueue()
        store = await app.store()
        await run_until_idle(store, app.registry, clock=clock)
        fence = (await anext(job.stream())).after.fence
        await store.records.drop(CHUNKS, [chunk_key(parse_id(job.id), fence, lost) for lost in range(100, 200)])

        read = [chunk.data async for chunk in job.stream()]

    assert read == [*range(100), *range(200, 300)]


async def test_pieces_that_come_between_two_looks_of_a_reader_are_not_skipped(clock: TurnedClock):
    app = App("sqlite:///:memory:", clock=clock)

    @app.task
    async def talk() -> None:
        current().emit(0)

    async with app:
        job = await talk.enqueue()
        store = await app.store()
        await run_until_idle(store, app.registry, clock=clock)
        start = (await anext(job.stream())).after
        later = [Put(CHUNKS, chunk_key(parse_id(job.id), start.fence, number), b"%d" % number) for number in (1, 2)]

        class Records:
            """The store's own, into which the others come after the second look."""

            looks = 0

            async def get(self, kind: str, keys: Sequence[str]) -> list[Record | None]:
                found = await store.records.get(kind, keys)
                self.looks += 1
                if self.looks == 2:
                    await store.jobs.fire([later])
                return found

            find = store.records.find

        read = [chunk.data async for chunk in pieces_there(Records(), parse_id(job.id), start)]  # type: ignore[arg-type]

    assert read == [1, 2]
