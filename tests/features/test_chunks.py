"""Pieces of a result while the job still runs: in order, resumable, ending with the job."""

import asyncio
import signal

import pytest

from packhorse import App, JobFailed, JobNotFound, Position, Snooze, current
from packhorse.model.ids import id_text, new_id
from tests.features.factories import SECOND, run


async def read(app: App, job: str, after: Position | None = None) -> list[object]:
    """All pieces from a position on, until the job has ended."""
    async with asyncio.timeout(20):
        return [chunk.data async for chunk in app.job(job).stream(after)]


async def test_pieces_come_in_order_while_the_job_runs_and_end_with_it(live, make):
    go = asyncio.Queue()

    @live.task
    async def write() -> str:
        for word in ("once", "upon", "a", "time"):
            await go.get()
            current().emit({"word": word})
        return "done"

    reader = make()
    job = await write.enqueue()
    words = []
    async with live.worker(), asyncio.timeout(20):
        go.put_nowait(None)
        async for chunk in reader.job(job.id).stream():
            assert await job.state() in {"running", "done"}
            words.append(chunk.data["word"])
            go.put_nowait(None)
        assert await job.result(20) == "done"

    assert words == ["once", "upon", "a", "time"]
    assert await read(live, job.id) == [{"word": word} for word in words]


@pytest.mark.parametrize("way", ["async", "thread"])
async def test_many_pieces_are_all_there(app, way):
    def write(count: int) -> None:
        for number in range(count):
            current().emit(number)

    async def write_async(count: int) -> None:
        write(count)

    job = await app.task(name="write")(write if way == "thread" else write_async).enqueue(500)
    await run(app)

    assert await read(app, job.id) == list(range(500))


async def test_reading_goes_on_from_a_position_in_another_program(app, make, clock):
    @app.task
    async def write() -> None:
        for number in range(10):
            current().emit(number)

    job = await write.enqueue()
    await run(app)
    positions = [chunk.after async for chunk in job.stream()]

    other = make(clock=clock)
    assert await read(other, job.id, positions[3]) == [4, 5, 6, 7, 8, 9]
    assert await read(other, job.id, positions[9]) == []
    assert await read(other, job.id, Position(positions[3].fence, positions[3].number)) == [4, 5, 6, 7, 8, 9]


async def test_a_retried_job_begins_anew(app, clock):
    @app.task
    async def write() -> None:
        for number in range(3):
            current().emit([current().attempt, number])
            if current().attempt == 1 and number == 1:
                raise ValueError("no")

    job = await write.enqueue()
    await run(app)
    reading = job.stream()
    first = [await anext(reading), await anext(reading)]
    clock.turn(2 * SECOND)
    await run(app)

    assert [chunk.data for chunk in first] == [[1, 0], [1, 1]]
    assert [chunk.data async for chunk in reading] == [[2, 0], [2, 1], [2, 2]]
    late = [chunk async for chunk in job.stream()]
    assert [chunk.data for chunk in late] == [[2, 0], [2, 1], [2, 2]]
    assert [chunk.attempt for chunk in (*first, *late)] == [1, 1, 2, 2, 2]


async def test_a_snoozed_job_begins_anew(app, clock):
    runs = []

    @app.task
    async def write() -> None:
        runs.append(1)
        for number in range(3 - len(runs)):
            current().emit([len(runs), number])
        if len(runs) == 1:
            raise Snooze("5s")

    job = await write.enqueue()
    await run(app)
    clock.turn(6 * SECOND)
    await run(app)

    assert await read(app, job.id) == [[2, 0]]


async def test_pieces_of_a_job_that_fails_are_read_to_the_end(app):
    @app.task(attempts=1)
    async def write() -> None:
        current().emit("before")
        raise ValueError("no")

    job = await write.enqueue()
    await run(app)

    assert await read(app, job.id) == ["before"]
    with pytest.raises(JobFailed):
        await job.result(1)


async def test_a_job_without_pieces_ends_its_stream(app):
    @app.task
    async def quiet() -> None: ...

    job = await quiet.enqueue()
    await run(app)
    off = await quiet.enqueue()
    await off.cancel()

    assert await read(app, job.id) == await read(app, off.id) == []
    with pytest.raises(JobNotFound):
        await read(app, id_text(new_id()))


async def test_pieces_come_from_child_processes(live, workers):
    await workers.start(queues="counts", concurrency=1)
    job = await live.queue("counts").enqueue("counts", {"to": 20})
    chunks = await read(live, job.id)
    child = await job.result(20)

    assert [chunk["number"] for chunk in chunks] == list(range(20))
    assert {chunk["process"] for chunk in chunks} == {child}


async def test_pieces_of_a_killed_worker_are_followed_by_those_of_the_next_try(live, place, workers):
    worker = await workers.start(queues="drips", lease=1)
    job = await live.queue("drips").enqueue("drips")
    seen = []
    async with asyncio.timeout(30):
        async for chunk in job.stream():
            seen.append((chunk.attempt, chunk.data))
            if chunk.attempt == 1 and worker.returncode is None and chunk.data == 1:
                worker.send_signal(signal.SIGKILL)
                await worker.wait()
                await workers.start(queues="drips", lease=1)

    assert seen == [(1, 0), (1, 1), (2, 0), (2, 1), (2, 2)]


async def test_pieces_are_kept_to_a_bound(app, monkeypatch):
    monkeypatch.setattr("packhorse.engine.context.CHUNKS_KEPT", 10)

    @app.task
    async def write() -> None:
        for number in range(25):
            current().emit(number)

    job = await write.enqueue()
    await run(app)

    pieces = [chunk async for chunk in job.stream()]
    assert [piece.data for piece in pieces] == list(range(15, 25))  # from the oldest that is kept
    assert await read(app, job.id, pieces[4].after) == list(range(20, 25))
    assert await read(app, job.id, Position(pieces[0].after.fence, 3)) == list(range(15, 25))
