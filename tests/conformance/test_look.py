"""Looking at jobs: one by one, many at a time, and counted."""

import pytest
from msgspec.structs import replace

from packhorse.model.effect import Enqueue
from packhorse.model.job import Failure, Retention, State, StoredJob, UniqueKey, failure
from packhorse.model.lease import Settlement
from packhorse.model.page import Filter, Page
from packhorse.model.reason import DeadReason, WaitReason
from tests.conformance.invariants import plain
from tests.factories import (
    DEAD,
    HOUR,
    MINUTE,
    SECOND,
    WORKER,
    Again,
    Dead,
    Done,
    Held,
    Wait,
    end,
    found,
    laned,
    new,
    new_id,
    one,
    put_in,
    run,
    take,
)


async def test_answer_each_id_with_all_that_is_known_of_its_job_or_none(store, clock):
    parent, enqueued_at = new_id(), clock.now()
    new_job = new(
        "mail.send", queue="mail", payload=b"[1]", headers=b'{"a":1}', tenant="acme", priority=3, lane="a",
        lane_limit=2, parent=parent, unique=UniqueKey("k"),
    )  # fmt: skip
    await store.jobs.enqueue([new_job])
    clock.turn(SECOND)
    await run(store, Again(error=failure("Broken", "oops")), queue="mail")
    [lease] = await take(store, 1, "mail")
    await store.jobs.note([(lease, b"50")])
    await store.jobs.cancel([new_job.id])

    [none, job] = await store.jobs.get([new_id(), new_job.id])

    assert none is None
    assert job == StoredJob(
        id=new_job.id, task="mail.send", queue="mail", payload=b"[1]", headers=b'{"a":1}', priority=3, enqueued_at=enqueued_at,
        state=State.RUNNING, since=lease.claimed, until=lease.until, tenant="acme", lane="a", lane_limit=2, parent=parent, unique="k",
        attempt=2, worker=WORKER, cancelling=True, progress=b"50",
        failures=(Failure("Broken", "oops", attempt=1, at=clock.now()),),
    )  # fmt: skip


async def test_what_is_known_of_an_ended_job_is_all_of_it(store, clock):
    new_job = new("parent", payload=b"[1]", tenant="acme")
    await store.jobs.enqueue([new_job])
    [lease] = await take(store)
    await end(store, lease, Held(1), Enqueue(new("child", parent=new_job.id)))
    await run(store, Done())
    clock.turn(SECOND)

    await end(store, lease, Dead(DeadReason.EXHAUSTED, failure("Broken")))

    assert await one(store, new_job.id) == StoredJob(
        id=new_job.id, task="parent", queue="default", payload=b"[1]", headers=b"{}", priority=10,
        enqueued_at=clock.now() - SECOND, state=State.DEAD, since=clock.now(), tenant="acme", attempt=1, delivered=1,
        reason=DeadReason.EXHAUSTED, failures=(Failure("Broken", attempt=1, at=clock.now()),),
    )  # fmt: skip


async def test_ids_are_answered_in_the_order_asked(store):
    jobs = await put_in(store, *(new() for _ in range(20)))
    wanted = [*reversed(jobs), jobs[0], jobs[0]]

    answers = await store.jobs.get(wanted)

    assert [job.id for job in answers] == wanted


async def test_look_at_no_more_than_a_thousand_jobs_and_answer_those_that_fit_with_a_cursor_while_there_may_be_more(
    store,
):
    for _ in range(3):
        await put_in(store, *(new("hay") for _ in range(500)))
    [needle] = await put_in(store, new("needle"))

    page = await store.jobs.find(Filter(task="needle"))

    assert page.items == ()
    assert page.cursor is not None
    assert [job.id for job in await found(store, task="needle")] == [needle]


