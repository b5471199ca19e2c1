"""What a handler asks for is written with the completion of its job, and only then."""

import asyncio

import pytest

from packhorse import App, chain, chord, current, group
from packhorse.errors import InvalidName
from tests.features.factories import SECOND, everything, run


@pytest.fixture
def ran() -> list[object]:
    return []


@pytest.fixture
def note(app: App, ran):
    """A task that notes its argument and answers it."""

    @app.task(name="note")
    async def note(what: object) -> object:
        ran.append(what)
        return what

    return note


@pytest.mark.parametrize("way", ["async", "thread"])
async def test_what_a_handler_enqueues_is_there_once_it_is_done(app, note, ran, way):
    def fan_out(count: int) -> str:
        current().enqueue(*(note.call(number) for number in range(count)))
        current().enqueue(note.using(delay="1h", queue="other").call("later"))
        return "done"

    async def fan_out_async(count: int) -> str:
        return fan_out(count)

    job = await app.task(name="fan")(fan_out if way == "thread" else fan_out_async).enqueue(3)
    await run(app)

    assert (sorted(ran), await job.result(1)) == ([0, 1, 2], "done")
    [later] = await everything(app, state="scheduled")
    assert (later.queue, later.data) == ("other", {"what": "later"})


async def test_what_a_failed_try_enqueued_is_dropped(app, note, ran, clock):
    @app.task(attempts=2)
    async def flaky() -> None:
        current().enqueue(note.call(current().attempt), chain(note.call("link"), note))
        if current().attempt == 1:
            raise ValueError("no")

    await flaky.enqueue()
    await run(app)
    assert (ran, len(await everything(app))) == ([], 1)
    clock.turn(2 * SECOND)
    await run(app)

    assert sorted(map(str, ran)) == ["2", "link", "link"]


async def test_what_a_handler_that_dies_enqueued_is_dropped(app, note, ran):
    @app.task(attempts=1)
    async def dies() -> None:
        current().enqueue(note.call(1))
        raise ValueError("no")

    await dies.enqueue()
    await run(app)

    assert (ran, len(await everything(app))) == ([], 1)


async def test_nothing_is_enqueued_before_the_handler_is_done(live):
    asked, go = asyncio.Event(), asyncio.Event()

    @live.task(name="note")
    async def note() -> str:
        return "done"

    @live.task
    async def parent() -> None:
        current().enqueue(note.using(id="child").call())
        asked.set()
        await go.wait()

    job = await parent.enqueue()
    async with live.worker():
        await asked.wait()
        assert [found.id for found in await everything(live)] == [job.id]
        go.set()
        await job.result(20)
        [child] = {found.id for found in await everything(live, task="note")}  # while it runs it may be seen twice
        assert await live.job(child).result(20) == "done"


async def test_a_plan_from_a_handler_is_stored_whole(app, note, ran):
    results = []

    @app.task(name="total")
    async def total(parts: list[int]) -> int:
        results.append(parts)
        return sum(parts)

    @app.task
    async def parent(count: int) -> None:
        current().enqueue(chord(group(*(note.call(number) for number in range(count))), total))

    await parent.enqueue(5)
    await run(app)

    assert results == [[0, 1, 2, 3, 4]]


async def test_more_effects_than_a_settlement_takes_fail_the_job_and_store_nothing(app, note, ran):
    @app.task(attempts=1)
    async def parent() -> None:
        current().enqueue(*(note.call(number) for number in range(501)))

    job = await parent.enqueue()
    await run(app)

    info = await job.info()
    assert (info.state, info.reason) == ("dead", "final")
    assert "500" in info.failures[-1].message
    assert ran == []


async def test_a_child_with_a_chosen_id_is_there_once_however_often_its_parent_runs(app, note, ran, clock):
    @app.task
    async def parent() -> None:
        current().enqueue(note.using(id="child").call("once"))

    for _ in range(3):
        await parent.enqueue()
    await run(app)

    assert ran == ["once"]


async def test_an_event_is_published_with_the_completion_only(app):
    @app.task(attempts=1)
    async def publishes(well: bool) -> None:
        current().publish("orders", b'"created"', key="o-1")
        if not well:
            raise ValueError("no")

    await publishes.enqueue(True)
    await publishes.enqueue(False)
    await run(app)

    events = await (await app.store()).streams.read("orders")
    assert [(event.data, event.key) for event in events] == [(b'"created"', "o-1")]


@pytest.mark.parametrize("stream", ["packhorse.jobs", "packhorse.schedules", "packhorse.mine"])
async def test_a_handler_cannot_publish_into_a_stream_of_packhorse(app, stream):
    refused: list[InvalidName] = []

    @app.task(attempts=1)
    async def publishes() -> None:
        try:
            current().publish(stream, b"1")
        except InvalidName as error:
            refused.append(error)
        current().publish("news", b"2")

    job = await publishes.enqueue()
    await run(app)

    assert await job.result(1) is None
    [error] = refused
    assert "kept for Packhorse itself" in str(error)
    assert [event.data for event in await (await app.store()).streams.read("news")] == [b"2"]


@pytest.mark.parametrize("name", ["packhorse.jobs", "packhorse.mine"])
async def test_queues_and_tasks_of_users_cannot_be_named_as_those_of_packhorse(app, note, name):
    with pytest.raises(InvalidName, match="kept for Packhorse itself"):
        await note.using(queue=name).enqueue(1)
    with pytest.raises(InvalidName, match="kept for Packhorse itself"):
        app.queue(name)
    with pytest.raises(InvalidName, match="kept for Packhorse itself"):
        app.task(name=name)(lambda: None)
    with pytest.raises(InvalidName, match="kept for Packhorse itself"):
        await app.queue("default").enqueue(name, {})

    assert await everything(app) == []
