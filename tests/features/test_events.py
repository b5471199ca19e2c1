"""Events of jobs for any process: in order, from a position on, with what the store knows of their jobs."""

import asyncio
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from time import monotonic as time
from typing import Any

import pytest

from packhorse import App, Fail, Gap, Keep, Snooze, correlated
from packhorse.errors import InvalidOption, StoreClosed
from packhorse.events.follower import KEPT_BYTES
from packhorse.events.log import READ_ENTRIES
from packhorse.events.stream import Events
from packhorse.model.event import LIFECYCLE
from packhorse.model.ids import parse_id
from packhorse.model.worker import WorkerInfo
from packhorse.stores.contract import Store
from packhorse.testing.faults import DropRequest, Faulty
from tests.damage import damage_of
from tests.factories import WORKER, Done, new, put_in, take
from tests.factories import run as settle
from tests.features.conftest import Make
from tests.features.factories import HOUR, MINUTE, PATIENCE, SECOND, run, so_far, some

LIFE = ["enqueued", "claimed", "done"]


def names(events: list[Any]) -> list[str]:
    return [event.name.value for event in events]


def of_jobs(events: list[Any]) -> dict[str, list[str]]:
    """The names of the events of each job, in order."""
    found: dict[str, list[str]] = {}
    for event in events:
        found.setdefault(event.job_id, []).append(event.name.value)
    return found


async def test_s36_another_process_sees_the_life_of_each_job_in_order(make: Make):
    producer, reader = make(), make()
    task = producer.queue("news")
    async with reader.events(queue="news") as events:
        jobs = [await task.enqueue("tell") for _ in range(3)]
        await producer.queue("gossip").enqueue("tell")
        store = await producer.store()
        for _ in jobs:
            await settle(store, Done(b"1"), queue="news")
        seen = await some(events, 9)

    assert of_jobs(seen) == {job.id: LIFE for job in jobs}
    assert {(event.task, event.queue) for event in seen} == {("tell", "news")}
    assert len({event.position for event in seen}) == 9


async def test_it_starts_now_and_goes_on_after_any_position_also_in_the_middle_of_a_call(app: App):
    store = await app.store()
    first = await put_in(store, *(new() for _ in range(5)))
    async with app.events() as events:
        second = await put_in(store, *(new() for _ in range(5)))
        seen = await some(events, 5)
        assert events.position == seen[-1].position
    assert [parse_id(event.job_id) for event in seen] == second

    whole = await so_far(app)
    assert [parse_id(event.job_id) for event in whole] == first + second
    for number, event in enumerate(whole):
        assert await so_far(app, after=event.position) == whole[number + 1 :]
    assert await so_far(app, after=whole[2].position, queue="default", task="work") == whole[3:]


async def test_the_position_moves_on_over_events_that_are_not_wanted(app: App):
    store = await app.store()
    async with app.events("dead") as events:
        begin = events.position
        await put_in(store, new())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(events), 0.5)
        assert events.position != begin
        assert await so_far(app, after=events.position) == []


async def test_each_event_has_what_the_store_knows_of_that_moment(app: App, clock):
    @app.task(name="fails", attempts=2)
    async def fails() -> None:
        raise ValueError("token=abcdefgh no")

    @app.task(name="snoozes")
    async def snoozes() -> None:
        raise Snooze("1h")

    @app.task(name="gives up")
    async def gives_up() -> None:
        raise Fail("never")

    with correlated("c-1"):
        job = await fails.using(tenant="acme").enqueue()
    await run(app)
    clock.turn(HOUR)
    await run(app)
    await snoozes.enqueue()
    await gives_up.enqueue()
    await run(app)

    again, dead = await so_far(app, "failed", task="fails")
    assert (again.name, again.attempt, again.error_type, again.error_message) == (
        "again",
        1,
        "ValueError",
        "token=*** no",
    )
    assert (dead.name, dead.attempt, dead.error_type, dead.reason) == ("dead", 2, "ValueError", "exhausted")
    assert dead.at - again.at == timedelta(hours=1)
    assert again.worker == dead.worker is not None
    assert {(e.job_id, e.tenant, e.correlation_id) for e in (again, dead)} == {(job.id, "acme", "c-1")}
    assert names(await so_far(app, task="snoozes")) == ["enqueued", "claimed", "again"]
    assert names(await so_far(app, "failed", task="snoozes")) == []
    [never] = await so_far(app, "failed", task="gives up")
    assert (never.reason, never.error_message) == ("final", "never")


async def test_a_running_job_says_which_worker_has_it_and_a_waiting_one_why(app: App, clock):
    store = await app.store()
    await store.fleet.beat(WorkerInfo(id=WORKER, name="ox"), HOUR)
    [running] = await put_in(store, new(queue="other"))
    [waiting] = await put_in(store, new())
    await take(store, 1, "other")
    await run(app)

    claimed, then = await so_far(app, "active")
    assert (parse_id(claimed.job_id), claimed.attempt, claimed.worker) == (running, 1, "ox")
    assert (parse_id(then.job_id), then.attempt, then.worker) == (waiting, None, None)
    [waits] = await so_far(app, "waiting")
    assert (parse_id(waits.job_id), waits.reason) == (waiting, "unroutable")


