"""What is told, in a stream of its own, of scheduled runs that do not go as they should."""

import msgspec

from packhorse.errors import InvalidName
from packhorse.model.effect import Publish
from packhorse.model.ids import JobId, id_text

STREAM = "packhorse.schedules"


class Alarm(msgspec.Struct, frozen=True):
    """An event of the stream: runs that ``failed``, are ``late`` or were ``missed``.

    ``job`` is None if none was made; then ``count`` says for how many ticks, of which ``tick`` is the last.
    """

    event: str
    schedule: str
    tick: str
    job: str | None = None
    count: int = 1


class _Headers(msgspec.Struct):
    schedule: str | None = None
    tick: str = ""


_HEADERS = msgspec.json.Decoder(_Headers)


def failed(job: JobId, headers: bytes) -> tuple[Publish, ...]:
    """What is told when a job is dead: something if a schedule made it, else nothing."""
    if b'"schedule"' not in headers:
        return ()
    try:
        made = _HEADERS.decode(headers)
        if not made.schedule or not made.tick:
            return ()
        alarm = Alarm("failed", made.schedule, made.tick, id_text(job))
        return (Publish(STREAM, msgspec.json.encode(alarm), made.schedule),)
    except (msgspec.MsgspecError, InvalidName):  # headers of users may be called the same
        return ()
