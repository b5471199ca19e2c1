"""Stored text comes back byte for byte."""

import pytest

from packhorse.model import limits
from packhorse.model.effect import Enqueue, Publish, Put
from packhorse.model.job import failure
from tests.factories import DEAD, Again, Dead, Done, Held, delivered, end, new, one, put_in, run, take

TEXTS = [
    b"",
    b"{}",
    b"null",
    b'{"a":1,"a":2}',
    b' { "b" :\t1 ,\r\n "a" : [ ] } ',
    b'"\\u0000"',
    b'"\\ud83d\\ude00 \\ud800"',
    b'"\\"\\\\\\/\\b\\f\\n\\r\\t"',
    b"[1.0, 1e400, -0.0, 0.1000, 12345678901234567890123, 1E+2]",
    '"é e\u0301 日本語 😀 \u200b\u2028 \ufeff"'.encode(),
    "\ufeff{}".encode(),
    b'"\x01\x02\x1c\x1d\x1e\x1f\x7f"',
    b"~1zs:AAAA",
    b"not json at all",
    b"'; DROP TABLE jobs; -- %s $1 {} {0} \\x00 \\000 ?1 :a",
    b"\\",
    b"\n",
    b" ",
    b"0",
    b"true",
]
LARGE = [
    b'"' + b"x" * (limits.PAYLOAD - 2) + b'"',
    ('"' + "é" * ((limits.PAYLOAD - 2) // 2) + '"').encode(),
    b"\\" * limits.PAYLOAD,
    b"\x1f" * limits.PAYLOAD,
]
every_text = pytest.mark.parametrize("text", TEXTS)
large = pytest.mark.parametrize("text", LARGE, ids=["plain", "accents", "backslashes", "separators"])


async def whole_way(store, text: bytes) -> None:
    """A text goes through every place that holds text."""
    parent = new("parent", payload=text, children=1)
    child = new("child", payload=text, parent=parent.id)
    await store.jobs.enqueue([parent, child])
    assert (await one(store, parent.id)).payload == text
    [lease] = await take(store)
    assert lease.payload == text
    follower = new("follower", payload=text)
    await store.jobs.note([(lease, text)])
    assert (await one(store, child.id)).progress == text
    effects = (Enqueue(follower), Publish("news", text), Put("kind", "key", text))
    await end(store, lease, Done(text), *effects)

    assert (await one(store, child.id)).result == text
    assert await delivered(store, parent.id, child.id) == b"done " + text
    assert [lease.payload for lease in await take(store)] == [text, text]
    assert [event.data for event in await store.streams.read("news")] == [text]
    assert [record.value for record in await store.records.get("kind", ["key"])] == [text]
    assert [record.value for record in (await store.records.find("kind")).items] == [text]


@every_text
async def test_every_text_comes_back_byte_for_byte(store, text):
    await whole_way(store, text)


@every_text
async def test_every_text_comes_back_from_the_headers(store, text):
    [job] = await put_in(store, new(headers=text))

    [lease] = await take(store)

    assert (lease.headers, (await one(store, job)).headers) == (text, text)


async def test_many_texts_of_one_call_keep_to_their_jobs(store):
    jobs = [new(payload=text, headers=other) for text in TEXTS for other in TEXTS]
    await store.jobs.enqueue(jobs)

    leases = await take(store, len(jobs))

    assert [(lease.payload, lease.headers) for lease in leases] == [(job.payload, job.headers) for job in jobs]


@large
async def test_a_text_as_large_as_the_cap_comes_back(store, text):
    [job] = await put_in(store, new(payload=text, headers=b"h" * limits.HEADERS))
    [lease] = await take(store)
    assert (lease.payload, lease.headers) == (text, b"h" * limits.HEADERS)

    await end(store, lease, Done(text), Publish("news", text), Put("kind", "key", text))

    done = await one(store, job)
    assert (done.payload, done.result) == (text, text)
    assert [event.data for event in await store.streams.read("news")] == [text]
    assert [record.value for record in await store.records.get("kind", ["key"])] == [text]


async def test_several_large_payloads_go_in_one_call(store):
    jobs = await put_in(store, *(new(payload=b"%d" % number * limits.PAYLOAD) for number in range(3)))

    leases = await take(store)

    assert [lease.id for lease in leases] == jobs
    assert all(lease.payload == b"%d" % number * limits.PAYLOAD for number, lease in enumerate(leases))


async def test_the_result_of_a_dead_job_is_none(store):
    [job] = await put_in(store, new())
    await run(store, DEAD)

    assert (await one(store, job)).result is None


async def test_long_failures_come_back_as_they_were_cut(store):
    long = failure("T" * 300, "m" * 20_000, "é" * 70_000)
    [job] = await put_in(store, new())
    for _ in range(10):
        await run(store, Again(error=long))

    await run(store, Dead(DEAD.reason, long))

    failures = (await one(store, job)).failures
    assert len(failures) == 10
    assert {(failed.type, failed.message, failed.traceback) for failed in failures} == {
        (long.type, long.message, long.traceback)
    }


async def test_a_held_effect_keeps_every_text(store):
    await put_in(store, new())
    [lease] = await take(store)

    await end(store, lease, Held(1), *(Put("kind", f"{number:02}", text) for number, text in enumerate(TEXTS)))

    assert [record.value for record in (await store.records.find("kind")).items] == TEXTS
