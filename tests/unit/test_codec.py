"""Values to stored bytes and back, plain and sealed."""

import dataclasses
import datetime
import enum
import hashlib
import hmac
import math
import zlib
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packhorse.errors import BadSignature, InvalidArguments, UndecodablePayload
from packhorse.model.codec import Codec, JobIdentity, decode, encode

ABOUT = JobIdentity(id=bytes(range(16)), task="work")
NAN, INF = float("nan"), float("inf")


class Zip:
    """Compresses."""

    mark, required = "z", False

    def close(self, data: bytes, about: JobIdentity) -> bytes:
        return zlib.compress(data)

    def open(self, data: bytes, about: JobIdentity) -> bytes:
        try:
            return zlib.decompress(data)
        except zlib.error as error:
            raise UndecodablePayload("This cannot be decompressed") from error


class Sign:
    """Signs with a key, over what the payload is about as well."""

    mark, required = "s", True

    def __init__(self, key: bytes = b"key") -> None:
        self.key = key

    def close(self, data: bytes, about: JobIdentity) -> bytes:
        return self.sum(data, about) + data

    def open(self, data: bytes, about: JobIdentity) -> bytes:
        signature, inner = data[:32], data[32:]
        if not hmac.compare_digest(signature, self.sum(inner, about)):
            raise BadSignature(f"The payload of {about.task} was changed")
        return inner

    def sum(self, data: bytes, about: JobIdentity) -> bytes:
        bound = about.id + about.task.encode() + about.version.to_bytes(2, "big")
        return hmac.digest(self.key, bound + data, hashlib.sha256)


@dataclasses.dataclass
class Plain:
    size: Any


class Packed(msgspec.Struct):
    size: Any


class Renamed(msgspec.Struct, rename="camel"):
    its_size: float


class Listed(msgspec.Struct, array_like=True):
    size: float


class Pair(NamedTuple):
    left: float
    right: float


class Level(enum.Enum):
    UNKNOWN = NAN


@pytest.mark.parametrize(
    "wrap",
    [
        lambda x: x,
        lambda x: [1, x],
        lambda x: {"a": {"b": [None, x]}},
        lambda x: (x,),
        lambda x: {x},
        lambda x: frozenset([x]),
        Plain,
        Packed,
        Renamed,
        Listed,
        lambda x: Pair(1.0, x),
        lambda x: {"deep": [Plain([Packed({"k": x})])]},
    ],
    ids=["bare", "list", "dict", "tuple", "set", "frozenset", "dataclass", "struct", "renamed", "listed", "pair", "deep"],
)  # fmt: skip
@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_what_json_has_no_number_for_is_refused_wherever_it_is(wrap, value):
    with pytest.raises(InvalidArguments, match=r"nan|inf"):
        encode(wrap(value))


def test_it_is_refused_as_the_value_of_a_member_too():
    with pytest.raises(InvalidArguments):
        encode([Level.UNKNOWN])


def test_the_refusal_says_where_it_is():
    with pytest.raises(InvalidArguments, match=r"\$\.prices\[1\]\.size"):
        encode({"prices": [Plain(1.0), Plain(NAN)], "none": None})


def test_none_and_the_word_null_are_no_reason_to_refuse():
    assert encode([None, "null", {"null": 1.5}]) == b'[null,"null",{"null":1.5}]'


@pytest.mark.parametrize("value", ["\ud800", {"\udfff": 1}, ["a\ud83d"], Packed("\ud800")], ids=ascii)
def test_lone_surrogates_are_refused(value):
    with pytest.raises(InvalidArguments, match="surrogate"):
        encode(value)


def test_what_contains_itself_is_refused():
    loop: list[Any] = []
    loop.append(loop)
    ring: dict[str, Any] = {"a": [{}]}
    ring["a"][0]["b"] = ring
    plain = Plain(1.0)
    plain.size = plain
    for value in (loop, ring, plain):
        with pytest.raises(InvalidArguments):
            encode(value)


@pytest.mark.parametrize(
    "value",
    [object(), lambda: None, 1j, type, {(1, 2): 3}, {"a": object()}],
    ids=["object", "function", "complex", "type", "tuple key", "nested"],
)
def test_what_json_cannot_hold_is_refused(value):
    with pytest.raises(InvalidArguments):
        encode(value)


numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(st.characters(codec="utf-8"))
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


@given(values)
def test_values_come_back_exactly(value):
    data = encode(value)
    back = decode(data)
    assert back == value
    assert encode(back) == data
    data.decode()


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_keep_every_bit(value):
    assert math.copysign(1, decode(encode(value))) == math.copysign(1, value)
    assert decode(encode(value)) == value


def test_typed_values_come_back_as_their_type():
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5, 6, datetime.UTC)
    assert decode(encode(Packed(1.5)), Packed) == Packed(1.5)
    assert decode(encode(Plain(2.5)), Plain) == Plain(2.5)
    assert decode(encode(moment), datetime.datetime) == moment
    assert decode(encode(b"\0\xff"), bytes) == b"\0\xff"


