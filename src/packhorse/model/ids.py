"""Ids: 16 bytes inside, the text of a UUID outside."""

import hashlib
import os
import uuid
from collections.abc import Callable

from packhorse.errors import InvalidId
from packhorse.model import limits
from packhorse.model.clock import wall_ns

JobId = bytes
Token = bytes

_VARIANT = 0x80
_MARKED = tuple(bytes((_VARIANT | byte & 0x3F,)) for byte in range(256))


def new_id(now_ns: Callable[[], int] = wall_ns) -> JobId:
    """A fresh UUIDv7; within a millisecond ordered by its microseconds."""
    noise = os.urandom(8)
    return _head(now_ns()) + _MARKED[noise[0]] + noise[1:]


def new_ids(count: int) -> list[JobId]:
    """So many fresh ids of one moment, in order: an index takes those best that come in its own order."""
    head, noise = _head(wall_ns()), os.urandom(8 * count)
    return sorted([head + _MARKED[noise[at]] + noise[at + 1 : at + 8] for at in range(0, 8 * count, 8)])


def _head(now_ns: int) -> bytes:
    millis, micros = divmod(now_ns // 1000, 1000)
    return (millis << 16 | 0x7000 | micros * 4096 // 1000).to_bytes(8, "big")


def new_token() -> Token:
    """128 random bits: the proof of a lease, and the request id of an ask."""
    return os.urandom(16)


def chosen_id(namespace: str, *words: str) -> JobId:
    """A UUIDv8 that is always the same for the same words; every part counts, so ("a", "bc") is not ("ab", "c")."""
    digest = hashlib.sha256()
    for word in (namespace, *words):
        limits.key("chosen id", word)
        data = word.encode()
        digest.update(len(data).to_bytes(4, "big") + data)
    raw = bytearray(digest.digest()[:16])
    raw[6] = 0x80 | raw[6] & 0x0F
    raw[8] = _VARIANT | raw[8] & 0x3F
    return bytes(raw)


def child_ids(parent: JobId, count: int) -> list[JobId]:
    """The ids of the first children of a job, in order. They come from its own id, so that no job has to store them."""
    digest = hashlib.sha256(parent).digest()
    marks = bytes((parent[6] & 0xF0 | digest[0] & 0x0F, digest[1], _VARIANT | digest[2] & 0x3F))
    head = parent[:6] + marks + digest[3:8]
    return [head + number.to_bytes(2, "big") for number in range(count)]


def chosen(job: JobId) -> bool:
    """Whether an id was made from words, and is therefore remembered beyond retention."""
    return job[6] >> 4 == 8


def id_text(job: JobId) -> str:
    """The id as people and other languages write it."""
    text = job.hex()  # four times as fast as by a UUID
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def parse_id(text: str) -> JobId:
    """The id that a text means."""
    try:
        return uuid.UUID(text).bytes
    except (ValueError, AttributeError, TypeError) as error:
        raise InvalidId(text) from error


def named_id(namespace: str, text: str) -> JobId:
    """The id that a text names: the text of a UUID is a job id, any other text is a chosen id."""
    try:
        return parse_id(text)
    except InvalidId:
        if not isinstance(text, str):
            raise
        return chosen_id(namespace, text)


def check_id(value: object) -> None:
    """Refuse what is not 16 bytes."""
    if not isinstance(value, bytes) or len(value) != 16:
        raise InvalidId(value)
