"""The lifecycle of jobs, packed into one event per call."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packhorse.errors import UndecodablePayload
from packhorse.model.event import Change, pack, unpack

ids = st.lists(st.binary(min_size=16, max_size=16), max_size=5)
changes = st.dictionaries(st.sampled_from(Change), ids)


@given(changes)
def test_packed_changes_come_back_in_the_order_of_a_call(happened):
    packed = pack(happened)
    assert (unpack(packed) if packed else []) == [
        (change, job) for change in Change for job in happened.get(change, ())
    ]


@given(changes)
def test_a_packed_event_takes_a_byte_and_three_a_change_and_sixteen_a_job(happened):
    some = [jobs for jobs in happened.values() if jobs]
    assert len(pack(happened)) == bool(some) + 3 * len(some) + 16 * sum(map(len, some))


def test_nothing_packs_to_nothing():
    assert pack({}) == pack({Change.DONE: []}) == b""
    with pytest.raises(UndecodablePayload, match="empty"):
        unpack(b"")  # no store writes one


def test_as_many_jobs_as_a_call_may_change_fit():
    jobs = [number.to_bytes(16, "big") for number in range(2500)]
    assert unpack(pack({Change.ENQUEUED: iter(jobs)})) == [(Change.ENQUEUED, job) for job in jobs]


@given(changes, st.data())
def test_an_event_cut_anywhere_inside_a_change_is_refused(happened, data):
    packed = pack(happened)
    whole = {0, 1}
    for change in Change:
        if jobs := happened.get(change):
            whole.add(max(whole) + 3 + 16 * len(jobs))
    cuts = [cut for cut in range(len(packed)) if cut not in whole]
    if cuts:
        with pytest.raises(UndecodablePayload):
            unpack(packed[: data.draw(st.sampled_from(cuts))])


@pytest.mark.parametrize(
    "data", [b"x", b"\xff\0\0", b"q", b"q\0", b"q\0\1", b"d\0\2" + bytes(16), b"d\0\1" + bytes(17)]
)
def test_damaged_events_are_refused(data):
    with pytest.raises(UndecodablePayload):
        unpack(b"\1" + data)


@pytest.mark.parametrize("version", [0, 2, ord("d"), 255])
def test_events_of_another_version_are_refused(version):
    packed = pack({Change.DONE: [bytes(16)]})
    assert packed[0] == 1
    with pytest.raises(UndecodablePayload, match="version"):
        unpack(bytes((version,)) + packed[1:])


@given(st.binary(max_size=60))
def test_any_bytes_are_either_understood_or_refused(data):
    try:
        found = unpack(b"\1" + data)
    except UndecodablePayload:
        return
    assert all(len(job) == 16 for _, job in found)