@pytest.mark.parametrize("data", [b"", b"{", b"nul", b"\xff", b'"\xff"', b"[1,]", b'{"a":1}x', b"NaN"])
def test_text_that_is_no_json_is_undecodable(data):
    with pytest.raises(UndecodablePayload):
        decode(data)


def test_text_of_another_shape_is_undecodable():
    with pytest.raises(UndecodablePayload):
        decode(b'{"itsSize":"large"}', Renamed)


def test_text_nested_too_deeply_is_undecodable():
    with pytest.raises(UndecodablePayload):
        decode(b"[" * 100_000)


def test_without_seals_bytes_pass_unchanged():
    assert Codec().close(b'{"a":1}', ABOUT) == Codec().open(b'{"a":1}', ABOUT) == b'{"a":1}'


@pytest.mark.parametrize("seals", [(Zip(),), (Sign(),), (Zip(), Sign()), (Sign(), Zip())], ids=["z", "s", "zs", "sz"])
@given(value=values)
def test_what_was_sealed_opens_again(seals, value):
    codec, data = Codec(*seals), encode(value)
    assert codec.open(codec.close(data, ABOUT), ABOUT) == data


def test_an_envelope_is_text_that_no_json_begins_like():
    sealed = Codec(Zip(), Sign()).close(b"{}", ABOUT)
    assert sealed.startswith(b"~1zs:")
    assert sealed.isascii()
    with pytest.raises(UndecodablePayload):
        decode(sealed)


def test_plain_text_stays_readable_after_an_optional_seal_was_added():
    assert Codec(Zip()).open(b'{"old":1}', ABOUT) == b'{"old":1}'


def test_the_order_of_the_seals_is_that_of_the_envelope_not_of_the_reader():
    sealed = Codec(Zip(), Sign()).close(b"{}", ABOUT)
    assert Codec(Sign(), Zip()).open(sealed, ABOUT) == b"{}"


def test_a_wrong_key_is_a_bad_signature():
    with pytest.raises(BadSignature):
        Codec(Sign(b"mine")).open(Codec(Sign(b"yours")).close(b"{}", ABOUT), ABOUT)


@pytest.mark.parametrize(
    "about",
    [JobIdentity(bytes(16), "work"), JobIdentity(ABOUT.id, "other"), JobIdentity(ABOUT.id, "work", version=2)],
    ids=["id", "task", "version"],
)
def test_a_payload_moved_to_something_else_is_a_bad_signature(about):
    with pytest.raises(BadSignature):
        Codec(Sign()).open(Codec(Sign()).close(b"{}", ABOUT), about)


@pytest.mark.parametrize("data", [b"{}", Codec(Zip()).close(b"{}", ABOUT)], ids=["plain", "sealed otherwise"])
def test_without_a_required_seal_nothing_opens(data):
    with pytest.raises(BadSignature, match="lacks"):
        Codec(Zip(), Sign()).open(data, ABOUT)


def test_an_unknown_seal_is_undecodable():
    with pytest.raises(UndecodablePayload, match="'z'"):
        Codec().open(Codec(Zip()).close(b"{}", ABOUT), ABOUT)


@pytest.mark.parametrize("data", [b"~2z:e30=", b"~:e30=", b"~", b"~1z", b"~\xff:e30="])
def test_an_envelope_of_an_unknown_version_is_undecodable(data):
    with pytest.raises(UndecodablePayload):
        Codec(Zip()).open(data, ABOUT)


@pytest.mark.parametrize("body", [b"e30", b"e3 0=", b"e30=!", b"\xff\xfe", b"e30=\n", b"=", b"e30=e30="])
def test_damaged_base64_is_undecodable(body):
    with pytest.raises(UndecodablePayload):
        Codec(Zip()).open(b"~1z:" + body, ABOUT)


def test_marks_that_are_no_text_are_undecodable():
    with pytest.raises(UndecodablePayload):
        Codec(Zip()).open(b"~1\xff:e30=", ABOUT)


def test_bits_of_the_envelope_that_mean_nothing_are_not_to_be_changed_either():
    sealed = Codec(Sign()).close(b'{"amount":100}', ABOUT)
    assert sealed.endswith(b"=")
    changed = sealed[:-2] + bytes((sealed[-2] ^ 2,)) + sealed[-1:]
    with pytest.raises(UndecodablePayload):
        Codec(Sign()).open(changed, ABOUT)


@given(st.data())
def test_one_changed_byte_is_noticed(data):
    sealed = bytearray(Codec(Sign()).close(b'{"amount":100}', ABOUT))
    at = data.draw(st.integers(0, len(sealed) - 1))
    sealed[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises((BadSignature, UndecodablePayload)):
        Codec(Sign()).open(bytes(sealed), ABOUT)
