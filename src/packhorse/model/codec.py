"""Values to stored bytes and back: exact UTF-8 JSON text, sealed in an envelope where seals are set.

Plain JSON text stands as it is. Anything else is an envelope: ``~``, a version byte, one letter per seal in the
order they were closed, a colon, and base64 text. No JSON text begins with ``~``, so the first byte tells.
"""

import base64
import binascii
import math
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, Protocol, TypeVar, overload

import msgspec

from packhorse.errors import BadSignature, InvalidArguments, UndecodablePayload
from packhorse.model.ids import JobId

T = TypeVar("T")

_ENVELOPE = b"~"
_VERSION = b"1"


class JobIdentity(msgspec.Struct, frozen=True):
    """What a seal may bind the data to: never the queue or the priority, which may change."""

    id: JobId
    task: str
    version: int = 1


class Seal(Protocol):
    """One step of sealing: compress, encrypt or sign."""

    mark: str
    required: bool

    def close(self, data: bytes, about: JobIdentity) -> bytes:
        """The sealed form."""

    def open(self, data: bytes, about: JobIdentity) -> bytes:
        """What was sealed; BadSignature or UndecodablePayload if it cannot be opened."""


def encode(value: object, *, hook: Callable[[Any], Any] | None = None) -> bytes:
    """The value as JSON text; refuses what JSON cannot hold exactly. The hook makes plain data of foreign types."""
    try:
        data = msgspec.json.encode(value, enc_hook=hook)
    except RecursionError:
        raise InvalidArguments("it contains itself, or is nested too deeply") from None
    except UnicodeEncodeError:
        raise InvalidArguments("a text holds a lone surrogate; decode it properly first") from None
    except (TypeError, ValueError, OverflowError, NotImplementedError) as error:
        raise InvalidArguments(f"{error}; pass plain data, dataclasses or msgspec structs") from error
    if b"null" in data:  # NaN and infinities are written as null: look only where there is one
        _refuse_nonfinite(value, "$")
    return data


def _refuse_nonfinite(value: object, path: str) -> None:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidArguments(f"{path} is {value}, which JSON cannot represent; pass None or text")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            _refuse_nonfinite(item, f"{path}.{key}")
    elif isinstance(value, (list, tuple, set, frozenset)):
        for index, item in enumerate(value):
            _refuse_nonfinite(item, f"{path}[{index}]")
    elif isinstance(value, Enum):
        _refuse_nonfinite(value.value, path)
    elif not isinstance(value, (str, bytes, int, type(None))):
        _refuse_nonfinite_fields(value, path)


def _refuse_nonfinite_fields(value: object, path: str) -> None:
    names: Sequence[str] = getattr(value, "__struct_fields__", ()) or tuple(getattr(value, "__dataclass_fields__", ()))
    for name in names:
        _refuse_nonfinite(getattr(value, name, None), f"{path}.{name}")


@overload
def decode(data: bytes) -> Any: ...
@overload
def decode(data: bytes, kind: type[T]) -> T: ...
def decode(data: bytes, kind: Any = Any) -> Any:
    """The value that JSON text means."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UndecodablePayload(f"Stored text is not what was expected: {error}") from error


class Codec:
    """Closes stored bytes with its seals and opens them again; without seals bytes pass unchanged."""

    def __init__(self, *seals: Seal) -> None:
        self._seals = seals
        self._by_mark = {seal.mark: seal for seal in seals}

    def passes(self, data: bytes) -> bool:
        """Whether the data is the same, closed and open: then nobody needs to say what it is about."""
        return not self._seals and not data.startswith(_ENVELOPE)

    def close(self, data: bytes, about: JobIdentity) -> bytes:
        """The envelope around JSON text."""
        if not self._seals:
            return data
        for seal in self._seals:
            data = seal.close(data, about)
        marks = "".join(seal.mark for seal in self._seals)
        return _ENVELOPE + _VERSION + marks.encode() + b":" + base64.b64encode(data)

    def open(self, data: bytes, about: JobIdentity) -> bytes:
        """The JSON text inside; what a required seal should have closed is refused without it."""
        if self.passes(data):
            return data
        marks, inner = self._split(data)
        for seal in self._seals:
            if seal.required and seal.mark not in marks:
                raise BadSignature(f"The payload of {about.task} lacks the required seal {seal.mark!r}")
        for mark in reversed(marks):
            opener = self._by_mark.get(mark)
            if opener is None:
                raise UndecodablePayload(
                    f"The payload of {about.task} has the seal {mark!r}, which this codec does not know"
                )
            inner = opener.open(inner, about)
        return inner

    @staticmethod
    def _split(data: bytes) -> tuple[str, bytes]:
        if not data.startswith(_ENVELOPE):
            return "", data
        head, colon, body = data.partition(b":")
        if not colon or head[1:2] != _VERSION:
            raise UndecodablePayload(
                f"This release does not know envelopes of version {head[1:2]!r}: upgrade Packhorse"
            )
        try:
            marks, inner = head[2:].decode("ascii"), base64.b64decode(body, validate=True)
        except (UnicodeDecodeError, binascii.Error) as error:
            raise UndecodablePayload("The envelope is damaged") from error
        if base64.b64encode(inner) != body:  # the last letter has bits that mean nothing: they must not change either
            raise UndecodablePayload("The envelope is damaged")
        return marks, inner
