"""Bulk actions: replay, cancel, drop and promote by filter, at once or by a job that survives kills."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from itertools import count
from typing import Any

import pytest

from packhorse import App, JobCancelled, Unique
from packhorse.bulk import bulk_pass
from packhorse.bulk.bulk import INLINE_JOBS
from packhorse.bulk.checkpoint import KIND
from packhorse.bulk.order import BulkCounts
from packhorse.errors import EmptyFilter, InvalidOption
from packhorse.jobs.bulk_action import CANCEL, DROP, REPLAY
from packhorse.jobs.search import PAGE_SIZE, Search
from packhorse.model.ids import id_text, new_id, parse_id
from packhorse.system_queue import SYSTEM_QUEUE
from tests.factories import DEAD, HOUR, end, new, put_in, states, take
from tests.features.bulk_jobs import MANY, audited, counts, make_dead, make_ready

PATIENCE = 30


# -- few jobs


async def test_s22_dead_jobs_are_replayed_by_filter_with_all_attempts_and_an_audit_entry(app):
    dead = await make_dead(app, 3)
    await make_dead(app, 2, "other")

    run = await app.bulk.replay(queue="mail")

    assert (run.total, run.job, await run.result()) == (3, None, BulkCounts(3, 3))
    assert {parse_id(one) for one in run.sample} == set(dead)
    assert (await counts(app), await counts(app, "other")) == ({"ready": 3}, {"dead": 2})
    assert {job.attempt for job in (await app.find(queue="mail")).items} == {0}
    assert await audited(app) == [
        ("replay", {"queue": "mail"}, "started", None),
        ("replay", {"queue": "mail"}, "done", 3),
    ]


async def test_jobs_in_every_open_state_are_cancelled_and_ended_ones_stay(app):
    store = await app.store()
    await put_in(store, new(queue="mail", lane="a"), new(queue="mail", lane="a"), new(queue="mail", delay=HOUR))
    await take(store, 1, "mail")
    await make_dead(app, 1)

    assert await (await app.bulk.cancel(queue="mail")).result() == BulkCounts(3, 3)
    found = await counts(app)
    assert (found["cancelled"], found["running"], found["dead"]) == (2, 1, 1)
    [running] = (await app.find(queue="mail", state="running")).items
    assert running.cancelling


async def test_jobs_are_dropped_and_promoted_by_filter(app):
    store = await app.store()
    await put_in(
        store, *(new("mail", queue="mail", delay=HOUR) for _ in range(3)), new("pay", queue="mail", delay=HOUR)
    )

    promoted = await app.bulk.promote(queue="mail", task="mail", limit=2)
    assert await promoted.result() == BulkCounts(2, 2)
    assert await counts(app) == {"ready": 2, "scheduled": 2}
    dropped = await app.bulk.drop(task="mail")
    assert await dropped.result() == BulkCounts(3, 3)
    assert await counts(app) == {"scheduled": 1}


async def test_a_dry_run_counts_all_shows_some_and_changes_nothing(memory):
    await make_dead(memory, INLINE_JOBS + 1)

    run = await memory.bulk.replay(state="dead", dry_run=True)

    assert (run.total, len(run.sample), run.job, await run.result()) == (INLINE_JOBS + 1, 10, None, BulkCounts())
    assert await counts(memory) == {"dead": INLINE_JOBS + 1}
    assert await audited(memory) == []


async def test_jobs_are_chosen_by_ids_and_those_that_stay_are_named(memory):
    dead = await make_dead(memory, 2)
    await memory.queue("mail").enqueue("mail", id="chosen")
    unknown = "00000000-0000-7000-8000-000000000000"

    run = await memory.bulk.replay(ids=[*map(id_text, dead), "chosen", unknown])

    assert await run.result() == BulkCounts(4, 2)
    assert run.unchanged == {"chosen": "ready", unknown: "unknown"}
    [intent, done] = [entry async for entry in memory.audit]
    assert (intent.target, intent.filter, done.count) == (done.target, None, 2)
    assert "chosen" in str(done.target)


async def test_nothing_at_all_is_refused_and_the_error_says_how_to_mean_all(memory):
    await make_dead(memory, 2)
    for options in ({}, {"limit": 5}, {"queue": None}, {"dry_run": True}):
        with pytest.raises(EmptyFilter, match="all=True"):
            await memory.bulk.drop(**options)

    assert await (await memory.bulk.drop(all=True)).result() == BulkCounts(2, 2)


@pytest.mark.parametrize(
    ("action", "options", "why"),
    [
        ("replay", {"state": "done"}, "a job that is done cannot be replayed"),
        ("cancel", {"state": "dead"}, "a job that is dead cannot be cancelled"),
        ("promote", {"state": "ready"}, "a job that is ready cannot be promoted"),
        ("replay", {"state": "lost"}, "give one of"),
        ("drop", {"all": True, "queue": "mail"}, "no filter can be given"),
        ("drop", {"ids": ["x"], "queue": "mail"}, "no filter but state can be given"),
        ("drop", {"ids": ["x"], "limit": 1}, "no limit"),
        ("drop", {"ids": "x"}, "give a list of ids"),
        ("drop", {"queue": "mail", "limit": 0}, "limit"),
        ("drop", {"enqueued_after": datetime(2026, 1, 1)}, "time zone"),
    ],
)
async def test_what_makes_no_sense_is_refused_before_anything_is_done(memory, action, options, why):
    await make_ready(memory, 1)
    with pytest.raises(InvalidOption, match=why):
        await getattr(memory.bulk, action)(**options)
    assert await counts(memory) == {"ready": 1}
    [refused] = [entry async for entry in memory.audit]
    assert (refused.action, refused.outcome, why in refused.error) == (action, "refused", True)


async def test_an_unknown_filter_is_refused_with_the_nearest_name(memory):
    with pytest.raises(TypeError, match="did you mean queue"):
        await memory.bulk.drop(queu="mail")


async def test_jobs_of_packhorse_itself_are_left_alone_unless_their_queue_is_named(memory):
    await put_in(await memory.store(), new("packhorse.deliver", queue=SYSTEM_QUEUE), new(queue="mail"))

    assert await (await memory.bulk.cancel(all=True)).result() == BulkCounts(1, 1)
    assert await counts(memory, SYSTEM_QUEUE) == {"ready": 1}
    assert await (await memory.bulk.cancel(queue=SYSTEM_QUEUE)).result() == BulkCounts(1, 1)


async def test_a_job_whose_unique_key_is_taken_is_skipped_and_counted(memory):
    once = Unique(key="once", until="finished")
    first = await memory.queue("mail").enqueue("mail", unique=once)
    await first.cancel()
    await memory.queue("mail").enqueue("mail", unique=once)

    done = await (await memory.bulk.replay(queue="mail")).result()
    assert (done, done.skipped) == (BulkCounts(1, 0), 1)
    assert await first.state() == "cancelled"


# -- what changes meanwhile


async def test_jobs_that_are_enqueued_after_the_start_are_left_alone(app, clock):
    early = await make_ready(app, PAGE_SIZE)
    order = await app.bulk.order(CANCEL, Search(queue="mail"))
    clock.turn(1)
    late = await make_ready(app, PAGE_SIZE + 1)

    assert await app.bulk.run_here(order) == BulkCounts(PAGE_SIZE, PAGE_SIZE)
    assert await counts(app) == {"cancelled": len(early), "ready": len(late)}


async def test_jobs_that_change_meanwhile_are_left_as_they_are_and_none_is_replayed_twice(app, clock):
    dead = await make_dead(app, 2 * PAGE_SIZE)
    oldest, newest = dead[0], dead[-1]
    store, order = await app.store(), await app.bulk.order(REPLAY, Search(queue="mail"))
    seen: list[int] = []

    async def meanwhile() -> None:
        """One job of the second page is replayed by hand; one of the first page runs and dies again."""
        clock.turn(1)
        await store.jobs.replay([oldest])
        leases = [*await take(store, PAGE_SIZE, "mail"), *await take(store, PAGE_SIZE, "mail")]
        [lease] = [lease for lease in leases if lease.id == newest]
        await end(store, lease, DEAD)

    pages = bulk_pass.selected(app.client, order)
    async for ids, _ in pages:
        seen.append(len(ids))
        assert len(await bulk_pass.act(store, REPLAY, ids)) == len(ids)
        if len(seen) == 1:
            await meanwhile()
    assert sum(seen) == 2 * PAGE_SIZE - 1
    assert await states(store, newest) == ["dead"]
    assert (await counts(app))["dead"] == 1


# -- many jobs


@asynccontextmanager
async def system_worker(app: App, **options: Any) -> AsyncIterator[None]:
    """A worker that has nothing to do but the jobs of Packhorse itself."""
    app.system.require()
    async with app.worker("nothing", **options):
        yield


async def test_many_jobs_are_left_to_a_job_with_progress_and_counts(live):
    await make_dead(live, MANY)
    with live.audit.acting("ann"):
        run = await live.bulk.replay(queue="mail", state="dead")
    assert run.job is not None
    assert (run.total, run.counts, len(run.sample)) == (None, None, 10)
    assert await counts(live) == {"dead": MANY}

    async with system_worker(live):
        assert await run.result(PATIENCE) == BulkCounts(MANY, MANY)
    progress = await run.job.progress()
    assert progress is not None
    assert (progress.percent, progress.message) == (100, f"{MANY:,} of {MANY:,}")
    assert await counts(live) == {"ready": MANY}
    assert await audited(live) == [
        ("replay", {"queue": "mail", "state": "dead"}, "started", None),
        ("replay", {"queue": "mail", "state": "dead"}, "done", MANY),
    ]
    assert {(entry.who, entry.operation) async for entry in live.audit} == {("ann", run.job.id)}
    assert (await (await live.store()).records.find(KIND)).items == ()


async def test_a_worker_without_any_declaration_does_bulk_jobs(memory):
    app = App("sqlite:///:memory:")
    await make_ready(app, INLINE_JOBS + 1)
    run = await app.bulk.cancel(queue="mail")
    async with app, app.worker("nothing"):
        assert await run.result(PATIENCE) == BulkCounts(INLINE_JOBS + 1, INLINE_JOBS + 1)


async def test_a_bulk_job_that_is_cancelled_stops_between_two_pages(monkeypatch):
    app = App("sqlite:///:memory:")
    async with app:
        await make_ready(app, MANY)
        jobs = (await app.store()).jobs
        drop, begun, pages = jobs.drop, asyncio.Event(), count(1)

        async def slow(ids: Any) -> list[bool]:
            if next(pages) == 2:
                begun.set()
                await asyncio.Event().wait()
            return await drop(ids)

        monkeypatch.setattr(jobs, "drop", slow)
        run = await app.bulk.drop(queue="mail")
        assert run.job is not None
        async with system_worker(app, lease=1):
            await asyncio.wait_for(begun.wait(), PATIENCE)
            await run.job.cancel()
            with pytest.raises(JobCancelled):
                await run.result(PATIENCE)
        assert await counts(app) == {"ready": MANY - PAGE_SIZE}
        assert [entry[2:] for entry in await audited(app)] == [("started", None), ("failed", PAGE_SIZE)]


async def test_a_limit_holds_for_a_bulk_job_too(app):
    await make_ready(app, MANY)
    order = await app.bulk.order(DROP, Search(queue="mail"), INLINE_JOBS + 1)

    done = await bulk_pass.run_job(app.client, order, new_id(), lambda *_: None)
    assert done == BulkCounts(INLINE_JOBS + 1, INLINE_JOBS + 1)
    assert await counts(app) == {"ready": MANY - INLINE_JOBS - 1}
