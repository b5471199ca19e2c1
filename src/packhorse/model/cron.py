"""Cron expressions in a time zone, and what happens to them on the nights when clocks are changed.

A rule that names hours goes by the wall clock: `gap` says what becomes of a time that the clocks jump over, `fold` of one
that comes twice. A rule for every hour (`*`, `*/2`) goes by elapsed time: it fires whenever the wall clock fits.
"""

from bisect import bisect_right
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import Literal
from zoneinfo import ZoneInfo

import msgspec
from cronsim import CronSim, CronSimError

from packhorse.errors import InvalidSchedule

Gap = Literal["shift", "skip"]
Fold = Literal["first", "both"]

WORDS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
FIELDS = ("second", "minute", "hour", "day", "month", "weekday")
LOWEST = ("0", "0", "0", "1", "1", "*")
SECOND, DAY = timedelta(seconds=1), timedelta(days=1)
SEARCH_YEARS = 50  # leap years come more often
NEARBY = timedelta(hours=25)  # no change of clocks is larger than a day
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Cron(msgspec.Struct, frozen=True, tag="cron"):
    """A cron expression as it was written, and the zone whose clocks it means. Moments are UTC."""

    text: str
    zone: str = "UTC"
    gap: Gap = "shift"
    fold: Fold = "first"

    @property
    def fields(self) -> str:
        """The five or six fields that the text means."""
        return WORDS.get(self.text.strip().lower(), self.text)

    def after(self, moment: datetime) -> datetime | None:
        """The first tick after a moment; None if there is none within fifty years."""
        if self.zone == "UTC":
            return _first(self.fields, moment)
        zone = zone_of(self.zone)
        hours = self.fields.split()[-4]
        return _by_time(self.fields, zone, moment) if hours.startswith("*") else self._by_clock(zone, moment)

    def describe(self) -> str:
        """What it means, in words."""
        return f"{CronSim(self.fields, EPOCH).explain()} ({self.zone})"

    def _by_clock(self, zone: ZoneInfo, moment: datetime) -> datetime | None:
        """Near a change of clocks the order of wall times is not that of moments: look at all that may come first."""
        best: datetime | None = None
        wall = _first(self.fields, _wall(moment, zone) - _spread(moment, zone))
        while wall is not None:
            for tick in self._moments(wall, zone):
                if tick > moment and (best is None or tick < best):
                    best = tick
            if best is not None and wall >= _wall(best, zone) + _spread(best, zone):
                break
            wall = _first(self.fields, wall)
        return best

    def _moments(self, wall: datetime, zone: ZoneInfo) -> list[datetime]:
        """The moments a wall time means: one, or two that the clocks show twice, or what a gap makes of it."""
        first, second = (wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
        if first == second:
            return [first]
        if first > second:  # the offset grows: the clocks jump over it
            return [first] if self.gap == "shift" else []
        return [first, second] if self.fold == "both" else [first]


def cron(
    text: str | None = None,
    *,
    tz: str = "UTC",
    second: int | str | None = None,
    minute: int | str | None = None,
    hour: int | str | None = None,
    day: int | str | None = None,
    month: int | str | None = None,
    weekday: int | str | None = None,
) -> Cron:
    """A rule by a cron expression of five fields (or six, seconds first), a word like ``@daily``, or by named fields.

    Of named fields, those above the smallest one given are any, those below it the first: ``cron(hour=2)`` is daily at
    two. Unlike the host's crontab the zone is UTC unless ``tz`` names another.
    """
    given = (second, minute, hour, day, month, weekday)
    if (text is None) == all(field is None for field in given):
        raise InvalidSchedule(f"cron({text!r})", "give an expression, or fields by name, and not both")
    if text is not None and not isinstance(text, str):
        raise InvalidSchedule(f"cron({text!r})", "an expression is text")
    if not isinstance(tz, str):
        raise InvalidSchedule(f"tz={tz!r}", "the name of a time zone is text")
    rule = Cron(_named(given) if text is None else text, tz)
    zone_of(tz)
    try:
        found = _first(rule.fields, EPOCH)
    except CronSimError as error:
        raise InvalidSchedule(rule.text, _why(error)) from error
    if found is None:
        raise InvalidSchedule(rule.text, "no day ever matches it")
    return rule


def _named(given: tuple[int | str | None, ...]) -> str:
    for name, field in zip(FIELDS, given, strict=True):
        if isinstance(field, str) and len(field.split()) != 1:  # a blank would make two fields of one
            raise InvalidSchedule(f"{name}={field!r}", "a field has no spaces: write several values as 1,2")
    places = [place for place, field in enumerate(given[:5]) if field is not None]
    smallest = min(places, default=3)  # a weekday alone means the day
    fields = [
        (LOWEST[place] if place < smallest else "*") if field is None else str(field)
        for place, field in enumerate(given)
    ]
    return " ".join(fields[1:] if given[0] is None else fields)


def _why(error: CronSimError) -> str:
    text = str(error)
    if text.startswith("Wrong number"):
        return f"it has neither five nor six fields, and is none of the words {', '.join(WORDS)}"
    return f"the field {text.removeprefix('Bad ')!r} is invalid, or no day ever matches it"


@lru_cache(maxsize=1024)
def zone_of(name: str) -> ZoneInfo:
    """A zone by its IANA name."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError, TypeError) as error:  # it is a path below the data, and some are none
        raise InvalidSchedule(
            f"tz={name!r}", "no such time zone is known here: use an IANA name like Europe/Paris"
        ) from error


def _first(fields: str, moment: datetime) -> datetime | None:
    """The first wall time after a moment that fits."""
    times = _times(fields)
    day, clock = moment.date(), times.after(moment.hour, moment.minute, moment.second)
    last = day.year + SEARCH_YEARS
    while day.year < last:
        if day.month not in times.months:
            day = date(day.year + day.month // 12, day.month % 12 + 1, 1)
        elif clock is not None and times.fits(day):
            return datetime.combine(day, clock, moment.tzinfo)
        else:
            day += DAY
        clock = times.first
    return None


class _Times(msgspec.Struct, frozen=True):
    """The fields of an expression, in order, and whether a day fits."""

    hours: list[int]
    minutes: list[int]
    seconds: list[int]
    months: set[int]
    fits: Callable[[date], bool]
    first: time

    def after(self, hour: int, minute: int, second: int) -> time | None:
        """The first time of a day after this one."""
        if hour in self.hours:
            if minute in self.minutes and (later := _above(self.seconds, second)) is not None:
                return time(hour, minute, later)
            if (later := _above(self.minutes, minute)) is not None:
                return time(hour, later, self.first.second)
        later = _above(self.hours, hour)
        return None if later is None else time(later, self.first.minute, self.first.second)


@lru_cache(maxsize=4096)
def _times(fields: str) -> _Times:
    sim = CronSim(fields, EPOCH)
    hours, minutes, seconds = sorted(sim.hours), sorted(sim.minutes), sorted(sim.seconds)
    return _Times(hours, minutes, seconds, sim.months, sim.match_day, time(hours[0], minutes[0], seconds[0]))


def _above(numbers: list[int], number: int) -> int | None:
    place = bisect_right(numbers, number)
    return numbers[place] if place < len(numbers) else None


def _by_time(fields: str, zone: ZoneInfo, moment: datetime) -> datetime | None:
    """The first moment whose wall time fits: as if the clocks never changed, up to the next change, and on from there."""
    start, offset = moment, _offset(moment, zone)
    while True:
        wall = _first(fields, start.replace(tzinfo=None) + offset)
        if wall is None:
            return None
        tick = (wall - offset).replace(tzinfo=UTC)
        if _offset(tick, zone) == offset:
            return tick
        change = _change(start, tick, zone)
        start, offset = change - SECOND, _offset(change, zone)


def _change(low: datetime, high: datetime, zone: ZoneInfo) -> datetime:
    """The first whole second at which the offset is no longer that of the lower moment."""
    before = _offset(low, zone)
    low = low.replace(microsecond=0)
    while high - low > SECOND:
        middle = low + timedelta(seconds=(high - low) // SECOND // 2)
        if _offset(middle, zone) == before:
            low = middle
        else:
            high = middle
    return high


def _spread(moment: datetime, zone: ZoneInfo) -> timedelta:
    """By how much the clocks are changed around a moment."""
    return abs(_offset(moment + NEARBY, zone) - _offset(moment - NEARBY, zone))


def _wall(moment: datetime, zone: ZoneInfo) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None, fold=0)


def _offset(moment: datetime, zone: ZoneInfo) -> timedelta:
    offset = moment.astimezone(zone).utcoffset()
    assert offset is not None
    return offset