async def test_results_come_only_if_they_are_asked_for(app: App):
    @app.task(name="add")
    async def add(a: int, b: int) -> dict[str, int]:
        return {"sum": a + b}

    for number in range(50):
        await add.enqueue(number, 1)
    await run(app)

    assert {event.result for event in await so_far(app, "done")} == {None}
    sums = [event.result["sum"] for event in await so_far(app, "completed", results=True)]
    assert sorted(sums) == list(range(1, 51))


async def test_s41_a_correlation_id_is_on_every_event_of_a_kept_job_and_none_after_pruning(make: Make, clock):
    app = make(clock=clock)

    @app.task(name="chain", keep_done=Keep(count=0))
    async def chain() -> None: ...

    with correlated("c-7"):
        job = await chain.enqueue()
    async with app.events() as events:
        before = await so_far(app)
        await run(app)
        live = await some(events, 2)
    assert {event.correlation_id for event in before + live} <= {"c-7", None}
    assert [event.correlation_id for event in await so_far(app) if event.job_id == job.id] == ["c-7"] * 3

    while (await (await app.store()).jobs.prune(100)).jobs:
        pass

    fresh = make(clock=clock)
    pruned = await so_far(fresh)
    assert names(pruned) == LIFE
    assert {(event.correlation_id, event.task, event.queue, event.attempt) for event in pruned} == {(None,) * 4}
    assert await so_far(fresh, queue="default") == []


async def test_a_trimmed_range_is_reported_once_with_its_size(app: App):
    store = await app.store()
    for _ in range(10):
        await put_in(store, new())
    whole = await so_far(app)
    await store.streams.trim(LIFECYCLE, 8, 100)

    gap, *rest = await so_far(app, after=whole[1].position)

    assert (gap.missed, gap.damaged) == (5, False)
    assert gap.first == gap.position == whole[6].position
    assert rest == whole[7:]
    assert await so_far(app, after=gap.position) == rest
    assert await so_far(app, after="earliest") == rest
    assert await so_far(app, after=whole[6].position) == rest


async def test_a_follower_that_is_overtaken_by_trimming_reports_the_gap_and_goes_on(app: App):
    store = await app.store()
    async with app.events() as events:
        await put_in(store, new())
        await some(events, 1)
        for _ in range(5):
            await put_in(store, new(), new())
        seen = await some(events, 2)
        await events.aclose()
    await store.streams.trim(LIFECYCLE, 5, 100)

    [gap, *rest] = await so_far(app, after=events.position)
    assert isinstance(gap, Gap)
    assert gap.missed == 2
    assert len(seen) + len(rest) == 6


async def test_one_damaged_entry_is_passed_over_and_reported(app: App, kind: str, url: str, caplog):
    store = await app.store()
    ids = [(await put_in(store, new(), new()))[0] for _ in range(3)]
    assert len(await so_far(app)) == 6
    async with damage_of(kind, url, store) as damage:
        await damage.event(LIFECYCLE, 2)

    seen = await so_far(app)

    assert [isinstance(event, Gap) for event in seen] == [False, False, True, False, False]
    assert (seen[2].missed, seen[2].damaged) == (1, True)
    assert [parse_id(seen[at].job_id) for at in (0, 3)] == [ids[0], ids[2]]
    assert "Entry 2 of the log of job events is passed over" in caplog.text
    assert await so_far(app, after=seen[2].position) == seen[3:]


async def test_a_position_of_another_store_is_refused(app: App):
    await put_in(await app.store(), new())
    [event] = await so_far(app)

    assert await so_far(app, after=event.position) == []
    for beyond in ("2.1", "3.0", "9000.2"):
        with pytest.raises(InvalidOption, match="the log ends before it"):
            await so_far(app, after=beyond)


async def test_bad_input_is_refused_at_the_call(memory: App):
    for after in ("soon", 5, datetime(2026, 1, 1)):
        with pytest.raises(InvalidOption):
            memory.events(after=after)  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="give one of enqueued"):
        memory.events("died")


async def test_events_since_a_moment(app: App, clock):
    store = await app.store()
    moments = []
    for _ in range(30):
        clock.turn(MINUTE)
        moments.append(clock.now())
        await put_in(store, new())
    for number in (0, 1, 15, 29):
        since = datetime.fromtimestamp(moments[number] / SECOND, UTC)
        assert len(await so_far(app, after=since)) == 30 - number
        assert len(await so_far(app, after=since + timedelta(seconds=1))) == 29 - number
    assert len(await so_far(app, after=datetime(2000, 1, 1, tzinfo=UTC))) == 30


