"""Signatures of webhooks as Standard Webhooks describes them, made and checked."""

import hmac
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence

import msgspec

from packhorse.alerts.alert import Alert
from packhorse.errors import InvalidOption, InvalidSignature
from packhorse.model import limits
from packhorse.model.clock import SYSTEM
from packhorse.model.duration import Duration, micros

PREFIX = "whsec_"
MIN_KEY_BYTES = 16

_ALERT = msgspec.json.Decoder(Alert)


def keys(secret: str | Sequence[str]) -> tuple[bytes, ...]:
    """Decode secrets; several are in force while one is replaced by another."""
    found = tuple(_key(one) for one in ((secret,) if isinstance(secret, str) else secret))
    if not found:
        raise InvalidOption("secret", "[]", "give a secret, or leave it out")
    return found


def signature_headers(keys: Sequence[bytes], id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Make the headers of a request, with a signature by each key; ``timestamp`` is in seconds."""
    named = {"webhook-id": id, "webhook-timestamp": str(timestamp)}
    signed = " ".join(f"v1,{_signature(key, id, str(timestamp), body)}" for key in keys)
    return {**named, "webhook-signature": signed} if keys else named


def verify_webhook(
    body: bytes,
    headers: Mapping[str, str],
    secret: str | Sequence[str],
    *,
    tolerance: Duration = "5m",
    now: int | None = None,
) -> Alert:
    """Check the signature of a webhook that a receiver got, and give the alert in its body.

    ``headers`` are those of the request, in any case. A request signed longer ago than ``tolerance`` is refused, so that
    a copy of it cannot be sent again later. ``now`` is in microseconds since 1970; None for the time of this machine.
    """
    given = {name.lower(): value for name, value in headers.items()}
    try:
        id, timestamp = given["webhook-id"], given["webhook-timestamp"]  # noqa: A001
        signatures = given["webhook-signature"].split()
    except KeyError as error:
        raise InvalidSignature(f"the header {error.args[0]} is missing") from None
    if not timestamp.isascii() or not timestamp.isdecimal() or len(timestamp) > 12:
        raise InvalidSignature("webhook-timestamp is no number of seconds")
    if abs((SYSTEM.now() if now is None else now) - int(timestamp) * limits.SECOND) > micros(tolerance, "tolerance"):
        raise InvalidSignature("webhook-timestamp is too far from the time of this machine")
    wanted = [f"v1,{_signature(key, id, timestamp, body)}".encode() for key in keys(secret)]
    if not any(hmac.compare_digest(each.encode(), one) for each in signatures for one in wanted):
        raise InvalidSignature("no signature in webhook-signature was made with this secret")
    try:
        return _ALERT.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidSignature("the body is no alert") from error


def _signature(key: bytes, id: str, timestamp: str, body: bytes) -> str:
    return b64encode(hmac.digest(key, f"{id}.{timestamp}.".encode() + body, "sha256")).decode()


def _key(secret: str) -> bytes:
    advice = f"give {PREFIX!r} and the base64 text of at least {MIN_KEY_BYTES} random bytes"
    if not secret.startswith(PREFIX):
        raise InvalidOption("secret", "***", advice)
    try:
        key = b64decode(secret.removeprefix(PREFIX), validate=True)
    except ValueError:
        raise InvalidOption("secret", "***", advice) from None
    if len(key) < MIN_KEY_BYTES:
        raise InvalidOption("secret", "***", advice)
    return key
