"""Bad input is refused with the same error everywhere, and nothing of it is stored."""

from collections import UserString

import pytest

from packhorse.errors import (
    InvalidArguments,
    InvalidId,
    InvalidInput,
    InvalidName,
    InvalidOption,
    InvalidTime,
    PayloadTooLarge,
    TooManyEffects,
    TooManyItems,
)
from packhorse.model import limits
from packhorse.model.codec import encode
from packhorse.model.effect import Enqueue, Publish, Put
from packhorse.model.ids import new_token
from packhorse.model.job import Retention, State, UniqueKey, Until
from packhorse.model.lease import ClaimRequest, Settlement, Share
from packhorse.model.outcome import Again, Dead, Done, Held, On, Wait
from packhorse.model.page import Filter
from packhorse.model.reason import DeadReason, WaitReason
from packhorse.model.worker import WorkerInfo
from tests.conformance.invariants import plain
from tests.factories import BROKEN, MINUTE, WORKER, end, found, new, new_id, put_in, run, state, take

CYCLE: list = []
CYCLE.append(CYCLE)
BAD_NAMES = ["", "a\nb", "a\0b", "\x1f", "\x7f", "\ud800", "x" * 256, "é" * 128, None, b"bytes", 7, UserString("a")]
BAD_KEYS = ["", "a\nb", "a\0b", "\x1f", "\x7f", "\udfff", "x" * 513, b"bytes", 7]
BAD_IDS = [b"", b"x" * 15, b"x" * 17, "x" * 16, bytearray(16), 7, None]
BAD_MOMENTS = [-1, limits.MAX_TIME_US + 1, 2**63, 2**64, 1.5, float("nan"), "soon", True]
BAD_SPANS = [-1, limits.MAX_DURATION_US + 1, 2**63, 1.5, float("inf"), "1s", True]


async def nothing_there(store) -> None:
    """Nothing was stored, not even a count."""
    assert await found(store) == []
    assert plain(await store.jobs.count()) == {}


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"payload": b"x" * (limits.PAYLOAD + 1)}, PayloadTooLarge),
        ({"headers": b"x" * (limits.HEADERS + 1)}, PayloadTooLarge),
        ({"payload": b'"\0"'}, InvalidArguments),
        ({"payload": b"\xff\xfe"}, InvalidArguments),
        ({"payload": b'"\xed\xa0\x80"'}, InvalidArguments),
        ({"payload": "text"}, InvalidArguments),
        ({"payload": None}, InvalidArguments),
        ({"headers": b"\xff"}, InvalidArguments),
        ({"priority": -1}, InvalidOption),
        ({"priority": limits.PRIORITY + 1}, InvalidOption),
        ({"priority": 1.5}, InvalidOption),
        ({"priority": True}, InvalidOption),
        ({"lane": "a", "lane_limit": 0}, InvalidOption),
        ({"lane": "a", "lane_limit": limits.LANE_LIMIT + 1}, InvalidOption),
        ({"children": -1}, InvalidOption),
        ({"children": limits.CHILDREN + 1}, InvalidOption),
        ({"parent": b"short"}, InvalidId),
    ],
)
async def test_a_job_with_a_bad_option_is_refused(store, options, error):
    with pytest.raises(error):
        await store.jobs.enqueue([new(), new(**options)])

    await nothing_there(store)


@pytest.mark.parametrize("name", BAD_NAMES)
@pytest.mark.parametrize("field", ["task", "queue"])
async def test_a_job_with_a_bad_name_is_refused(store, field, name):
    with pytest.raises(InvalidName):
        await store.jobs.enqueue([new(), new(**{field: name})])

    await nothing_there(store)


@pytest.mark.parametrize("key", BAD_KEYS)
@pytest.mark.parametrize("field", ["lane", "tenant", "unique"])
async def test_a_job_with_a_bad_key_is_refused(store, field, key):
    with pytest.raises(InvalidName):
        await store.jobs.enqueue([new(), new(**{field: UniqueKey(key) if field == "unique" else key})])

    await nothing_there(store)


@pytest.mark.parametrize("job", BAD_IDS)
async def test_a_bad_id_is_refused_by_every_verb(store, job):
    with pytest.raises(InvalidId):
        await store.jobs.enqueue([new(id=job)])
    for verb in (store.jobs.get, store.jobs.cancel, store.jobs.replay, store.jobs.promote, store.jobs.drop):
        with pytest.raises(InvalidId):
            await verb([new_id(), job])
    with pytest.raises(InvalidId):
        await store.jobs.watch([new_id(), job], MINUTE)
    await nothing_there(store)


@pytest.mark.parametrize("verb", ["cancel", "drop", "replay", "promote"])
async def test_a_bad_id_spares_the_good_ones_beside_it(store, verb):
    [job] = await put_in(store, new())

    with pytest.raises(InvalidId):
        await getattr(store.jobs, verb)([job, b"short"])

    assert await state(store, job) is State.READY


