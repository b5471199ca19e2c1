"""Functions of ``@app.on``: called in worker processes with what the process sees, and never in its way."""

import asyncio
import threading
from typing import Any

import pytest

from packhorse import App, JobEvent, Snooze, constant, correlated
from packhorse.errors import InvalidOption
from packhorse.events.handler import MAX_QUEUED
from packhorse.model.ids import id_text
from packhorse.model.lease import Settlement
from packhorse.telemetry.names import EventName
from packhorse.testing import run_until_idle
from tests.factories import SECOND, Held, ask, new, put_in, take
from tests.features.factories import PATIENCE, until, working


class Report:
    """What telemetry tells of handlers."""

    def __init__(self, app: App) -> None:
        self.failed: list[tuple[str, str]] = []
        self.dropped: list[int] = []
        app.telemetry.on(self._failed, EventName.HANDLER_FAILED)
        app.telemetry.on(lambda _, fields: self.dropped.append(fields["count"]), EventName.EVENTS_DROPPED)

    def _failed(self, _: EventName, fields: Any) -> None:
        self.failed.append((fields["detail"].rpartition(".")[2], type(fields["error"]).__name__))


@pytest.fixture
def report(live: App) -> Report:
    return Report(live)


@pytest.fixture
def kind() -> str:
    return "sqlite"  # the stores differ in nothing that matters here


async def test_a_handler_gets_at_once_what_the_worker_knows(live: App):
    seen: list[JobEvent] = []

    @live.task(name="fails", attempts=2, backoff=constant(0))
    async def fails() -> None:
        raise ValueError("token=abcdefgh no")

    @live.on()
    async def collect(event: JobEvent) -> None:
        seen.append(event)

    with correlated("c-1"):
        job = await fails.using(tenant="acme").enqueue()
    async with working(live, name="ox"):
        await until(lambda: _done(len(seen) == 4))

    assert [event.name for event in seen] == ["claimed", "again", "claimed", "dead"]
    assert [event.attempt for event in seen] == [1, 1, 2, 2]
    assert {(e.job_id, e.task, e.queue, e.tenant, e.correlation_id, e.worker) for e in seen} == {
        (job.id, "fails", "default", "acme", "c-1", "ox")
    }
    again, dead = seen[1], seen[3]
    assert (again.error_type, again.error_message, again.reason) == ("ValueError", "token=*** no", None)
    assert (dead.error_type, dead.reason) == ("ValueError", "exhausted")
    assert dead.duration is not None
    assert dead.position is None
    assert [event.name async for event in live.events("failed", after="earliest", follow=False)] == ["again", "dead"]


async def _done(holds: bool) -> bool:
    return holds


async def test_names_queue_and_task_select_events_and_plain_functions_run_in_a_thread(live: App):
    seen: dict[str, list[str]] = {"failed": [], "mail": [], "thread": []}

    @live.task(name="fails", attempts=1)
    async def fails() -> None:
        raise ValueError

    @live.task(name="snoozes", queue="mail")
    async def snoozes() -> None:
        raise Snooze("1h")

    @live.on("failed")
    async def failed(event: JobEvent) -> None:
        seen["failed"].append(event.task or "")

    @live.on("again", queue="mail", task="snoozes")
    def mail(event: JobEvent) -> None:
        seen["mail"].append(event.task or "")
        seen["thread"].append(threading.current_thread().name)

    await fails.enqueue()
    await snoozes.enqueue()
    await run_until_idle(live)

    assert (seen["failed"], seen["mail"]) == (["fails"], ["snoozes"])
    assert seen["thread"] != [threading.main_thread().name]


@pytest.mark.parametrize("name", ["enqueued", "replayed", "promoted"])
async def test_what_a_worker_does_not_see_is_refused(memory: App, name):
    with pytest.raises(InvalidOption, match=r"app\.events has all names"):
        memory.on("dead", name)


@pytest.mark.parametrize("name", ["died", "", None, 5])
async def test_an_unknown_name_is_refused_with_the_names_there_are(memory: App, name):
    with pytest.raises(InvalidOption, match="give one of enqueued"):
        memory.on(name)


async def test_what_cannot_be_called_with_an_event_is_refused(memory: App):
    def generator(event: JobEvent) -> Any:
        yield event

    for handler in ("text", None, generator):
        with pytest.raises(InvalidOption, match="give a function"):
            memory.on("dead")(handler)  # type: ignore[type-var]


async def test_a_handler_that_fails_harms_no_job_no_worker_and_no_other_handler(live: App, report: Report):
    seen: list[str] = []

    @live.task(name="quick")
    async def quick() -> int:
        return 1

    @live.on("done")
    async def raises(event: JobEvent) -> None:
        raise ValueError(event.name)

    @live.on("done")
    async def exits(event: JobEvent) -> None:
        raise SystemExit(1)

    @live.on("done")
    async def cancels(event: JobEvent) -> None:
        raise asyncio.CancelledError

    @live.on("done")
    def plain(event: JobEvent) -> None:
        raise KeyError(event.name)

    @live.on("done")  # type: ignore[type-var]
    async def takes_nothing() -> None: ...

    @live.on("done")
    async def works(event: JobEvent) -> None:
        seen.append(event.job_id)

    async with working(live):
        jobs = [await quick.enqueue() for _ in range(3)]
        assert [await job.result() for job in jobs] == [1, 1, 1]

    assert sorted(seen) == sorted(job.id for job in jobs)
    assert sorted(set(report.failed)) == [
        ("cancels", "CancelledError"), ("exits", "SystemExit"), ("plain", "KeyError"), ("raises", "ValueError"),
        ("takes_nothing", "TypeError"),
    ]  # fmt: skip
    assert len(report.failed) == 15