async def test_a_page_holds_no_more_than_its_limit(store):
    jobs = await put_in(store, *(new() for _ in range(25)))

    pages, cursor = [], None
    while not pages or cursor:
        pages.append(await store.jobs.find(Filter(), limit=10, cursor=cursor))
        cursor = pages[-1].cursor

    assert max(len(page.items) for page in pages) <= 10
    assert [job.id for page in pages for job in page.items] == jobs


async def test_nothing_found_has_no_cursor(store):
    assert await store.jobs.find(Filter()) == Page(())


async def test_following_the_cursor_visits_every_job_that_does_not_move_exactly_once(store, clock):
    ids = await put_in(store, *(new(queue=f"q{number % 3}", delay=number % 2 * HOUR) for number in range(300)))
    page = await store.jobs.find(Filter(), limit=40)
    seen = [job.id for job in page.items]
    moved: set[bytes] = set()

    while page.cursor:
        gone = [job for job in ids if job not in moved][::29][:2]
        await store.jobs.cancel(gone)
        moved.update(gone)
        await put_in(store, new(queue="q1"), new(queue="q2", delay=MINUTE))
        page = await store.jobs.find(Filter(), limit=40, cursor=page.cursor)
        seen += [job.id for job in page.items]

    still = [job for job in ids if job not in moved]
    assert sorted(job for job in seen if job in set(still)) == sorted(still)


async def test_a_thousand_and_more_jobs_in_every_state_are_found_once(store, clock):
    for _ in range(4):
        await put_in(store, *(new(delay=number % 2 * HOUR) for number in range(250)))
    leases = await take(store, 400)
    await store.jobs.exchange([Settlement(lease, Done()) for lease in leases[:100]])
    await store.jobs.exchange([Settlement(lease, DEAD) for lease in leases[100:150]])
    await store.jobs.exchange([Settlement(lease, Wait(WaitReason.LIMIT)) for lease in leases[150:200]])
    await put_in(store, *(laned() for _ in range(100)))

    jobs = await found(store, limit=77)

    assert len(jobs) == len({job.id for job in jobs}) == 1100
    by_state = {state: sum(job.state is state for job in jobs) for state in State}
    assert by_state == {
        State.SCHEDULED: 500, State.READY: 101, State.RUNNING: 200, State.WAITING: 149, State.DONE: 100,
        State.DEAD: 50, State.CANCELLED: 0,
    }  # fmt: skip


async def test_within_a_queue_scheduled_jobs_come_soonest_first_ready_ones_best_first_waiting_ones_longest_first_ended_ones_newest_first(  # noqa: E501
    store, clock
):
    later, sooner = await put_in(store, new("due", delay=2 * HOUR), new("due", delay=HOUR))
    rounds = []
    for _ in range(3):
        clock.turn(SECOND)
        await put_in(store, new("wait", priority=0))
        rounds.append(await run(store, Wait(WaitReason.CIRCUIT)))
        await put_in(store, new("end", priority=0))
        rounds.append(await run(store, Done()))
    last, first, second = await put_in(store, *(new("ready", priority=priority) for priority in (9, 1, 2)))

    async def order(state: State) -> list[bytes]:
        return [job.id for job in await found(store, limit=2, queue="default", state=state)]

    assert await order(State.SCHEDULED) == [sooner, later]
    assert await order(State.READY) == [first, second, last]
    assert await order(State.WAITING) == [lease.id for lease in rounds[0::2]]
    assert await order(State.DONE) == [lease.id for lease in reversed(rounds[1::2])]


async def test_without_a_queue_ended_jobs_of_one_state_come_newest_first_over_all_queues(store, clock):
    ids = await put_in(store, *(new(queue=f"q{number % 3}", priority=number) for number in range(30)))
    for number in range(30):
        clock.turn(SECOND)
        await run(store, Done(keep=Retention(100, HOUR + number % 2)), queue=f"q{number % 3}")

    for limit in (100, 7):
        assert [job.id for job in await found(store, limit=limit, state=State.DONE)] == ids[::-1]
        assert [job.id for job in await found(store, limit=limit, state=State.DONE, queue="q1")] == ids[1::3][::-1]
    assert [job.id for job in await found(store, limit=4)] == ids[::-1]