async def test_subscribers_of_a_loop_share_one_follower_and_a_slow_one_holds_up_no_other(live: App):
    reads = []
    store = Faulty(await live.store(), lambda call, arguments: reads.append(call))
    events = Events(lambda: asyncio.sleep(0, store))
    streams = [await events().__aenter__() for _ in range(8)]
    slow, *quick = streams
    jobs = [(await put_in(store, new()))[0]]
    await asyncio.gather(*(some(stream, 1) for stream in streams))
    followed = asyncio.gather(*(some(stream, 4_000) for stream in quick))
    await asyncio.sleep(0)
    reads.clear()
    for _ in range(8):
        jobs += await put_in(store, *(new() for _ in range(500)))

    seen = await followed

    assert all([parse_id(event.job_id) for event in each] == jobs[1:] for each in seen)
    assert reads.count("streams.read") < 30
    assert reads.count("jobs.get") < 30
    [follower] = events._followers.values()
    assert follower._size <= KEPT_BYTES
    assert [parse_id(event.job_id) for event in await some(slow, 4_000)] == jobs[1:]
    for stream in streams:
        await stream.aclose()
    assert follower._task is None


async def test_a_subscriber_that_falls_behind_a_trimmed_log_gets_a_gap_and_no_memory_is_held_for_it(live: App):
    store = await live.store()
    async with live.events() as slow, live.events() as quick:
        await put_in(store, new())
        await asyncio.gather(some(slow, 1), some(quick, 1))
        for _ in range(40):
            await put_in(store, *(new() for _ in range(500)))
        await some(quick, 20_000)
        await store.streams.trim(LIFECYCLE, 30, 1000)
        first = await some(slow, 1)
        assert isinstance(first[0], Gap)
        assert first[0].missed == 28
        rest = await some(slow, 12 * 500)
        assert len({event.position for event in rest}) == 12 * 500


async def test_a_follower_goes_on_where_it_was_when_the_store_is_away_for_a_while(live: App, caplog):
    away = False
    store: Store = Faulty(
        await live.store(),
        lambda call, _: DropRequest() if away and call.startswith(("streams", "jobs.get", "fleet")) else None,
    )
    events = Events(lambda: asyncio.sleep(0, store))
    async with events() as one, events() as other:
        jobs = await put_in(store, new(), new())
        await asyncio.gather(some(one, 2), some(other, 2))
        away = True
        for _ in range(5):
            jobs += await put_in(store, new())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(one), 0.5)
        away = False
        seen = await asyncio.gather(some(one, 5), some(other, 5))

    assert [[parse_id(event.job_id) for event in each] for each in seen] == [jobs[2:]] * 2
    assert "cannot be read, trying again" in caplog.text


async def test_a_reader_that_gives_up_waiting_loses_no_event(live: App):
    store = await live.store()
    jobs, seen = [], []
    async with live.events() as events:

        async def produce() -> None:
            for _ in range(100):
                jobs.extend(await put_in(store, new(), new()))

        producing = asyncio.create_task(produce())
        async with asyncio.timeout(PATIENCE):
            while len(seen) < 200:
                try:
                    seen.append(await asyncio.wait_for(anext(events), 0.001))
                except TimeoutError:
                    pass
        await producing
    assert [parse_id(event.job_id) for event in seen] == jobs


async def test_events_of_an_app_that_is_closed_end_with_an_error(live: App):
    async with live.events() as events:
        waiting = asyncio.create_task(anext(events))
        await asyncio.sleep(0.05)
        await live.close()
        with pytest.raises(StoreClosed):
            await asyncio.wait_for(waiting, PATIENCE)


async def test_events_end_when_they_are_closed(memory: App):
    async with aclosing(memory.events(after="earliest")) as events:
        await put_in(await memory.store(), new())
        assert len(await some(events, 1)) == 1
    with pytest.raises(StopAsyncIteration):
        await anext(events)


async def test_a_follower_keeps_up_with_another_program_that_enqueues_five_hundred_at_a_time(make: Make):
    reader, producer = make(), make()
    store = await producer.store()
    async with reader.events("enqueued") as events:
        follow = asyncio.create_task(some(events, 5_000))
        await asyncio.sleep(0)
        batches = [[new() for _ in range(500)] for _ in range(10)]
        await asyncio.gather(*(store.jobs.enqueue(batch) for batch in batches))
        seen = await follow
    order: dict[bytes, list[bytes]] = {}
    mine = {job.id: batch[0].id for batch in batches for job in batch}
    for event in seen:
        order.setdefault(mine[parse_id(event.job_id)], []).append(parse_id(event.job_id))
    assert order == {batch[0].id: [job.id for job in batch] for batch in batches}


async def test_on_postgresql_the_end_of_the_log_is_read_at_most_five_times_a_second(live: App, kind: str):
    if kind != "postgres":
        return
    reads = []
    store = Faulty(await live.store(), lambda call, _: reads.append(call) if call == "streams.read" else None)
    events = Events(lambda: asyncio.sleep(0, store))
    async with events() as one, events() as other:
        await put_in(store, new())
        await asyncio.gather(some(one, 1), some(other, 1))
        reads.clear()
        begun, count = time(), 0
        while time() < begun + 2:
            await put_in(store, new())
            count += 1
        await asyncio.gather(some(one, count), some(other, count))
    full = count // READ_ENTRIES
    assert len(reads) <= 5 * (time() - begun) + full + 3
