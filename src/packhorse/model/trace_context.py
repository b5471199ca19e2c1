"""W3C trace context in headers of jobs: which headers it is, and how they are read and replaced."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from packhorse.model import limits

TRACE_HEADERS: Final = ("traceparent", "tracestate", "baggage")

_DECODER = msgspec.json.Decoder(dict[str, Any])


def text_headers(headers: bytes) -> dict[str, str]:
    """Give the headers that are text; none if they cannot be read."""
    try:
        decoded = _DECODER.decode(headers)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return {}
    return {name: value for name, value in decoded.items() if isinstance(value, str)}


def passed_on(headers: Mapping[str, Any]) -> dict[str, Any]:
    """Give what a job passes on to the jobs it enqueues."""
    return {name: headers[name] for name in TRACE_HEADERS if headers.get(name) is not None}


def together(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    """Put headers over others, with the members of both baggages."""
    both = {**old, **new}
    if "baggage" in old and "baggage" in new:
        both["baggage"] = _joined(old["baggage"], new["baggage"])
    return both


def with_context(headers: bytes, carried: Mapping[str, str]) -> bytes:
    """Put carried headers into stored ones: without baggage, or not at all, if they would get too long.

    A carried ``traceparent`` replaces the whole context, baggage included.
    """
    if not carried:
        return headers
    old = _DECODER.decode(headers)
    if "traceparent" in carried:
        old = {name: value for name, value in old.items() if name not in TRACE_HEADERS}
    slim = {name: value for name, value in carried.items() if name != "baggage"}
    for each in (carried, slim):
        encoded = msgspec.json.encode(together(old, each))
        if len(encoded) <= limits.HEADERS:
            return encoded
    return headers


def _joined(*baggages: str) -> str:
    """Join the members of several baggages; of members with the same key the last stays."""
    members = (member.strip() for baggage in baggages for member in baggage.split(","))
    return ",".join({member.partition("=")[0].strip(): member for member in members if member}.values())
