"""What a worker and its child processes say to each other: JSON with its length in four bytes before it.

Bytes inside (payloads, results, effects) travel as base64: exact whatever they hold, and faster than quoted text.
"""

from collections.abc import Iterator, Mapping
from typing import TypeVar, get_args

import msgspec

from packhorse.engine.judge import Cause
from packhorse.errors import PackhorseError, PayloadTooLarge
from packhorse.model.effect import Effect
from packhorse.model.lease import Lease, Settlement
from packhorse.model.outcome import Outcome

MAX_FRAME_BYTES = 32 << 20  # payload and result need 1.4 MiB each; the rest is for effects

T = TypeVar("T")

_OUTCOMES: dict[str, type[Outcome]] = {kind.__name__: kind for kind in get_args(Outcome)}
_EFFECTS: dict[str, type[Effect]] = {kind.__name__: kind for kind in get_args(Effect)}


class BadFrame(PackhorseError):
    """Bytes on the channel that no frame begins with or holds; end the child and start another."""


class Start(msgspec.Struct, frozen=True, tag=True):
    """To the child, first: where to find modules, and what others it starts may inherit as PYTHONPATH."""

    path: tuple[str, ...]
    inherited: str | None


class Ready(msgspec.Struct, frozen=True, tag=True):
    """From the child: it can take calls, or says why it never will."""

    error: str = ""


class CallFrame(msgspec.Struct, frozen=True, tag=True):
    """To the child: run this attempt. ``left`` is how long it may take from now."""

    lease: Lease
    left: int | None = None


class Begun(msgspec.Struct, frozen=True, tag=True):
    """From the child: the call has arrived. What was not begun can be called elsewhere."""


class Stop(msgspec.Struct, frozen=True, tag=True):
    """To the child: the running attempt should come to its end."""

    cause: Cause


class ProgressFrame(msgspec.Struct, frozen=True, tag=True):
    """From the child: how far the attempt is."""

    data: bytes


class Emitted(msgspec.Struct, frozen=True, tag=True):
    """From the child: what is to be written while the attempt goes on."""

    effects: tuple["TaggedValue", ...]


class TaggedValue(msgspec.Struct, frozen=True):
    """A value of the model under the name of its kind."""

    kind: str
    value: msgspec.Raw


class Settled(msgspec.Struct, frozen=True, tag=True):
    """From the child: how the attempt ended (no outcome: it is no longer ours), and how much memory the child has."""

    outcome: TaggedValue | None
    effects: tuple[TaggedValue, ...]
    memory: int


class Unknown(msgspec.Struct, frozen=True, tag=True):
    """From the child: there is no such task."""


class Quit(msgspec.Struct, frozen=True, tag=True):
    """To the child: end in an orderly way."""


Frame = Start | Ready | CallFrame | Begun | Stop | ProgressFrame | Emitted | Settled | Unknown | Quit

_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(Frame)


def pack(frame: Frame) -> bytes:
    """The frame as it goes over the channel; PayloadTooLarge if it is over the cap."""
    data = _ENCODER.encode(frame)
    if len(data) > MAX_FRAME_BYTES:
        raise PayloadTooLarge("what goes to or from a child process", len(data), MAX_FRAME_BYTES)
    return len(data).to_bytes(4, "big") + data


class Unpacker:
    """Puts frames together from the pieces in which they arrive."""

    def __init__(self) -> None:
        self._pieces = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that are whole with this piece."""
        self._pieces += data
        while len(self._pieces) >= 4:
            end = 4 + int.from_bytes(self._pieces[:4], "big")
            if end - 4 > MAX_FRAME_BYTES:
                raise BadFrame(
                    f"A frame claims {end - 4:,} bytes, the limit is {MAX_FRAME_BYTES:,}: something else wrote to the channel"
                )
            if len(self._pieces) < end:
                return
            frame = bytes(self._pieces[4:end])
            del self._pieces[:end]
            try:
                yield _DECODER.decode(frame)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise BadFrame(f"A frame cannot be read: {error}") from error


def settled(settlement: Settlement | None, memory: int) -> Settled:
    """The settlement as the child says it."""
    if settlement is None:
        return Settled(None, (), memory)
    return Settled(_tag(settlement.outcome), tuple(_tag(effect) for effect in settlement.effects), memory)


def settlement(lease: Lease, frame: Settled) -> Settlement | None:
    """The settlement that the child meant."""
    if frame.outcome is None:
        return None
    try:
        effects = tuple(_untag(tagged, _EFFECTS) for tagged in frame.effects)
        return Settlement(lease, _untag(frame.outcome, _OUTCOMES), effects)
    except (msgspec.DecodeError, KeyError) as error:
        raise BadFrame(f"An outcome cannot be read: {error}") from error


def emitted(effects: tuple[Effect, ...]) -> Emitted:
    """Effects as the child says them."""
    return Emitted(tuple(_tag(effect) for effect in effects))


def wanted(frame: Emitted) -> tuple[Effect, ...]:
    """The effects that the child meant."""
    return tuple(_untag(tagged, _EFFECTS) for tagged in frame.effects)


def _tag(value: Outcome | Effect) -> TaggedValue:
    return TaggedValue(type(value).__name__, msgspec.Raw(_ENCODER.encode(value)))


def _untag(tagged: TaggedValue, kinds: Mapping[str, type[T]]) -> T:
    return msgspec.json.decode(tagged.value, type=kinds[tagged.kind])
