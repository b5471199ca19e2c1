"""What happened, as lines of the logger ``packhorse`` with fields for those who index them.

A record carries, as far as known: ``event``, ``job_id``, ``task``, ``queue``, ``attempt``, ``worker``,
``correlation_id``, ``tenant``, ``user``, ``duration`` and ``delay`` (seconds), ``reason``, ``error_type``, ``count``,
``detail``. Arguments, payloads and results are never logged; of errors the type and the message are, without what looks
like a secret.
"""

import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from packhorse.model import exception_text, limits
from packhorse.model.ids import id_text
from packhorse.model.job import Failure
from packhorse.model.printable import printable
from packhorse.telemetry.emit import Fields, Telemetry
from packhorse.telemetry.names import EventName
from packhorse.telemetry.redact import redacted

LINE: Final = 500
LOOKED_AT: Final = 4 * LINE

_LOG = logging.getLogger("packhorse")

_MESSAGES: Final[Mapping[EventName, tuple[int, str]]] = MappingProxyType(
    {
        EventName.STARTED: (logging.DEBUG, "started"),
        EventName.DONE: (logging.DEBUG, "done"),
        EventName.RETRYING: (logging.WARNING, "will run again"),
        EventName.WAITING: (logging.INFO, "waiting"),
        EventName.DEAD: (logging.ERROR, "dead"),
        EventName.CANCELLED: (logging.INFO, "cancelled"),
        EventName.HANDED_BACK: (logging.INFO, "handed back"),
        EventName.LOST: (logging.WARNING, "job lost, its lease expired"),
        EventName.ROLLED_BACK: (logging.WARNING, "transaction rolled back"),
        EventName.LEASE_LOST: (logging.WARNING, "lost its lease, nothing is settled"),
        EventName.SETTLEMENT_REFUSED: (logging.ERROR, "settlement refused"),
        EventName.WORKER_STARTED: (logging.INFO, "worker started"),
        EventName.WORKER_STOPPING: (logging.INFO, "worker stopping"),
        EventName.WORKER_STOPPED: (logging.INFO, "worker stopped"),
        EventName.EXCHANGE_FAILED: (logging.WARNING, "exchange with the store failed"),
        EventName.RENEWAL_FAILED: (logging.WARNING, "renewal of leases failed"),
        EventName.STORE_RECOVERED: (logging.INFO, "the store is back"),
        EventName.RELEASED: (logging.INFO, "waiting jobs released"),
        EventName.PRUNED: (logging.DEBUG, "ended jobs pruned"),
        EventName.DEAD_UNSEEN: (logging.WARNING, "dead jobs were pruned that were never looked at"),
        EventName.MAINTAINED: (logging.DEBUG, "store tidied"),
        EventName.DUTY_FAILED: (logging.WARNING, "duty failed"),
        EventName.FIRED: (logging.DEBUG, "schedule fired"),
        EventName.RUN_LATE: (logging.ERROR, "scheduled run is late"),
        EventName.RUN_MISSED: (logging.ERROR, "scheduled run was missed"),
        EventName.DECLARATION_IGNORED: (logging.WARNING, "schedule ignored, a higher release declared another"),
        EventName.HANDLER_FAILED: (logging.ERROR, "function of @app.on failed"),
        EventName.EVENTS_DROPPED: (logging.WARNING, "function of @app.on is too slow, events were dropped"),
        EventName.LOOP_BLOCKED: (logging.WARNING, "blocked the event loop"),
        EventName.ATTEMPT_STUCK: (logging.WARNING, "did not stop when cancelled and is still running"),
        EventName.THREAD_STUCK: (logging.ERROR, "did not stop when cancelled; its thread is lost until it returns"),
        EventName.CHILD_DIED: (logging.ERROR, "child process died"),
        EventName.CHILD_RECYCLED: (logging.INFO, "child process replaced"),
    }
)
_FORMS: Final = (
    ("delay", " in %.3f s"),
    ("duration", ", took %.3f s"),
    ("count", " (count %d)"),
    ("detail", ": %s"),
    ("reason", ": %s"),
    ("error_type", ": %s"),
)
_TAGS: Final = (("job_id", "job"), ("queue", "queue"), ("attempt", "attempt"), ("worker", "worker"))


