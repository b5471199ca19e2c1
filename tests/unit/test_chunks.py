"""Pieces of a result beyond those that are kept."""

from packhorse import App, Position, current
from packhorse.engine.context import CHUNKS_KEPT
from packhorse.testing.clock import TurnedClock
from packhorse.testing.worker import drain

EMITTED = CHUNKS_KEPT + 50


async def test_a_late_reader_gets_the_pieces_that_are_kept(clock: TurnedClock):
    app = App("sqlite:///:memory:", clock=clock)

    @app.task
    async def talk() -> None:
        for number in range(EMITTED):
            current().emit(number)

    async with app:
        job = await talk.enqueue()
        await drain(await app.store(), app.registry, clock=clock)

        late = [chunk.data async for chunk in job.stream()]
        fence = (await anext(job.stream())).after.fence
        slow = [chunk.data async for chunk in job.stream(after=Position(fence, 20))]
        last = [chunk.data async for chunk in job.stream(after=Position(fence, EMITTED - 1))]

    assert late == slow == list(range(50, EMITTED))
    assert last == [EMITTED - 1]
