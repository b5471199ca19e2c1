"""What travels beside the payload: who it is for, which chain of work it belongs to, what the call asked for."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from typing import Any

import msgspec

from packhorse.engine.context import current_or_none
from packhorse.errors import UndecodablePayload
from packhorse.jobs.options import NOTHING, Options
from packhorse.model import caps, codec
from packhorse.model.job import EMPTY

_CORRELATION: ContextVar[str | None] = ContextVar("packhorse_correlation", default=None)
_MARK = b'"packhorse":'


class OnFailure(StrEnum):
    """What a failed, cancelled or dropped child means for the job that waits for it: it fails too, or goes on without."""

    FAIL = "fail"
    SKIP = "skip"
    NONE = "none"


class Shape(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a job takes what its children left: under which parameter, as one value or as a list, of how many.

    ``sizes`` are given where each child leaves a list: how many values it stands for.
    """

    name: str
    children: int = 1
    many: bool = False
    sizes: tuple[int, ...] = ()
    on_failure: OnFailure = OnFailure.FAIL


class Own(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What Packhorse itself sends along: the words of a chosen id, options of the call, the shape of a flow."""

    id: str | None = None
    options: Options = NOTHING
    flow: Shape | None = None


class _Outside(msgspec.Struct):
    packhorse: Own = Own()


_OWN = msgspec.json.Decoder(_Outside)
NONE = Own()


def own(headers: bytes) -> Own:
    """Our own part of stored headers; most jobs have none, and finding that out is cheap."""
    if _MARK not in headers:
        return NONE
    try:
        return _OWN.decode(headers).packhorse
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UndecodablePayload(f"The headers of the job cannot be read: {error}") from error


@contextmanager
def correlated(correlation: str) -> Iterator[None]:
    """Give all jobs that are enqueued inside this id, so that one search finds the whole chain."""
    caps.key("correlation id", correlation)
    token = _CORRELATION.set(correlation)
    try:
        yield
    finally:
        _CORRELATION.reset(token)


def chained(chain: str | None) -> bytes:
    """Headers where nothing is said about a call; most often there are none."""
    if chain is None and _CORRELATION.get() is None and current_or_none() is None:
        return EMPTY
    return headers(chain, {}, tenant=None, user=None, correlation=None, mine=NONE)


def headers(
    chain: str | None,
    free: Mapping[str, Any],
    *,
    tenant: str | None,
    user: str | None,
    correlation: str | None,
    mine: Own,
) -> bytes:
    """Headers as they are stored. The chain of work is the caller's, else the one given, else it begins with this job: no word."""
    ctx = current_or_none()
    chain = correlation or _CORRELATION.get() or (ctx.correlation_id if ctx is not None else None) or chain
    named = {"correlation_id": chain, "tenant": tenant, "user": user, "packhorse": mine if mine != NONE else None}
    if ctx is not None:
        named |= {name: ctx.headers.get(name) for name in ("traceparent", "tracestate")}
    return codec.encode({**free, **{name: value for name, value in named.items() if value is not None}})
