"""Small keyed values with versions."""

import asyncio
import itertools

import pytest

from packhorse.model.effect import Put
from packhorse.model.job import State
from packhorse.model.outcome import On
from packhorse.model.reason import WaitReason
from packhorse.model.record import Record
from tests.factories import HOUR, MINUTE, SECOND, Wait, laned, new, one, put_in, run, state, states, take


def put(key: str = "key", value: bytes | None = b"1", **options) -> Put:
    """A record of the kind ``kind``."""
    return Put("kind", key, value, **options)


async def keys(store, prefix: str = "", limit: int = 100) -> list[str]:
    """The keys found, page by page."""
    names: list[str] = []
    cursor = None
    while True:
        page = await store.records.find("kind", prefix=prefix, limit=limit, cursor=cursor)
        assert len(page.items) <= limit
        names += [record.key for record in page.items]
        if (cursor := page.cursor) is None:
            return names


async def test_write_records_by_compare_and_set_and_answer_each_new_version_or_none_where_the_expectation_failed(
    store,
):
    [first] = await store.records.put([put(expect=0)])

    versions = await store.records.put([
        put(value=b"no", expect=0), put(value=b"no", expect=first + 1), put(value=b"yes", expect=first),
        put("other", expect=7), put("free", expect=0),
    ])  # fmt: skip

    assert [version is not None for version in versions] == [False, False, True, False, True]
    records = await store.records.get("kind", ["key", "other", "free"])
    assert [record and record.value for record in records] == [b"yes", None, b"1"]
    assert [record.version for record in records if record] == [versions[2], versions[4]]


async def test_a_version_rises_with_every_write(store, clock):
    versions = [await store.records.put([put(value=b"%d" % number)]) for number in range(3)]
    clock.turn(SECOND)
    versions.append(await store.records.put([put()]))
    await store.records.drop("kind", ["key"])
    clock.turn(SECOND)
    versions.append(await store.records.put([put(expect=0)]))

    assert all(before < after for before, after in itertools.pairwise(versions))


async def test_a_version_is_at_least_the_moment_of_its_write(store, clock):
    [first] = await store.records.put([put()])
    [second] = await store.records.put([put()])
    clock.turn(SECOND)
    [third] = await store.records.put([put()])

    assert (first, second, third) == (clock.now() - SECOND, clock.now() - SECOND + 1, clock.now())


async def test_the_same_value_again_is_a_new_version(store):
    versions = await store.records.put([put(), put()])

    assert versions[0] < versions[1]


async def test_an_expectation_that_failed_changes_nothing(store):
    await store.records.put([put(due=1, expires=0)])
    [before] = await store.records.get("kind", ["key"])

    await store.records.put([put(value=b"2", expect=0, due=5), put(value=None, expect=1)])

    assert await store.records.get("kind", ["key"]) == [before]


async def test_puts_of_one_call_see_each_other(store):
    versions = await store.records.put([put(expect=0), put(value=b"2", expect=0), put(value=None), put(expect=0)])

    assert [version is not None for version in versions] == [True, False, True, True]


async def test_a_record_that_has_expired_is_absent(store, clock):
    await store.records.put([put(expires=clock.now() + MINUTE), put("stays", expires=clock.now() + HOUR)])
    clock.turn(MINUTE - 1)
    assert await keys(store) == ["key", "stays"]
    clock.turn(2)

    assert (await store.records.get("kind", ["key"])) == [None]
    assert await keys(store) == ["stays"]
    assert await store.records.drop("kind", ["key"]) == 0
    assert await store.records.put([put(expect=0)]) != [None]


async def test_an_expired_record_has_no_version_to_be_written_over(store, clock):
    [version] = await store.records.put([put(expires=clock.now() + MINUTE)])
    clock.turn(HOUR)

    assert await store.records.put([put(expect=version)]) == [None]


async def test_a_write_says_anew_whether_a_record_expires(store, clock):
    await store.records.put([put(expires=clock.now() + MINUTE)])
    await store.records.put([put(value=b"2")])
    clock.turn(HOUR)

    [record] = await store.records.get("kind", ["key"])

    assert (record.value, record.expires) == (b"2", 0)


