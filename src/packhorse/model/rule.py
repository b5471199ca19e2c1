"""When a schedule fires: by a cron expression, or every so often."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile

import msgspec

from packhorse.errors import InvalidSchedule
from packhorse.model import limits
from packhorse.model.cron import EPOCH, Cron
from packhorse.model.duration import Duration, micros

MIN_EVERY_US = limits.SECOND
WINDOW = timedelta(minutes=1)
FIRST_TICKS = 5
ROUND = timedelta(days=9 * 366)  # from one 29 February to the next, at most
LAST_TICK = EPOCH + timedelta(microseconds=limits.MAX_TIME_US)  # no rule has later ticks: no store holds such moments


class Every(msgspec.Struct, frozen=True, tag="every"):
    """A tick every so many microseconds, counted from an anchor."""

    text: str
    interval: int
    start: datetime = EPOCH

    def after(self, moment: datetime) -> datetime:
        """The first tick after a moment."""
        interval = timedelta(microseconds=self.interval)
        return self.start + interval * max(0, (moment - self.start) // interval + 1)

    def before(self, moment: datetime) -> datetime | None:
        """The last tick before a moment."""
        count = -((self.start - moment) // timedelta(microseconds=self.interval)) - 1
        return None if count < 0 else self.start + timedelta(microseconds=self.interval) * count

    def describe(self) -> str:
        """What it means, in words."""
        anchor = "" if self.start == EPOCH else f" from {self.start.isoformat()}"
        return f"Every {timedelta(microseconds=self.interval)}{anchor} (UTC)"


Rule = Cron | Every


def every(interval: Duration, *, start: datetime | None = None) -> Every:
    """A rule that fires every so often, at least a second apart: at ``start``, else counted from 1970, so that all
    processes mean the same moments."""
    length = micros(interval)
    if length < MIN_EVERY_US:
        raise InvalidSchedule(f"every({interval!r})", "it is shorter than a second")
    anchor = EPOCH if start is None else starting(start)
    whole, part = divmod(length, limits.SECOND)
    text = interval if isinstance(interval, str) else f"{whole}.{part:06}".rstrip("0").rstrip(".") + "s"
    return Every(text, length, anchor)


def zoned(what: str, at: object) -> datetime:
    """A time in UTC; refused if it is no datetime, or has no time zone."""
    if not isinstance(at, datetime) or at.tzinfo is None:
        raise InvalidSchedule(f"{what}={at!r}", "give a datetime that has a time zone")
    return at.astimezone(UTC)


def starting(at: object) -> datetime:
    """The start of a rule in UTC; refused if no tick can follow it."""
    start = zoned("start", at)
    if start > LAST_TICK:
        raise InvalidSchedule(f"start={at}", f"schedules end with {LAST_TICK.date()}")
    return start


def ticks(rule: Rule, after: datetime, until: datetime) -> Iterator[datetime]:
    """The ticks after a moment, up to and with another, soonest first."""
    return takewhile(lambda tick: tick <= until, upcoming(rule, after))


def upcoming(rule: Rule, after: datetime) -> Iterator[datetime]:
    """The ticks after a moment, as long as there are any."""
    tick = rule.after(after)
    while tick is not None and tick <= LAST_TICK:
        yield tick
        tick = rule.after(tick)


def before(rule: Rule, moment: datetime) -> datetime | None:
    """The last tick before a moment; None if there is none in the years in which a rule comes round."""
    if isinstance(rule, Every):
        return rule.before(moment)
    found = latest(rule, moment - ROUND, moment - datetime.resolution, 1)
    return found[0] if found else None


def latest(rule: Rule, after: datetime, until: datetime, count: int) -> list[datetime]:
    """The last so many ticks between two moments, without going through all that came before."""
    few = list(islice(ticks(rule, after, until), FIRST_TICKS + 1))
    if len(few) <= FIRST_TICKS:
        return few[-count:]
    window = WINDOW
    while True:
        begin = max(after, until - window)
        found = list(ticks(rule, begin, until))
        if len(found) >= count or begin == after:
            return found[-count:]
        window *= 4
