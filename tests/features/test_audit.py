"""The audit: who did what to queues and schedules, from where, and what came of it."""

import asyncio
import getpass
import socket
from collections.abc import Iterator

import pytest

from packhorse import App, every
from packhorse.audit.audit import STREAM
from packhorse.audit.duties import KEPT_US, remove_old_entries
from packhorse.audit.entry import AuditOutcome
from packhorse.errors import InvalidOption, ScheduleNotFound, StoreUnavailable
from packhorse.jobs.portal import PORTAL
from packhorse.model.clock import moment
from packhorse.model.effect import Publish
from tests.factories import DAY

DONE, FAILED, REFUSED, STARTED = AuditOutcome.DONE, AuditOutcome.FAILED, AuditOutcome.REFUSED, AuditOutcome.STARTED


@pytest.fixture
def portal() -> Iterator[None]:
    """The thread of blocking calls ends with the test."""
    yield
    PORTAL.stop()


async def shown(app: App) -> list[tuple[object, ...]]:
    """What the entries say, without who and when."""
    return [(entry.action, entry.target, entry.count, entry.outcome.value) async for entry in app.audit]


async def test_actions_on_queues_are_written_with_who_where_and_when(app, clock):
    await app.queue("email").enqueue("work")
    await app.queue("email").pause()
    clock.turn(DAY)
    await app.queue("email").resume()
    await app.queue("email").purge()

    paused, resumed, intent, purged = await app.audit.entries()
    assert (paused.action, paused.target, paused.outcome, paused.via) == ("pause", "email", "done", "python")
    assert paused.who == f"{getpass.getuser()}@{socket.gethostname()}"
    assert (paused.at, resumed.at) == (moment(clock.now() - DAY), moment(clock.now()))
    assert (intent.action, intent.outcome, intent.filter) == ("purge", STARTED, {"queue": "email"})
    assert (purged.outcome, purged.count, purged.operation) == (DONE, 1, intent.operation)
    assert [each.number for each in (paused, resumed, intent, purged)] == [1, 2, 3, 4]


async def test_actions_on_schedules_are_written(memory):
    @memory.schedule(every("1h"), name="hourly")
    async def hourly() -> None: ...

    await memory.schedules.declare()
    await memory.schedules.pause("hourly")
    await memory.schedules.resume("hourly")
    await memory.schedules.run("hourly")
    await memory.schedules.remove("hourly")
    with pytest.raises(ScheduleNotFound):
        await memory.schedules.pause("hourly")

    assert await shown(memory) == [
        ("schedule pause", "hourly", None, "done"),
        ("schedule resume", "hourly", None, "done"),
        ("schedule run", "hourly", None, "done"),
        ("schedule remove", "hourly", 1, "done"),
        ("schedule pause", "hourly", None, "refused"),
    ]


async def test_the_user_is_the_one_named_by_the_caller_or_by_the_environment(memory, monkeypatch, tmp_path):
    with memory.audit.acting("ada@example.com", via="http", address="192.0.2.1", request_id="r-1"):
        await memory.queue("email").pause()
    [entry] = await memory.audit.entries()
    assert (entry.who, entry.via, entry.address, entry.request_id) == ("ada@example.com", "http", "192.0.2.1", "r-1")

    monkeypatch.setenv("PACKHORSE_USER", "deploy")
    async with App(f"sqlite:///{tmp_path / 'own.db'}") as app:
        await app.queue("email").pause()
        assert [entry.who for entry in await app.audit.entries()] == ["deploy"]


async def test_the_name_of_one_user_does_not_reach_the_actions_of_another(memory):
    async def pause(queue: str, who: str) -> None:
        with memory.audit.acting(who):
            await asyncio.sleep(0)
            await memory.queue(queue).pause()

    async with asyncio.TaskGroup() as both:
        both.create_task(pause("a", "ann"))
        both.create_task(pause("b", "bob"))
    assert {(entry.target, entry.who) for entry in await memory.audit.entries()} == {("a", "ann"), ("b", "bob")}


async def test_an_action_that_fails_leaves_its_intent_its_error_and_raises(memory):
    async def drop() -> None:
        async with memory.audit.announced("drop", filter={"queue": "email"}) as operation:
            operation.count = 7
            raise StoreUnavailable("the disk is away")

    with pytest.raises(StoreUnavailable):
        await drop()

    intent, failed = await memory.audit.entries()
    assert (intent.outcome, failed.outcome, failed.count) == (STARTED, FAILED, 7)
    assert (failed.error, failed.operation) == ("StoreUnavailable: the disk is away", intent.operation)
    assert intent.filter == failed.filter == {"queue": "email"}


