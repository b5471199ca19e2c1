"""Events about scheduled runs that failed, are late or were missed, in a stream of their own."""

import msgspec

from packhorse.errors import InvalidName
from packhorse.model import limits
from packhorse.model.effect import Publish
from packhorse.model.ids import JobId, id_text
from packhorse.stores.contract import Store

STREAM = "packhorse.schedules"
MAX_EVENTS = 10_000


class FailureEvent(msgspec.Struct, frozen=True):
    """An event of the stream: runs that ``failed``, are ``late`` or were ``missed``.

    ``job`` is None if none was made; then ``count`` says for how many ticks, of which ``tick`` is the last.
    """

    event: str
    schedule: str
    tick: str
    job: str | None = None
    count: int = 1


class _FailureHeaders(msgspec.Struct):
    schedule: str | None = None
    tick: str = ""


_HEADERS = msgspec.json.Decoder(_FailureHeaders)


def failed(job: JobId, headers: bytes) -> tuple[Publish, ...]:
    """Give the event for a dead job that a schedule made; none for other jobs."""
    if b'"schedule"' not in headers:
        return ()
    try:
        made = _HEADERS.decode(headers)
        if not made.schedule or not made.tick:
            return ()
        alarm = FailureEvent("failed", made.schedule, made.tick, id_text(job))
        return (Publish(STREAM, msgspec.json.encode(alarm), made.schedule),)
    except (msgspec.MsgspecError, InvalidName):  # headers of users may be called the same
        return ()


async def trim_events(store: Store) -> bool:
    """Remove the oldest events, so that the newest stay up to their number; answer whether there is more to remove."""
    bounds = await store.streams.bounds(STREAM)
    below = bounds.last - MAX_EVENTS + 1
    if bounds.first >= below:
        return False
    return await store.streams.trim(STREAM, below, limits.LOOKED_AT) == limits.LOOKED_AT