@pytest.mark.parametrize("at", BAD_MOMENTS)
async def test_an_absurd_moment_is_refused(store, at):
    with pytest.raises(InvalidTime):
        await store.jobs.enqueue([new(at=at)])
    for field in ("due", "expires"):
        with pytest.raises(InvalidTime):
            await store.records.put([Put("kind", "key", b"1", **{field: at})])

    await nothing_there(store)


@pytest.mark.parametrize("span", BAD_SPANS)
async def test_an_absurd_duration_is_refused(store, span):
    await put_in(store, new())
    [lease] = await take(store)

    with pytest.raises(InvalidTime):
        await store.jobs.enqueue([new(delay=span)])
    with pytest.raises(InvalidTime):
        await end(store, lease, Again(delay=span))
    with pytest.raises(InvalidTime):
        await store.jobs.exchange([], ClaimRequest(WORKER, (Share("default", 1),), lease=span))
    with pytest.raises(InvalidTime):
        await end(store, lease, Done(keep=Retention(1, span)))
    for call in (store.jobs.renew([lease], span), store.jobs.watch([lease.id], span)):
        with pytest.raises(InvalidTime):
            await call
    with pytest.raises(InvalidTime):
        await store.fleet.beat(WorkerInfo(id=WORKER, name="ox"), span)

    assert [job.state for job in await found(store)] == [State.RUNNING]
    assert await store.fleet.workers() == []


@pytest.mark.parametrize(
    "outcome",
    [
        lambda: Done(b"x" * (limits.RESULT + 1)),
        lambda: Done(b"\xff"),
        lambda: Held(0),
        lambda: Held(2**31),
        lambda: Wait(WaitReason.LANE),
        lambda: Wait(WaitReason.SIGNAL),
        lambda: Wait(WaitReason.CHILDREN),
        lambda: Wait(WaitReason.LIMIT, children=1),
        lambda: Wait(WaitReason.LIMIT, On("signal", "go")),
        lambda: Wait(WaitReason.LIMIT, detail="x" * (limits.DETAIL + 1)),
        lambda: Wait(WaitReason.SIGNAL, On("", "go")),
        lambda: Wait(WaitReason.SIGNAL, On("signal", "\0")),
        lambda: Dead(DeadReason.FINAL, BROKEN, Retention(-1, 0)),
    ],
)
async def test_a_bad_outcome_is_refused_and_the_lease_stays(store, outcome):
    [job] = await put_in(store, new())
    [lease] = await take(store)

    with pytest.raises(InvalidInput):
        await end(store, lease, outcome())

    assert await state(store, job) is State.RUNNING


@pytest.mark.parametrize(
    "effect",
    [
        lambda: Put("kind", "key", b"x" * (limits.VALUE + 1)),
        lambda: Put("kind", "key", b"\0"),
        lambda: Put("kind", "key", b"\xff"),
        lambda: Put("", "key", b"1"),
        lambda: Put("kind", "", b"1"),
        lambda: Put("kind", "x" * 513, b"1"),
        lambda: Put("kind", "key", b"1", expect=-1),
        lambda: Publish("news", b"x" * (limits.VALUE + 1)),
        lambda: Publish("news", b"\0"),
        lambda: Publish("", b"1"),
        lambda: Publish("news", b"1", ""),
        lambda: Enqueue(new(queue="")),
    ],
)
async def test_a_bad_effect_is_refused_and_nothing_of_it_is_written(store, effect):
    [job] = await put_in(store, new())
    [lease] = await take(store)

    with pytest.raises(InvalidInput):
        await end(store, lease, Done(), Publish("news", b"1"), effect())

    assert await state(store, job) is State.RUNNING
    assert await store.streams.read("news") == []
    assert (await store.records.find("kind")).items == ()


async def test_more_effects_than_a_settlement_may_have_are_refused(store):
    [job] = await put_in(store, new())
    [lease] = await take(store)

    with pytest.raises(TooManyEffects):
        await end(store, lease, Done(), *[Publish("news", b"1")] * (limits.EFFECTS + 1))

    assert await state(store, job) is State.RUNNING


async def test_more_items_than_one_call_may_carry_are_refused_by_every_verb(store):
    [job] = await put_in(store, new())
    [lease] = await take(store)
    many = limits.ITEMS + 1
    jobs, records = store.jobs, store.records

    for call in (
        jobs.exchange([Settlement(lease, Held(step)) for step in range(1, many + 1)]),
        jobs.renew([lease] * many, MINUTE),
        jobs.note([(lease, b"1")] * many),
        *(verb([job] * many) for verb in (jobs.cancel, jobs.replay, jobs.promote, jobs.drop, jobs.get)),
        jobs.watch([job] * many, MINUTE),
        store.queues.pause(["default"] * many),
        store.queues.resume(["default"] * many),
        records.put([Put("kind", "key", b"1")] * many),
        records.get("kind", ["key"] * many),
        records.drop("kind", ["key"] * many),
        store.streams.publish([Publish("news", b"1")] * many),
    ):
        with pytest.raises(TooManyItems):
            await call

    assert await state(store, job) is State.RUNNING
    assert await store.streams.read("news") == []