async def test_a_record_that_expires_at_once_is_absent(store, clock):
    await store.records.put([put(expires=clock.now() - SECOND)])

    assert await store.records.get("kind", ["key"]) == [None]


async def test_putting_no_value_drops_the_record_and_answers_zero(store):
    await store.records.put([put()])

    assert await store.records.put([put(value=None), put("never", value=None)]) == [0, 0]

    assert await store.records.get("kind", ["key"]) == [None]


async def test_a_drop_by_put_has_expectations_too(store):
    [version] = await store.records.put([put()])

    answers = await store.records.put([put(value=None, expect=0), put(value=None, expect=version + 1)])
    assert answers == [None, None]

    assert await store.records.put([put(value=None, expect=version)]) == [0]
    assert await store.records.put([put(value=None, expect=version)]) == [None]
    assert await store.records.put([put(value=None, expect=0)]) == [0]


async def test_a_put_makes_the_jobs_ready_that_wait_for_its_record(store, clock):
    jobs = await put_in(store, new(), new(), new(), new())
    for key in ("go", "go", "other"):
        await run(store, Wait(WaitReason.SIGNAL, On("kind", key)))
    await run(store, Wait(WaitReason.SIGNAL, On("another kind", "go")))
    clock.turn(SECOND)

    await store.records.put([put("go")])

    ready, waiting = State.READY, State.WAITING
    assert await states(store, *jobs) == [ready, ready, waiting, waiting]
    released = await one(store, jobs[0])
    assert (released.since, released.reason, released.attempt) == (clock.now(), None, 0)
    assert [lease.id for lease in await take(store)] == jobs[:2]


async def test_a_put_releases_only_those_who_wait_for_a_newer_version(store, clock):
    jobs = await put_in(store, new(), new())
    now = clock.now()
    for after in (now, now + HOUR):
        await run(store, Wait(WaitReason.SIGNAL, On("kind", "go", after=after)))
    clock.turn(SECOND)

    await store.records.put([put("go")])

    assert await states(store, *jobs) == [State.READY, State.WAITING]


@pytest.mark.parametrize("verb", ["put", "drop", "conflict"])
async def test_what_puts_no_value_releases_nobody(store, verb):
    [job] = await put_in(store, new())
    [version] = await store.records.put([put("go")])
    await run(store, Wait(WaitReason.SIGNAL, On("kind", "go", after=version)))

    if verb == "drop":
        await store.records.drop("kind", ["go"])
    else:
        await store.records.put([put("go", value=None) if verb == "put" else put("go", expect=0)])

    assert await state(store, job) is State.WAITING


async def test_a_job_of_a_lane_released_by_a_put_still_has_its_slot(store):
    jobs = await put_in(store, laned(), laned())
    await run(store, Wait(WaitReason.SIGNAL, On("kind", "go")))

    await store.records.put([put("go")])

    assert await states(store, *jobs) == [State.READY, State.WAITING]


async def test_a_job_cancelled_while_it_waits_for_a_record_stays_cancelled(store):
    [job] = await put_in(store, new())
    await run(store, Wait(WaitReason.SIGNAL, On("kind", "go")))
    await store.jobs.cancel([job])

    await store.records.put([put("go")])

    assert await state(store, job) is State.CANCELLED


async def test_answer_each_key_with_its_record_or_none(store, clock):
    now = clock.now()
    [version, _] = await store.records.put([put("a", b'{"n":1}', due=now + 1, expires=now + HOUR), put("b")])

    records = await store.records.get("kind", ["never", "a", "b", "a"])

    whole = Record("kind", "a", b'{"n":1}', version, now + 1, now + HOUR)
    assert [records[0], records[1], records[3]] == [None, whole, whole]
    assert records[2].key == "b"


async def test_kinds_are_apart(store):
    await store.records.put([Put("a", "k", b"1"), Put("b", "k", b"2"), Put("ab", "k", b"3"), Put("a", "bk", b"4")])

    assert await store.records.drop("a", ["k"]) == 1

    assert await store.records.get("a", ["k"]) == [None]
    assert [record.value for record in (await store.records.find("b")).items] == [b"2"]
    assert [record.key for record in (await store.records.find("a")).items] == ["bk"]


