"""How many bytes one call carries."""

import pytest
from msgspec.structs import replace

from packhorse.errors import TooManyBytes
from packhorse.model import caps
from packhorse.model.job import State, Unique, Until
from packhorse.model.lease import Ask, Exchange, Share
from tests.making import MINUTE, SECOND, WORKER, Done, ask, end, laned, new, one, put_in, state, take

KIB = 1024
EMPTY = len(new().headers)


def sized(size: int, **options):
    """A job with so many bytes of payload and headers."""
    return new(payload=b"x" * (size - EMPTY), **options)


async def asked(store, wish: Ask) -> Exchange:
    return await store.jobs.exchange((), wish)


async def test_more_bytes_than_the_cap_are_refused_and_none_is_stored(store):
    with pytest.raises(TooManyBytes, match="67,108,864"):
        await put_in(store, *[new(payload=b"x" * caps.PAYLOAD)] * 65)

    assert await store.jobs.count() == {}


async def test_payloads_and_headers_of_all_leases_together_fit_in_the_bytes_of_the_ask_but_one_job_is_always_leased(
    store,
):
    jobs = await put_in(store, sized(9 * KIB), *[sized(KIB) for _ in range(5)], sized(9 * KIB))
    wish = ask(max_bytes=4 * KIB)

    leased = [
        [lease.id for lease in (await asked(store, replace(wish, token=bytes(16 - 1) + b"%d" % n))).leases]
        for n in range(4)
    ]

    assert leased == [jobs[:1], jobs[1:5], jobs[5:6], jobs[6:]]


async def test_bytes_of_headers_count(store):
    jobs = await put_in(store, *[new(payload=b"x", headers=b"h" * 1023) for _ in range(3)])

    assert [lease.id for lease in (await asked(store, ask(max_bytes=2 * KIB))).leases] == jobs[:2]


async def test_a_job_that_does_not_fit_stays_ready_in_its_place_and_none_behind_it_is_leased(store):
    small, large, other, *rest = await put_in(store, sized(KIB), sized(4 * KIB), sized(KIB), sized(KIB))

    first = await asked(store, ask(max_bytes=4 * KIB))

    assert ([lease.id for lease in first.leases], first.more) == ([small], True)
    assert {(await one(store, job)).state for job in (large, other, *rest)} == {State.READY}
    assert (await store.jobs.count())["default"]["ready"] == 3
    later = await take(store)
    assert [(lease.id, lease.attempt) for lease in later] == [(job, 1) for job in (large, other, *rest)]


async def test_the_bytes_of_an_ask_are_for_all_its_queues(store):
    first = await put_in(store, *[sized(KIB, queue="first") for _ in range(3)])
    second = await put_in(store, *[sized(KIB, queue="second") for _ in range(3)])

    both = Ask(WORKER, (Share("first", 2), Share("second", 2)), max_bytes=3 * KIB)
    answer = await asked(store, both)

    assert {lease.id for lease in answer.leases} == {*first[:2], second[0]}
    assert answer.more
    rest = await take(store, 10, "first", "second")
    assert {lease.id for lease in rest} == {first[2], *second[1:]}


async def test_jobs_that_come_due_are_weighed_like_others(store, clock):
    due = await put_in(store, *[sized(KIB, delay=MINUTE) for _ in range(3)])
    clock.turn(MINUTE)
    ready = await put_in(store, *[sized(KIB) for _ in range(2)])

    first = await asked(store, ask(max_bytes=2 * KIB))
    second = await asked(store, ask(max_bytes=2 * KIB))

    assert [lease.id for lease in (*first.leases, *second.leases)] == [*due, ready[0]]
    counts = (await store.jobs.count())["default"]
    assert (counts.get("scheduled", 0), counts["ready"], counts["running"]) == (0, 1, 4)


async def test_many_jobs_are_weighed_beyond_those_that_are_read_together(store):
    jobs = await put_in(store, *[sized(KIB) for _ in range(100)])

    answer = await asked(store, ask(100, max_bytes=70 * KIB))

    assert ([lease.id for lease in answer.leases], answer.more) == (jobs[:70], True)
    assert [lease.id for lease in await take(store, 100)] == jobs[70:]


async def test_a_job_whose_unique_key_is_free_when_it_starts_keeps_the_key_if_it_does_not_fit(store):
    _, second = await put_in(store, sized(KIB), sized(4 * KIB, unique=Unique("key", Until.STARTED)))

    await asked(store, ask(max_bytes=4 * KIB))

    assert await put_in(store, new(unique=Unique("key", Until.STARTED))) == [second]


async def test_the_same_ask_again_for_fewer_bytes_makes_leases_that_do_not_fit_ready_again_uncharged(store):
    jobs = await put_in(store, *[sized(KIB) for _ in range(4)])
    wish = ask()
    first = await asked(store, wish)
    assert len(first.leases) == 4

    again = await asked(store, replace(wish, again=True, max_bytes=2 * KIB))

    assert [(lease.id, lease.attempt, lease.token) for lease in again.leases] == [
        (job, 1, wish.token) for job in jobs[:2]
    ]
    assert again.more
    counts = (await store.jobs.count())["default"]
    assert (counts["ready"], counts["running"]) == (2, 2)
    rest = await take(store)
    assert [(lease.id, lease.attempt, lease.lost) for lease in rest] == [(job, 1, 0) for job in jobs[2:]]


async def test_a_lease_that_was_made_ready_again_is_over(store):
    _, other = await put_in(store, sized(KIB), sized(KIB))
    wish = ask()
    _, lease = (await asked(store, wish)).leases
    await asked(store, replace(wish, again=True, max_bytes=KIB))

    await end(store, lease, Done())

    assert await state(store, other) is State.READY
    assert [lease.id for lease in await take(store)] == [other]


async def test_a_cancelled_job_whose_lease_does_not_fit_ends_as_cancelled(store):
    _, job = await put_in(store, sized(KIB), sized(KIB))
    wish = ask()
    await asked(store, wish)
    await store.jobs.cancel([job])

    await asked(store, replace(wish, again=True, max_bytes=KIB))

    assert await state(store, job) is State.CANCELLED


async def test_a_job_of_a_lane_whose_lease_does_not_fit_keeps_its_slot(store):
    _, job, behind = await put_in(store, sized(KIB), laned(payload=b"x" * KIB), laned())
    wish = ask()
    assert [lease.id for lease in (await asked(store, wish)).leases][1] == job

    await asked(store, replace(wish, again=True, max_bytes=KIB))

    assert [lease.id for lease in await take(store)] == [job]
    assert await state(store, behind) is State.WAITING


async def test_leases_that_do_not_fit_are_not_charged_with_a_loss_when_the_first_runs_out(store, clock):
    first, second = await put_in(store, sized(KIB), sized(KIB))
    wish = ask(lease=10 * SECOND)
    await asked(store, wish)
    await asked(store, replace(wish, again=True, max_bytes=KIB))
    clock.turn(11 * SECOND)

    assert [lost.id for lost in await store.jobs.reap(10)] == [first]
    assert {lease.id: lease.lost for lease in await take(store)} == {first: 1, second: 0}
