"""One entry of the audit: who did what, from where, to what, and what came of it."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from packhorse.errors import UndecodablePayload
from packhorse.model.clock import moment
from packhorse.model.event import Event


class Via(StrEnum):
    """Where an action came from."""

    PYTHON = "python"
    CLI = "cli"
    HTTP = "http"


class AuditOutcome(StrEnum):
    """What came of an action. ``started`` is the intent, written before an action on many jobs."""

    STARTED = "started"
    DONE = "done"
    FAILED = "failed"
    REFUSED = "refused"


class AdminAction(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a person did, as it is stored. Secrets in the texts are redacted before that."""

    action: str
    """What was done: ``replay``, ``drop``, ``pause``, ``schedule pause`` and so on."""
    who: str
    """The user and host of the process, ``PACKHORSE_USER``, or what ``app.audit.acting`` gave."""
    via: Via
    """Where it came from."""
    target: str | None = None
    """What it was done to: a queue, a schedule, a job."""
    filter: Mapping[str, Any] | None = None
    """Which jobs it was done to, as in ``app.find``; an empty one stands for all."""
    count: int | None = None
    """How many jobs it changed."""
    outcome: AuditOutcome = AuditOutcome.DONE
    """What came of it."""
    error: str = ""
    """Why it failed or was refused."""
    operation: str | None = None
    """The same text in the entries of one action: its intent and its outcome."""
    address: str | None = None
    """The network address it came from, over HTTP."""
    request_id: str | None = None
    """The id of the request, over HTTP."""


class AuditEntry(AdminAction, frozen=True, kw_only=True):
    """An entry of the audit. Numbers rise by one, so a missing entry shows."""

    number: int
    """The place of the entry in the stream."""
    at: datetime
    """When it was written, by the clock of the store."""


_DECODER = msgspec.json.Decoder(AdminAction)


def pack(action: AdminAction) -> bytes:
    """The stored form of an action."""
    return msgspec.json.encode(action)


def entry_of(event: Event) -> AuditEntry:
    """The entry that an event of the stream holds."""
    try:
        action = _DECODER.decode(event.data)
    except msgspec.MsgspecError as error:
        raise UndecodablePayload(f"Entry {event.offset} of the audit cannot be read: {error}") from error
    return AuditEntry(number=event.offset, at=moment(event.at), **msgspec.structs.asdict(action))