class _LogHeaders(msgspec.Struct):
    correlation_id: str | None = None
    tenant: str | None = None
    user: str | None = None


_HEADERS = msgspec.json.Decoder(_LogHeaders)


def listen(telemetry: Telemetry) -> Callable[[], None]:
    """Log events from now on; call the answer to stop."""
    return telemetry.on(log, when=wanted)


def wanted(name: EventName) -> bool:
    """Whether the logger takes lines of this level."""
    return _LOG.isEnabledFor(_MESSAGES[name][0])


def log(name: EventName, fields: Fields) -> None:
    """Write one line."""
    level, words = _MESSAGES[name]
    if name is EventName.RETRYING and fields.get("error") is None:
        level = logging.INFO  # put off on purpose
    if not _LOG.isEnabledFor(level):
        return
    kind, message = _trouble(fields.get("error"))
    known = {"event": name.value, **_about(fields), **_rest(fields)}
    if kind is not None:
        known["error_type"] = printable(kind)
    text, values = _line(words, known, message)
    record = _LOG.makeRecord(_LOG.name, level, __file__, 0, text, values, None, name.value)
    # Not by ``extra``, which refuses a field that the user's own record factory has set already.
    record.__dict__.update(known)
    _LOG.handle(record)


def _about(fields: Fields) -> dict[str, Any]:
    """Which attempt or job it is about; nothing of what the job carries."""
    if (lease := fields.get("lease")) is not None:
        job_id = id_text(lease.id)
        task, queue = printable(lease.task), printable(lease.queue)
        about = {"job_id": job_id, "task": task, "queue": queue, "attempt": lease.attempt}
        return {**about, **_envelope(lease.headers, job_id)}
    if (job := fields.get("job")) is not None:
        return {"job_id": id_text(job)}
    return {}


def _rest(fields: Fields) -> dict[str, Any]:
    rest: dict[str, Any] = {}
    for word in ("duration", "delay"):
        if (micros := fields.get(word)) is not None:
            rest[word] = micros / limits.SECOND
    for word in ("reason", "detail", "worker"):
        if (words := fields.get(word)) is not None:
            rest[word] = _short(str(words))
    if (count := fields.get("count")) is not None:
        rest["count"] = count
    return rest


def _trouble(error: object) -> tuple[str | None, str]:
    """The type and the message of what went wrong."""
    if isinstance(error, Failure):
        kind, message = error.type, error.message
    elif isinstance(error, BaseException):
        kind, message = exception_text.kind(error), exception_text.message(error)
    else:
        return None, ""
    return kind, "" if kind.endswith("ValidationError") else _short(message)  # those quote the arguments


def _line(words: str, known: Mapping[str, Any], message: str) -> tuple[str, tuple[Any, ...]]:
    """The line as a template and its values, so that what gathers lines can tell like from unlike."""
    template, values = ("%s " + words, [known["task"]]) if "task" in known else (words, [])
    for word, form in _FORMS:
        if word in known:
            template += form
            values.append(known[word])
    if message:
        template += ": %s"
        values.append(message)
    if tags := [(word, tag) for word, tag in _TAGS if word in known]:
        template += " [" + ", ".join(f"{tag} %s" for _, tag in tags) + "]"
        values.extend(known[word] for word, _ in tags)
    return template, tuple(values)


def _short(text: str) -> str:
    line = " ".join(text[:LOOKED_AT].split())
    if len(text) > LOOKED_AT:
        line = line.rpartition(" ")[0]  # a word cut in half may be a secret that is no longer known as one
    return printable(redacted(line))[:LINE]


def _envelope(headers: bytes, job_id: str) -> dict[str, str]:
    """For whom a job is and to which chain of work it belongs, if no other then its own; the rest is the user's business."""
    try:
        headers_of_job = msgspec.structs.asdict(_HEADERS.decode(headers))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return {}
    return {"correlation_id": job_id} | {name: value for name, value in headers_of_job.items() if value is not None}