async def test_jobs_end_while_a_handler_does_not(live: App):
    released, seen = asyncio.Event(), []

    @live.task(name="quick")
    async def quick() -> int:
        return 1

    @live.on("claimed", "done")
    async def slow(event: JobEvent) -> None:
        await released.wait()
        seen.append(event.name)

    async with working(live):
        for _ in range(3):
            assert await (await quick.enqueue()).result(timeout=PATIENCE) == 1
        assert seen == []
        released.set()

    assert sorted(seen) == ["claimed"] * 3 + ["done"] * 3


async def test_events_over_the_limit_of_a_handler_are_dropped_counted_and_reported(live: App, report: Report):
    released, seen, quick = asyncio.Event(), [], []
    store = await live.store()
    await put_in(store, new(queue="other"))
    [lease] = await take(store, 1, "other")

    @live.on("done")
    async def slow(event: JobEvent) -> None:
        await released.wait()
        seen.append(event)

    @live.on("done")
    async def other(event: JobEvent) -> None:
        quick.append(event)

    async with working(live, "default"):
        live.telemetry.emit(EventName.DONE, lease=lease)
        await until(lambda: _done(len(quick) == 1))
        for _ in range(2):
            for _ in range(MAX_QUEUED // 2 + 10):
                live.telemetry.emit(EventName.DONE, lease=lease)
            await until(lambda: _done(len(quick) in (MAX_QUEUED // 2 + 11, MAX_QUEUED + 21)))
        released.set()

    assert len(quick) == MAX_QUEUED + 21
    assert len(seen) == MAX_QUEUED + 1
    assert report.dropped == [1, 10]


async def test_what_is_queued_when_a_worker_stops_is_handled_within_the_grace(live: App, report: Report):
    seen = []

    @live.task(name="quick")
    async def quick() -> None: ...

    @live.on("done")
    async def steady(event: JobEvent) -> None:
        await asyncio.sleep(0.01)
        seen.append(event.job_id)

    @live.on("done")
    async def never(event: JobEvent) -> None:
        await asyncio.Event().wait()

    for _ in range(20):
        await quick.enqueue()
    async with working(live, grace=0) as _:
        await until(lambda: _done(bool(seen)))

    assert len(seen) == 20
    assert report.dropped[0] > 1


async def test_a_loss_is_seen_by_the_worker_that_finds_it_with_what_became_of_the_job(live: App):
    seen: list[JobEvent] = []

    @live.on("lost", "dead")
    async def collect(event: JobEvent) -> None:
        seen.append(event)

    store = await live.store()
    [job] = await put_in(store, new("work", queue="other", tenant="acme"))
    for _ in range(3):
        [lease] = (await store.jobs.exchange((), ask(1, "other", lease=1000))).leases
        await store.jobs.exchange([Settlement(lease, Held(1))])
        if _ < 2:
            await asyncio.sleep(0.002)
            await store.jobs.reap(10)
    async with working(live, "default", lease=0.3):
        await until(lambda: _done(len(seen) == 2))

    assert [event.name for event in seen] == ["lost", "dead"]
    assert {(e.job_id, e.task, e.queue, e.tenant, e.attempt) for e in seen} == {
        (id_text(job), "work", "other", "acme", 3)
    }
    assert [event.reason for event in seen] == [None, "poison"]


async def test_a_handler_that_is_registered_while_a_worker_runs_is_called(live: App):
    seen = []

    @live.task(name="quick")
    async def quick() -> None: ...

    async with working(live):
        live.on("done")(lambda event: seen.append(event.name))
        await quick.enqueue()
        await until(lambda: _done(seen == ["done"]))


async def test_several_workers_of_a_process_call_a_handler_once_for_each_event(live: App):
    seen, threads = [], set()

    @live.task(name="quick")
    async def quick() -> None: ...

    @live.on("done")
    async def collect(event: JobEvent) -> None:
        seen.append(event.job_id)
        threads.add(threading.get_ident())

    begun, stop = threading.Event(), threading.Event()

    async def elsewhere() -> None:
        async with working(live, "default"):
            begun.set()
            await asyncio.to_thread(stop.wait)
        await live.close()

    try:
        async with working(live, "default"), working(live, "default"):
            other = asyncio.create_task(asyncio.to_thread(asyncio.run, elsewhere()))
            await asyncio.to_thread(begun.wait, PATIENCE)
            for _ in range(50):
                await quick.enqueue()
            await until(lambda: _done(len(seen) == 50))
            assert threads == {threading.get_ident()}
        await quick.enqueue()
        await until(lambda: _done(len(seen) == 51))
    finally:
        stop.set()
    await other

    assert len(set(seen)) == 51
    assert len(threads) == 2


async def test_telemetry_wants_nothing_more_without_handlers(memory: App, caplog):
    caplog.set_level("CRITICAL", "packhorse")
    assert not any(memory.telemetry.wants(name) for name in EventName)
    memory.on("dead")(lambda event: None)
    assert {name for name in EventName if memory.telemetry.wants(name)} == {EventName.DEAD, EventName.LOST}


async def test_handlers_take_the_time_of_the_clock(memory: App, clock):
    seen = []
    memory.task(name="quick")(_quick)
    memory.on("done")(lambda event: seen.append(event.at.timestamp()))
    await memory.queue("default").enqueue("quick")
    await run_until_idle(memory)
    assert seen == [clock.now() / SECOND]


async def _quick() -> None: ...
