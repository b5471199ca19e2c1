"""Bulk jobs whose attempts end anywhere, also by SIGKILL: the next one continues with the right jobs and counts."""

import asyncio
import os
import signal
import sys
from itertools import count
from typing import Any

import pytest

from packhorse import App
from packhorse.bulk import bulk_pass
from packhorse.bulk.checkpoint import Checkpoint, Progressed
from packhorse.bulk.order import BulkCounts
from packhorse.errors import RecordConflict
from packhorse.jobs.bulk_action import CANCEL, DROP, PROMOTE, REPLAY, BulkAction
from packhorse.jobs.search import PAGE_SIZE, Search
from packhorse.model.ids import new_id
from tests.factories import DEAD, HOUR, MINUTE, end, states, take
from tests.features.bulk_jobs import MANY, audited, counts, make_dead, make_ready
from tests.features.factories import Place

LONG = bool(os.environ.get("PACKHORSE_TEST_LONG"))
KILLED_JOBS = 5_000 if LONG else MANY  # more dead ones are not kept
KILLS = [("replay", "after", 2)]
if LONG:
    KILLS = [(action, when, 7) for action in ("replay", "cancel", "drop") for when in ("before", "after")]
PATIENCE = 60 if LONG else 30


class Stop(BaseException):
    """Ends an attempt as a kill would."""


def stopping(monkeypatch: pytest.MonkeyPatch, jobs: Any, verb: str, page: int, *, after: bool) -> None:
    """Let an attempt end at a page, before or after it was written."""
    write, calls = getattr(jobs, verb), count(1)

    async def call(ids: Any, **options: Any) -> Any:
        here = next(calls) == page
        if here and not after:
            raise Stop
        answer = await write(ids, **options)
        if here:
            raise Stop
        return answer

    monkeypatch.setattr(jobs, verb, call)


@pytest.mark.parametrize("action", [REPLAY, CANCEL, DROP, PROMOTE], ids=lambda action: action.name)
async def test_an_attempt_that_ends_anywhere_is_continued_with_the_right_jobs_and_counts(
    app, monkeypatch, action: BulkAction
):
    store, total = await app.store(), 2 * PAGE_SIZE + 100
    if action is REPLAY:
        await make_dead(app, total)
    elif action is PROMOTE:
        await make_ready(app, total, delay=HOUR)
    else:
        await make_ready(app, total)
    order, job = await app.bulk.order(action, Search(queue="mail")), new_id()

    # The second attempt writes the page that the first one had begun, the third finds it written and ends before its second.
    for page, after in ((1, False), (1, True), (2, False)):
        with monkeypatch.context() as patch:
            stopping(patch, store.jobs, action.name, page, after=after)
            with pytest.raises(Stop):
                await bulk_pass.run_job(app.client, order, job, lambda *_: None)
    assert await bulk_pass.run_job(app.client, order, job, lambda *_: None) == BulkCounts(total, total)
    ended = {"replay": {"ready": total}, "cancel": {"cancelled": total}, "drop": {}, "promote": {"ready": total}}
    assert await counts(app) == ended[action.name]


async def test_a_job_that_dies_again_before_the_attempt_is_continued_is_not_replayed_twice(app, monkeypatch, clock):
    [job, other] = await make_dead(app, 2)
    store, order, bulk = await app.store(), await app.bulk.order(REPLAY, Search(queue="mail")), new_id()
    with monkeypatch.context() as patch:
        stopping(patch, store.jobs, "replay", 1, after=True)
        with pytest.raises(Stop):
            await bulk_pass.run_job(app.client, order, bulk, lambda *_: None)
    clock.turn(MINUTE)
    [lease] = [lease for lease in await take(store, 2, "mail") if lease.id == job]
    await end(store, lease, DEAD)

    assert await bulk_pass.run_job(app.client, order, bulk, lambda *_: None) == BulkCounts(2, 2)
    assert await states(store, job, other) == ["dead", "running"]


async def test_jobs_that_were_replayed_by_hand_before_the_attempt_is_continued_are_not_dropped(app, monkeypatch):
    [job, _] = await make_dead(app, 2)
    store, order, bulk = await app.store(), await app.bulk.order(DROP, Search(queue="mail", state="dead")), new_id()
    with monkeypatch.context() as patch:
        stopping(patch, store.jobs, "drop", 1, after=False)
        with pytest.raises(Stop):
            await bulk_pass.run_job(app.client, order, bulk, lambda *_: None)
    await store.jobs.replay([job])

    assert await bulk_pass.run_job(app.client, order, bulk, lambda *_: None) == BulkCounts(2, 1)
    assert await counts(app) == {"ready": 1}


async def test_an_attempt_whose_lease_was_lost_stops_at_the_next_page(app):
    store, job = await app.store(), new_id()
    begun = await store.ping()
    old, later = Checkpoint(store, job, begun), Checkpoint(store, job, begun)
    await old.write(Progressed(10))
    assert await later.read() == Progressed(10)
    await later.write(Progressed(10, counts=BulkCounts(5, 5)))
    with pytest.raises(RecordConflict):
        await old.write(Progressed(10, counts=BulkCounts(1, 1)))


async def killed_worker(place: Place, when: str, page: int) -> asyncio.subprocess.Process:
    program = [sys.executable, "-m", "tests.features.bulk_worker", when, str(page)]
    return await asyncio.create_subprocess_exec(*program, env=place.environment, stderr=asyncio.subprocess.DEVNULL)


@pytest.mark.parametrize(("action", "when", "page"), KILLS)
async def test_a_bulk_job_whose_worker_is_killed_is_continued_by_another(
    live: App, place: Place, action: str, when: str, page: int
):
    await (make_dead if action == "replay" else make_ready)(live, KILLED_JOBS)
    await make_ready(live, 5, "other")
    [state] = await counts(live)
    run = await getattr(live.bulk, action)(queue="mail")
    first = await killed_worker(place, when, page)
    assert await asyncio.wait_for(first.wait(), PATIENCE) == -signal.SIGKILL
    written = PAGE_SIZE * (page if when == "after" else page - 1)
    assert (await counts(live))[state] == KILLED_JOBS - written

    second = await killed_worker(place, "never", 0)
    try:
        assert await run.result(PATIENCE) == BulkCounts(KILLED_JOBS, KILLED_JOBS)
    finally:
        second.kill()
        await second.wait()
    left = await counts(live)
    assert left.get(state, 0) == 0
    assert left.get("ready", 0) == (KILLED_JOBS if action == "replay" else 0)
    assert await counts(live, "other") == {"ready": 5}
    assert [entry[2:] for entry in await audited(live)] == [("started", None), ("done", KILLED_JOBS)]