async def test_the_cursor_over_all_queues_passes_over_what_ends_meanwhile(store, clock):
    async def finish(queue: str) -> bytes:
        [job] = await put_in(store, new(queue=queue))
        clock.turn(SECOND)
        await run(store, DEAD, queue=queue)
        return job

    ids = [await finish(queue) for queue in "abcabacb"]
    page = await store.jobs.find(Filter(state=State.DEAD), limit=3)
    seen = [job.id for job in page.items]
    later = []
    while page.cursor:
        later.append(await finish("abcd"[len(later) % 4]))
        await store.jobs.drop([ids[len(later)]])
        page = await store.jobs.find(Filter(state=State.DEAD), limit=3, cursor=page.cursor)
        seen += [job.id for job in page.items if job.id in ids]

    dropped = ids[1 : len(later) + 1]
    assert seen[:3] == ids[:4:-1]
    assert [job for job in seen if job not in dropped] == [job for job in reversed(ids) if job not in dropped]
    assert len(set(seen)) == len(seen)


async def test_ended_jobs_of_many_queues_are_found_newest_first(store, clock):
    ids = []
    for _ in range(3):
        ids += await put_in(store, *(new(queue=f"q{number}") for number in range(120)))
        for number in range(120):
            clock.turn(SECOND)
            await run(store, Done(), queue=f"q{number}")

    assert [job.id for job in await found(store, limit=50, state=State.DONE)] == ids[::-1]


async def ended_with_bodies(store) -> list[bytes]:
    """A dead job with two tracebacks, a done one with a result, and one that is ready."""
    broken = failure("Broken", 'say ","traceback":"', "line 1\nline 2")
    ids = await put_in(
        store,
        new(payload=b'{"a":1}', headers=b'{"b":2}', priority=0, lane="a", children=0, tenant="acme"),
        new(payload=b'{"a":2}', headers=b'{"b":3}', priority=1),
        new(payload=b'{"a":3}', headers=b'{"b":4}', priority=2, delay=HOUR),
        new(payload=b'{"a":4}', headers=b'{"b":5}', priority=3),
    )
    await run(store, Again(error=broken))
    await run(store, Dead(DeadReason.EXHAUSTED, broken))
    await run(store, Done(b'{"c":1}'))
    return ids


def without_bodies(job: StoredJob) -> StoredJob:
    failures = tuple(replace(one, traceback="") for one in job.failures)
    return replace(job, payload=b"", result=None, failures=failures)


async def test_without_bodies_payload_result_and_tracebacks_come_empty(store):
    ids = await ended_with_bodies(store)
    full = await store.jobs.get(ids)
    assert [len(job.failures) for job in full] == [2, 0, 0, 0]
    assert full[0].failures[0].traceback
    assert [job.result for job in full] == [None, b'{"c":1}', None, None]

    assert await store.jobs.get([*ids, new_id()], bodies=False) == [*map(without_bodies, full), None]


async def test_jobs_that_are_found_without_bodies_come_as_get_answers_them_without_bodies(store):
    ids = await ended_with_bodies(store)

    page = await store.jobs.find(Filter(), bodies=False)
    some = await store.jobs.find(Filter(state=State.DEAD), limit=1, bodies=False)

    assert sorted(job.id for job in page.items) == sorted(ids)
    assert list(page.items) == await store.jobs.get([job.id for job in page.items], bodies=False)
    assert list(some.items) == await store.jobs.get(ids[:1], bodies=False)