async def test_an_action_that_is_refused_is_written_as_refused(memory):
    async def replay() -> None:
        async with memory.audit.recorded("replay", filter={}):
            raise InvalidOption("filter", {}, "it is empty")

    with pytest.raises(InvalidOption):
        await replay()
    [entry] = await memory.audit.entries()
    assert (entry.outcome, entry.filter) == (REFUSED, {})


async def test_entries_are_read_in_pages_from_both_ends(app):
    for number in range(1, 8):
        await app.audit.record("silence", target=f"rule-{number}")

    assert [entry.number for entry in await app.audit.entries(after=2, limit=3)] == [3, 4, 5]
    assert await app.audit.entries(after=7) == []
    assert [entry.number for entry in await app.audit.latest(3)] == [7, 6, 5]
    assert [entry.number for entry in await app.audit.latest(3, before=3)] == [2, 1]
    assert await app.audit.latest(3, before=1) == []


async def test_an_entry_that_cannot_be_read_is_left_out_and_its_number_is_missing(memory):
    await memory.audit.record("pause", target="a")
    await (await memory.store()).streams.publish([Publish(STREAM, b'{"action":7}')])
    await memory.audit.record("pause", target="b")
    assert [(entry.number, entry.target) async for entry in memory.audit] == [(1, "a"), (3, "b")]


async def test_entries_are_kept_for_ninety_days_and_numbers_go_on(app, clock):
    store = await app.store()
    for number in range(3):
        await app.audit.record("pause", target=str(number))
    clock.turn(KEPT_US)
    assert not await remove_old_entries(store)
    assert len(await app.audit.entries()) == 3

    await app.audit.record("pause", target="new")
    clock.turn(1)
    assert not await remove_old_entries(store)
    assert [(entry.number, entry.target) for entry in await app.audit.entries()] == [(4, "new")]
    assert [entry.number for entry in await app.audit.latest()] == [4]


async def test_old_entries_beyond_one_look_are_removed_look_by_look(memory, clock):
    store = await memory.store()
    for _ in range(3):
        await store.streams.publish([Publish(STREAM, b"{}") for _ in range(500)])
    clock.turn(KEPT_US + 1)
    assert await remove_old_entries(store)
    assert not await remove_old_entries(store)
    assert not await remove_old_entries(store)
    assert await store.streams.bounds(STREAM) == (1501, 1500)


async def test_secrets_are_hidden_before_an_entry_is_written(memory):
    filters = {"queue": "email", "header": ("x-api-token", "abc"), "error": "password=hunter2"}
    await memory.audit.record("drop", target="https://ann:pw@example.com", filter=filters, error="token: s3cret")

    [event] = await (await memory.store()).streams.read(STREAM)
    assert not any(secret in event.data for secret in (b"abc", b"hunter2", b"pw@", b"s3cret"))
    [entry] = await memory.audit.entries()
    assert entry.filter == {"queue": "email", "header": ["x-api-token", "***"], "error": "password=***"}


def test_code_without_an_event_loop_reads_the_audit(portal, tmp_path):
    with App(f"sqlite:///{tmp_path / 'sync.db'}").sync as sync, sync.audit.acting("ann"):
        sync.queue("email").pause()
        assert [(entry.who, entry.action) for entry in sync.audit] == [("ann", "pause")]
        assert sync.audit.latest() == sync.audit.entries()


def test_code_without_an_event_loop_acts_on_many_jobs(portal, tmp_path):
    with App(f"sqlite:///{tmp_path / 'sync.db'}").sync as sync:
        job = sync.queue("mail").enqueue("mail")
        counted = sync.bulk.cancel(queue="mail", dry_run=True)
        assert (counted.total, counted.sample, counted.job) == (1, (job.id,), None)
        assert sync.bulk.cancel(queue="mail").result().changed == 1
        assert sync.bulk.replay(task="mail").result().changed == 1
        assert sync.bulk.promote(task="mail").total == 0
        assert sync.bulk.drop(ids=[job.id, "unknown"]).unchanged == {"unknown": "unknown"}