async def test_answer_the_records_of_a_kind_whose_key_begins_with_a_prefix_in_the_order_of_their_keys_page_by_page(
    store,
):
    names = [f"run/{number:03}" for number in range(25)]
    others = ["run", "run.", "run0", "ru", "rvn/1", "Run/1"]
    await store.records.put([put(key) for key in [*reversed(names), *others]])

    assert await keys(store, "run/", limit=10) == names
    assert await keys(store, limit=4) == sorted(names + others)


HARD = ["%", "_", "*", "?", "[", "]", "[a", "\\", "{", "é", "z", "日本", "😀", "\U0010ffff", "'", '"', " ", "a:b"]


@pytest.mark.parametrize("prefix", HARD)
async def test_a_prefix_means_itself_and_nothing_else(store, prefix):
    names = [f"{word}{rest}" for word in HARD for rest in ("", "1", "a", "\U0010ffff")] + ["aa", "ab", "x", "100"]
    await store.records.put([put(key) for key in names])

    wanted = sorted(key for key in set(names) if key.startswith(prefix))

    assert await keys(store, prefix, limit=3) == wanted


async def test_records_put_between_pages_do_not_disturb_the_rest(store):
    await store.records.put([put(f"k{number:02}") for number in range(20)])
    page = await store.records.find("kind", limit=10)
    await store.records.put([put("k00", None), put("k05", None), put("k055"), put("k995")])

    rest = await store.records.find("kind", limit=100, cursor=page.cursor)

    assert [record.key for record in rest.items] == [*(f"k{number}" for number in range(10, 20)), "k995"]
    assert rest.cursor is None


async def test_answer_records_whose_due_moment_has_come_soonest_first(store, clock):
    now = clock.now()
    await store.records.put([
        put("later", due=now + 3 * SECOND), put("sooner", due=now + SECOND), put("never"), put("past", due=1),
        put("far", due=now + HOUR), Put("other", "odd", b"1", due=1),
    ])  # fmt: skip
    assert [record.key for record in await store.records.due("kind", 10)] == ["past"]
    clock.turn(3 * SECOND)

    due = await store.records.due("kind", 10)

    assert [record.key for record in due] == ["past", "sooner", "later"]
    assert [record.key for record in await store.records.due("kind", 2)] == ["past", "sooner"]
    assert due == await store.records.get("kind", ["past", "sooner", "later"])


async def test_a_record_written_anew_is_due_at_its_new_moment(store, clock):
    now = clock.now()
    await store.records.put([put("a", due=1), put("b", due=1), put("c", due=1), put("d", due=1)])
    await store.records.put([put("a", due=now + HOUR), put("b"), put("c", None)])

    assert [record.key for record in await store.records.due("kind", 10)] == ["d"]
    clock.turn(HOUR)
    assert [record.key for record in await store.records.due("kind", 10)] == ["d", "a"]


async def test_an_expired_record_is_not_due(store, clock):
    await store.records.put([put(due=clock.now() + SECOND, expires=clock.now() + MINUTE)])
    clock.turn(HOUR)

    assert await store.records.due("kind", 10) == []


async def test_remove_records_and_say_how_many_were_there(store):
    await store.records.put([put("a"), put("b"), put("c")])

    assert await store.records.drop("kind", ["a", "never", "c", "a"]) == 2

    assert await keys(store) == ["b"]
    assert await store.records.drop("kind", ["a", "c"]) == 0


async def test_no_records_are_no_trouble(store):
    assert await store.records.put([]) == []
    assert await store.records.get("kind", []) == []
    assert await store.records.drop("kind", []) == 0
    assert await keys(store) == []


async def test_two_who_put_over_nothing_at_once_do_not_both_succeed(store, second):
    answers = await asyncio.gather(*(place.records.put([put(expect=0)]) for place in (store, second) * 5))

    assert sum(version is not None for [version] in answers) == 1