async def mixture(store) -> None:
    """Jobs that differ in everything one can look for."""
    parent = bytes(15) + b"\1"
    await put_in(
        store,
        new("plain"),
        new("kept", queue="other", tenant="acme", delay=HOUR),
        new("kept", tenant="acme", parent=parent),
        laned("a", task="lane", tenant="umbrella"),
        laned("a", task="lane", queue="other"),
        laned("a", task="lane"),
        new("family", children=2),
    )
    await put_in(store, new("dead", priority=0))
    await run(store, DEAD)


@pytest.mark.parametrize(
    ("wanted", "count"),
    [
        ({}, 8),
        ({"queue": "other"}, 2),
        ({"queue": "nowhere"}, 0),
        ({"state": State.READY}, 4),
        ({"state": State.WAITING}, 2),
        ({"state": State.CANCELLED}, 0),
        ({"queue": "other", "state": State.SCHEDULED}, 1),
        ({"task": "kept"}, 2),
        ({"task": "kept", "state": State.SCHEDULED}, 1),
        ({"reason": WaitReason.LANE}, 1),
        ({"reason": WaitReason.CHILDREN}, 1),
        ({"reason": DeadReason.FINAL}, 1),
        ({"reason": DeadReason.POISON}, 0),
        ({"lane": "a"}, 3),
        ({"lane": "a", "queue": "other"}, 1),
        ({"tenant": "acme"}, 2),
        ({"tenant": "acme", "queue": "default"}, 1),
        ({"parent": bytes(15) + b"\1"}, 1),
        ({"parent": bytes(16)}, 0),
    ],
)
async def test_each_filter_finds_what_fits_and_nothing_else(store, wanted, count):
    await mixture(store)

    jobs = await found(store, limit=2, **wanted)

    assert len(jobs) == count
    assert all(Filter(**wanted).fits(job) for job in jobs)


@pytest.mark.parametrize("limit", [1000, 300, 7])
async def test_each_filter_finds_its_own_among_more_than_a_thousand(store, limit):
    for _ in range(4):
        await put_in(store, *(new(f"t{n % 10}", queue=f"q{n % 3}", delay=n % 2 * HOUR) for n in range(300)))

    assert len(await found(store, limit=limit, task="t4")) == 120
    assert len(await found(store, limit=limit, queue="q1")) == 400
    assert len(await found(store, limit=limit, queue="q1", state=State.SCHEDULED)) == 200
    assert len(await found(store, limit=limit, queue="q1", task="t4")) == 40
    assert await found(store, limit=limit, state=State.READY, task="t5") == []


async def test_jobs_are_found_by_their_age(store, clock):
    await put_in(store, new())
    clock.turn(SECOND)
    [young] = await put_in(store, new())

    assert [job.id for job in await found(store, enqueued_since=clock.now())] == [young]


async def test_count_the_jobs_of_every_queue_by_state(store):
    await mixture(store)

    counts = plain(await store.jobs.count())

    assert counts == {
        ("default", State.READY): 3,
        ("default", State.WAITING): 2,
        ("default", State.DEAD): 1,
        ("other", State.SCHEDULED): 1,
        ("other", State.READY): 1,
    }


async def test_an_empty_store_counts_nothing(store):
    assert plain(await store.jobs.count()) == {}


async def test_counts_follow_a_job_through_its_life(store, clock):
    async def now() -> State:
        [((_, state), count)] = plain(await store.jobs.count()).items()
        assert count == 1
        return state

    [job] = await put_in(store, new(delay=SECOND))
    seen = [await now()]
    clock.turn(SECOND)
    for outcome in (Again(), Wait(WaitReason.LIMIT), DEAD, Done()):
        [lease] = await take(store)
        seen.append(await now())
        await end(store, lease, outcome)
        seen.append(await now())
        await store.jobs.release(WaitReason.LIMIT)
        await store.jobs.replay([job])
    await store.jobs.drop([job])

    scheduled, ready, running, waiting, done, dead, _ = State
    assert seen == [scheduled, running, ready, running, waiting, running, dead, running, done]
    assert plain(await store.jobs.count()) == {}
