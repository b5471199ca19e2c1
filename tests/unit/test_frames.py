"""What a worker and its children say to each other."""

import msgspec
import pytest

from packhorse.engine.executors import frames
from packhorse.engine.judge import Cause
from packhorse.errors import PayloadTooLarge
from packhorse.model import limits
from packhorse.model.effect import Enqueue, Publish, Put
from packhorse.model.job import NewJob, Retention, UniqueKey, Until, failure
from packhorse.model.lease import Lease, Settlement
from packhorse.model.outcome import Again, Cancelled, Dead, Done, Held, On, Wait
from packhorse.model.reason import DeadReason, WaitReason

ANY = bytes(range(1, 256))
LEASE = Lease(
    id=bytes(range(16)), token=bytes(16), until=5, task="tâsk", queue="q", payload=b'{"a":"\xc3\xa9"}', headers=ANY,
    priority=3, attempt=2, lost=1, enqueued_at=7, lane="l", parent=bytes(16), ref=9,
)  # fmt: skip
FRAMES = (
    frames.Start(("/a", "/b c"), None),
    frames.Ready("lines\nof text"),
    frames.CallFrame(LEASE, 17),
    frames.Begun(),
    frames.Stop(Cause.CANCEL),
    frames.ProgressFrame(ANY),
    frames.Unknown(),
    frames.Quit(),
)
OUTCOMES = (
    Done(b'"\xc3\xa9\\u0000"', Retention(1, 2)),
    Done(),
    Again(5, failure("E", "m\ud800", "t\0"), charged=False),
    Wait(WaitReason.SIGNAL, On("kind", "key", 3)),
    Dead(DeadReason.POISON, failure("E"), Retention(3, 4)),
    Cancelled(),
    Cancelled(Retention(5, 6), failure("Cancel", "nobody wants it")),
    Held(7),
)
EFFECTS = (
    Enqueue(
        NewJob(task="t", payload=b"[]", tenant="x", lane="l", unique=UniqueKey("u", Until.WINDOW, 5), parent=bytes(16))
    ),
    Publish("s", b"{}", "k"),
    Put("kind", "key", None, expect=4, due=5, expires=6),
    Put("kind", "key", b"1"),
)


def sent(*given: frames.Frame) -> list[frames.Frame]:
    return list(frames.Unpacker().feed(b"".join(map(frames.pack, given))))


def test_every_frame_arrives_as_it_was_sent():
    assert tuple(sent(*FRAMES)) == FRAMES


def test_frames_are_put_together_from_pieces_of_any_size():
    data = b"".join(map(frames.pack, FRAMES))
    for size in (1, 3, 7, 1000):
        unpacker = frames.Unpacker()
        got = [frame for at in range(0, len(data), size) for frame in unpacker.feed(data[at : at + size])]
        assert tuple(got) == FRAMES


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: type(outcome).__name__)
def test_every_outcome_arrives_as_it_was_meant(outcome):
    meant = Settlement(LEASE, outcome, EFFECTS)
    [frame] = sent(frames.settled(meant, 12))
    assert frame.memory == 12
    assert frames.settlement(LEASE, frame) == meant


def test_no_settlement_arrives_as_none():
    [frame] = sent(frames.settled(None, 12))
    assert frames.settlement(LEASE, frame) is None


def test_a_frame_over_the_cap_is_not_sent():
    with pytest.raises(PayloadTooLarge):
        frames.pack(frames.ProgressFrame(b"x" * frames.MAX_FRAME_BYTES))
    assert frames.pack(frames.ProgressFrame(b"x" * limits.PAYLOAD))


@pytest.mark.parametrize(
    "data",
    [
        (frames.MAX_FRAME_BYTES + 1).to_bytes(4, "big"),
        b"\0\0\0\2[]",
        b"\0\0\0\1{",
        b"\0\0\0\3\xff\xff\xff",
        b'\0\0\0\x13{"type": "Nothing"}',
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_what_is_no_frame_is_refused(data):
    with pytest.raises(frames.BadFrame):
        list(frames.Unpacker().feed(data))


@pytest.mark.parametrize(("kind", "value"), [("Enqueue", b"{}"), ("Done", b"[]"), ("Held", b'{"step":0}')])
def test_what_is_no_outcome_is_refused(kind, value):
    tagged = frames.TaggedValue(kind, msgspec.Raw(value))
    with pytest.raises(frames.BadFrame):
        frames.settlement(LEASE, frames.Settled(tagged, (), 0))
