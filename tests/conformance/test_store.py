"""Opening and closing stores, their layout and their time."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from packhorse.errors import SchemaMismatch, StoreClosed
from packhorse.model.clock import SYSTEM
from packhorse.model.effect import Publish, Put
from packhorse.model.job import State
from packhorse.model.page import Filter
from packhorse.model.reason import WaitReason
from packhorse.model.worker import WorkerInfo
from tests.conformance.releases import Release
from tests.factories import HOUR, MINUTE, WORKER, Done, ask, new, new_id, put_in, run, state, take


async def test_connect_and_refuse_a_layout_that_this_release_cannot_work_with_saying_what_to_do(made):
    store = made()

    with pytest.raises(SchemaMismatch, match="migrate"):
        await store.open()

    await store.migrate()
    await store.open()
    assert await store.jobs.count() == {}


async def test_a_layout_with_steps_of_a_newer_release_is_refused_unless_all_of_them_are_compatible(
    made, place, tmp_path
):
    later, last = Release(tmp_path / "later"), Release(tmp_path / "last")
    for release in (later, last):
        release.add_a_step(compatible=True)
    last.add_a_step(compatible=False)

    assert "9999_later" in await later.run("migrate", *place)
    store = made()
    await store.open()
    assert await store.migrate() == []
    await put_in(store, new())
    await run(store, Done())

    assert await last.run("migrate", *place) == "ok ['9999_other']"
    for verb in (made().open, made().migrate):
        with pytest.raises(SchemaMismatch, match=r"9999_other.*upgrade"):
            await verb()


async def test_a_layout_made_by_an_earlier_release_is_refused(made, place, tmp_path):
    await made().migrate()
    later = Release(tmp_path / "later")
    later.add_a_step()

    given = await later.run("open", *place)

    assert given.startswith("SchemaMismatch")
    assert "migrate" in given


async def test_bring_the_layout_up_to_date_and_answer_the_names_of_the_steps_taken(made, place, tmp_path):
    steps = await made().migrate()
    later = Release(tmp_path / "later")
    later.add_a_step()

    assert steps
    assert await later.run("migrate", *place) == "ok ['9999_other']"
    assert (await later.run("open", *place)).startswith("ok")


async def test_an_up_to_date_store_takes_no_step(store):
    [job] = await put_in(store, new())

    assert await store.migrate() == []

    assert await state(store, job) is State.READY


async def test_two_migrators_at_once_take_each_step_once(made):
    first, second, third = await asyncio.gather(made().migrate(), made().migrate(), made().migrate())

    taken = [*first, *second, *third]
    assert taken
    assert len(set(taken)) == len(taken)
    store = made()
    assert await store.migrate() == []
    await store.open()


async def test_a_step_that_was_changed_after_it_was_taken_is_refused(made, place, tmp_path):
    await made().migrate()
    other = Release(tmp_path / "other")
    other.change_a_step()

    given = [await other.run(verb, *place) for verb in ("migrate", "open")]

    assert [words.split()[0] for words in given] == ["SchemaMismatch", "SchemaMismatch"]


async def calls(store, lease) -> AsyncIterator:
    """A call of every verb."""
    jobs, records = store.jobs, store.records
    yield jobs.enqueue([new()])
    yield jobs.exchange([], ask())
    yield jobs.fire([[]])
    yield jobs.renew([lease], MINUTE)
    yield jobs.reap(1)
    yield jobs.release(WaitReason.LIMIT)
    yield jobs.cancel([lease.id])
    yield jobs.replay([lease.id])
    yield jobs.promote([lease.id])
    yield jobs.note([(lease, b"1")])
    yield jobs.watch([lease.id], MINUTE)
    yield jobs.prune(1)
    yield jobs.drop([lease.id])
    yield jobs.get([lease.id])
    yield jobs.find(Filter())
    yield jobs.count()
    yield store.queues.pause(["default"])
    yield store.queues.resume(["default"])
    yield store.queues.stats()
    yield records.put([Put("kind", "key", b"1")])
    yield records.get("kind", ["key"])
    yield records.find("kind")
    yield records.due("kind", 1)
    yield records.drop("kind", ["key"])
    yield store.streams.publish([Publish("news", b"1")])
    yield store.streams.read("news")
    yield store.fleet.beat(WorkerInfo(id=WORKER, name="ox"), MINUTE)
    yield store.fleet.workers()
    yield store.ping()


async def test_let_go_of_everything_a_closed_store_refuses_calls_and_closing_twice_is_harmless(another):
    store = await another()
    await put_in(store, new())
    [lease] = await take(store)

    await store.close()
    await store.close()

    async for call in calls(store, lease):
        with pytest.raises(StoreClosed):
            await call


async def test_a_store_that_is_not_open_refuses_calls(made, store):
    await put_in(store, new())
    [lease] = await take(store)
    shut = made()
    await shut.migrate()

    async for call in calls(shut, lease):
        with pytest.raises(StoreClosed):
            await call


async def test_a_store_that_was_never_opened_can_be_closed(made):
    store = made()

    await store.close()
    await store.close()


async def test_what_was_stored_is_there_for_the_next_who_opens_it(made, clock):
    first = made(clock=clock)
    await first.migrate()
    await first.open()
    done, ready = await put_in(first, new(payload=b"1"), new())
    await run(first, Done(b"2"))
    await first.records.put([Put("kind", "key", b"3")])
    before = await first.jobs.get([done, ready])
    await first.close()

    second = made(clock=clock)
    await second.open()

    assert await second.jobs.get([done, ready]) == before
    assert [record.value for record in (await second.records.find("kind")).items] == [b"3"]
    assert [lease.id for lease in await take(second)] == [ready]


async def test_answer_with_the_stores_time(store, clock):
    assert await store.ping() == clock.now()
    clock.turn(HOUR + 1)

    assert await store.ping() == clock.now()


async def test_without_a_clock_given_the_stores_own_time_rules(made):
    store = made()
    await store.migrate()
    await store.open()

    first = await store.ping()
    [job] = await put_in(store, new())
    [stored] = await store.jobs.get([job])
    last = (await store.jobs.exchange([], ask())).now

    assert abs(first - SYSTEM.now()) < HOUR
    assert first <= stored.enqueued_at <= last


async def test_two_stores_on_one_place_see_the_same(store, second):
    [job] = await put_in(store, new())
    [lease] = await take(second)
    await store.jobs.note([(lease, b"1")])

    [seen] = await second.jobs.get([job])

    assert (seen.progress, await second.jobs.count()) == (b"1", await store.jobs.count())
    assert await second.jobs.get([new_id()]) == [None]


async def test_answer_a_second_store_of_the_same_place_to_be_opened_and_used_on_another_event_loop(store):
    [job] = await put_in(store, new())

    def elsewhere() -> list[bytes]:
        async def look() -> list[bytes]:
            clone = store.clone()
            await clone.open()
            try:
                return [found.id for found in await clone.jobs.get([job]) if found is not None]
            finally:
                await clone.close()

        return asyncio.run(look())

    assert await asyncio.to_thread(elsewhere) == [job]


async def test_what_one_writes_the_other_sees_and_closing_one_leaves_the_other_open(store):
    clone = store.clone()
    await clone.open()
    [job] = await put_in(clone, new())

    await clone.close()

    assert await state(store, job) is State.READY


async def test_tidy_up_what_many_writes_leave_behind_if_there_is_much_of_it_and_answer_what_was_tidied(store):
    assert await store.maintain() == []


async def test_nothing_that_is_stored_changes(store):
    jobs = await put_in(store, new(), new(delay=HOUR), new(lane="a"), new(lane="a"))
    before = await store.jobs.get(jobs)

    await store.maintain()

    assert await store.jobs.get(jobs) == before