@pytest.mark.parametrize("limit", [0, -1, 1001, 2**63, 1.5, None, "10", True])
async def test_an_absurd_limit_is_refused_by_every_verb(store, limit):
    for call in (
        store.jobs.reap(limit),
        store.jobs.release(WaitReason.LIMIT, limit=limit),
        store.jobs.prune(limit),
        store.jobs.find(Filter(), limit=limit),
        store.records.find("kind", limit=limit),
        store.records.due("kind", limit),
        store.streams.read("news", limit=limit),
    ):
        with pytest.raises(InvalidOption):
            await call


@pytest.mark.parametrize("name", BAD_NAMES)
async def test_a_bad_name_is_refused_by_every_verb(store, name):
    for call in (
        store.queues.pause(["good", name]),
        store.queues.resume(["good", name]),
        store.jobs.release(WaitReason.LIMIT, tasks=["good", name]),
        store.records.get(name, ["key"]),
        store.records.find(name),
        store.records.due(name, 10),
        store.records.drop(name, ["key"]),
        store.streams.read(name),
    ):
        with pytest.raises(InvalidName):
            await call
    with pytest.raises(InvalidName):
        await store.fleet.beat(WorkerInfo(id=WORKER, name=name), MINUTE)

    assert await store.queues.stats() == []


@pytest.mark.parametrize("key", BAD_KEYS)
async def test_a_bad_key_is_refused_by_every_verb(store, key):
    for verb in (store.records.get, store.records.drop):
        with pytest.raises(InvalidName):
            await verb("kind", ["good", key])
    if key != "":
        with pytest.raises(InvalidName):
            await store.records.find("kind", prefix=key)


@pytest.mark.parametrize(
    "ask",
    [
        lambda: ClaimRequest(b"short", (Share("default", 1),)),
        lambda: ClaimRequest(WORKER, (Share("default", 1),), token=b"short"),
        lambda: ClaimRequest(WORKER, (Share("", 1),)),
        lambda: ClaimRequest(WORKER, (Share("default", -1),)),
        lambda: ClaimRequest(WORKER, (Share("default", limits.ITEMS + 1),)),
        lambda: ClaimRequest(WORKER, (Share("default", 2, 1),)),
        lambda: ClaimRequest(WORKER, (Share("a", limits.ITEMS), Share("b", 1))),
        lambda: ClaimRequest(WORKER, (Share("a", 1), Share("a", 1))),
        lambda: ClaimRequest(WORKER, (Share("a", 1),), lease=999),
    ],
)
async def test_a_bad_ask_is_refused_and_nothing_is_leased(store, ask):
    [job] = await put_in(store, new())

    with pytest.raises(InvalidInput):
        await store.jobs.exchange([], ask())

    assert await state(store, job) is State.READY


@pytest.mark.parametrize(
    "unique",
    [
        lambda: UniqueKey("k", Until.WINDOW),
        lambda: UniqueKey("k", Until.FINISHED, 5),
        lambda: UniqueKey("k", Until.WINDOW, -5),
    ],
)
async def test_a_bad_scope_is_refused(store, unique):
    with pytest.raises(InvalidInput):
        await store.jobs.enqueue([new(unique=unique())])

    await nothing_there(store)


@pytest.mark.parametrize(
    "value",
    [float("nan"), [1, float("inf")], {"a": float("-inf")}, "\ud800", {"\udfff": 1}, CYCLE, {1, object()}, object()],
)
async def test_a_value_that_json_cannot_hold_is_refused(store, value):
    with pytest.raises(InvalidArguments):
        await store.jobs.enqueue([new(payload=encode(value))])

    await nothing_there(store)


@pytest.mark.parametrize("cursor", ["", "nonsense", "é", "'; --", "\0", "AAAA" * 100, "[1,2,3]", "ready"])
async def test_a_cursor_that_was_never_given_is_refused_or_harmless(store, cursor):
    jobs = await put_in(store, new(), new())
    await store.records.put([Put("kind", "key", b"1")])

    for call in (store.jobs.find(Filter(), cursor=cursor), store.records.find("kind", cursor=cursor)):
        try:
            await call
        except InvalidInput:
            pass

    assert sorted(job.id for job in await found(store)) == sorted(jobs)


async def test_a_refused_call_does_not_harm_the_next(store):
    for _ in range(3):
        with pytest.raises(InvalidInput):
            await store.jobs.enqueue([new(), new(queue="\0")])
        with pytest.raises(TooManyItems):
            await store.jobs.get([new_token()] * 501)
    [job] = await put_in(store, new())

    await run(store, Done())

    assert await state(store, job) is State.DONE
