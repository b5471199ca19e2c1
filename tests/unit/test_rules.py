"""When schedules fire: cron expressions, intervals, and the nights when clocks are changed."""

import subprocess
import sys
from bisect import bisect_right
from datetime import UTC, date, datetime, timedelta
from itertools import islice

import msgspec
import pytest
from cronsim import CronSim

from packhorse.errors import InvalidSchedule, InvalidTime
from packhorse.model.cron import Cron, cron
from packhorse.model.rule import LAST_TICK, before, every, latest, ticks, upcoming
from packhorse.schedules.schedule import names


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def between(rule, begin, end):
    return ", ".join(tick.strftime("%d %H:%M") for tick in ticks(rule, at(f"2026-{begin}"), at(f"2026-{end}")))


def policies(text, zone, gap, fold):
    return msgspec.structs.replace(cron(text, tz=zone), gap=gap, fold=fold)


# The clocks go forward: wall times in between do not exist. What is expected is UTC, worked out by hand.
# zone, rule, one day around the change, ticks with gap="shift", ticks with gap="skip" (None: the same)
SPRING = [
    # Paris, 29 March 2026: 02:00 +1 becomes 03:00 +2, at 01:00 UTC
    ("Europe/Paris", "30 2 * * *", "03-27T12:00", "03-30T12:00", "28 01:30, 29 01:30, 30 00:30", "28 01:30, 30 00:30"),
    ("Europe/Paris", "0 2 * * *", "03-28T12:00", "03-29T12:00", "29 01:00", ""),
    ("Europe/Paris", "0 2,3 * * *", "03-28T12:00", "03-29T12:00", "29 01:00", None),
    ("Europe/Paris", "59 1 * * *", "03-28T12:00", "03-29T12:00", "29 00:59", None),
    ("Europe/Paris", "*/20 2 * * *", "03-28T12:00", "03-29T12:00", "29 01:00, 29 01:20, 29 01:40", ""),
    ("Europe/Paris", "30 * * * *", "03-28T23:00", "03-29T03:00", "28 23:30, 29 00:30, 29 01:30, 29 02:30", None),
    ("Europe/Paris", "0 */2 * * *", "03-28T22:30", "03-29T05:00", "28 23:00, 29 02:00, 29 04:00", None),
    # London, 29 March 2026: 01:00 +0 becomes 02:00 +1, at 01:00 UTC
    ("Europe/London", "15 1 * * *", "03-28T12:00", "03-30T12:00", "29 01:15, 30 00:15", "30 00:15"),
    # New York, 8 March 2026: 02:00 -5 becomes 03:00 -4, at 07:00 UTC
    ("America/New_York", "30 2 * * *", "03-07T12:00", "03-09T12:00", "08 07:30, 09 06:30", "09 06:30"),
    ("America/New_York", "0 3 * * *", "03-07T12:00", "03-09T12:00", "08 07:00, 09 07:00", None),
    # Sydney, 4 October 2026: 02:00 +10 becomes 03:00 +11, at 16:00 UTC on the 3rd
    ("Australia/Sydney", "30 2 * * *", "10-03T00:00", "10-05T00:00", "03 16:30, 04 15:30", "04 15:30"),
    # Lord Howe, 4 October 2026: 02:00 +10:30 becomes 02:30 +11, at 15:30 UTC on the 3rd
    ("Australia/Lord_Howe", "10 2 * * *", "10-03T00:00", "10-05T00:00", "03 15:40, 04 15:10", "04 15:10"),
    ("Australia/Lord_Howe", "0,15,40 2 * * *", "10-03T00:00", "10-04T00:00", "03 15:30, 03 15:40, 03 15:45", "03 15:40"),
    # Santiago, 6 September 2026: midnight -4 becomes 01:00 -3, at 04:00 UTC
    ("America/Santiago", "0 0 * * *", "09-05T12:00", "09-07T12:00", "06 04:00, 07 03:00", "07 03:00"),
]  # fmt: skip

# The clocks go back: wall times in between come twice.
# zone, rule, a time around the change, ticks with fold="first", ticks with fold="both" (None: the same)
AUTUMN = [
    # Paris, 25 October 2026: 03:00 +2 becomes 02:00 +1, at 01:00 UTC
    ("Europe/Paris", "30 2 * * *", "10-24T12:00", "10-26T12:00", "25 00:30, 26 01:30", "25 00:30, 25 01:30, 26 01:30"),
    ("Europe/Paris", "0 3 * * *", "10-24T12:00", "10-25T12:00", "25 02:00", None),
    ("Europe/Paris", "0 2 * * *", "10-24T12:00", "10-25T12:00", "25 00:00", "25 00:00, 25 01:00"),
    ("Europe/Paris", "*/30 2 * * *", "10-24T12:00", "10-25T12:00", "25 00:00, 25 00:30", "25 00:00, 25 00:30, 25 01:00, 25 01:30"),
    ("Europe/Paris", "0 * * * *", "10-24T22:30", "10-25T03:00", "24 23:00, 25 00:00, 25 01:00, 25 02:00, 25 03:00", None),
    # London, 25 October 2026: 02:00 +1 becomes 01:00 +0, at 01:00 UTC
    ("Europe/London", "30 1 * * *", "10-24T12:00", "10-26T12:00", "25 00:30, 26 01:30", "25 00:30, 25 01:30, 26 01:30"),
    # New York, 1 November 2026: 02:00 -4 becomes 01:00 -5, at 06:00 UTC
    ("America/New_York", "30 1 * * *", "10-31T12:00", "11-02T12:00", "01 05:30, 02 06:30", "01 05:30, 01 06:30, 02 06:30"),
    # Sydney, 5 April 2026: 03:00 +11 becomes 02:00 +10, at 16:00 UTC on the 4th
    ("Australia/Sydney", "30 2 * * *", "04-04T00:00", "04-06T00:00", "04 15:30, 05 16:30", "04 15:30, 04 16:30, 05 16:30"),
    # Lord Howe, 5 April 2026: 02:00 +11 becomes 01:30 +10:30, at 15:00 UTC on the 4th
    ("Australia/Lord_Howe", "45 1 * * *", "04-04T00:00", "04-06T00:00", "04 14:45, 05 15:15", "04 14:45, 04 15:15, 05 15:15"),
    ("Australia/Lord_Howe", "15 1 * * *", "04-04T00:00", "04-05T00:00", "04 14:15", None),
    # Santiago, 5 April 2026: midnight -3 becomes 23:00 -4 of the 4th, at 03:00 UTC
    ("America/Santiago", "30 23 * * *", "04-04T12:00", "04-06T12:00", "05 02:30, 06 03:30", "05 02:30, 05 03:30, 06 03:30"),
]  # fmt: skip


@pytest.mark.parametrize(("zone", "text", "begin", "end", "shifted", "skipped"), SPRING)
@pytest.mark.parametrize("fold", ["first", "both"])
def test_times_that_the_clocks_jump_over_are_shifted_or_skipped(zone, text, begin, end, shifted, skipped, fold):
    assert between(policies(text, zone, "shift", fold), begin, end) == shifted
    assert between(policies(text, zone, "skip", fold), begin, end) == (shifted if skipped is None else skipped)


@pytest.mark.parametrize(("zone", "text", "begin", "end", "first", "both"), AUTUMN)
@pytest.mark.parametrize("gap", ["shift", "skip"])
def test_times_that_come_twice_fire_once_or_twice(zone, text, begin, end, first, both, gap):
    assert between(policies(text, zone, gap, "first"), begin, end) == first
    assert between(policies(text, zone, gap, "both"), begin, end) == (first if both is None else both)


@pytest.mark.parametrize("zone", ["Europe/Paris", "Australia/Lord_Howe", "America/Santiago", "Pacific/Apia", "UTC"])
@pytest.mark.parametrize(
    "text", ["30 2 * * *", "*/7 * * * *", "0 */3 * * *", "15,45 0-3 * * *", "0 0 1 * *", "5 1 * * 0"]
)
def test_asked_from_any_moment_the_next_tick_is_the_same(zone, text):
    """Whoever looks, whenever: there is one sequence of ticks, and it only rises."""
    rule, begin = cron(text, tz=zone), at("2011-12-01T00:00") if zone == "Pacific/Apia" else at("2026-02-20T00:00")
    expected = list(islice(upcoming(rule, begin), 1500))
    assert expected == sorted(set(expected))

    for moment in (begin + timedelta(hours=7, minutes=13) * n for n in range(300)):
        place = bisect_right(expected, moment)
        if place < len(expected):
            assert rule.after(moment) == expected[place]


@pytest.mark.parametrize(
    "text",
    [
        "*/7 3-5 * * *",
        "5,10 0 1,15 * 1",
        "0 0 29 2 *",
        "13 13 13 * 5",
        "*/20 59 23 L * *",
        "0 9 * * 2#3",
        "0 0 LW 1,7 *",
    ],
)
def test_ticks_are_those_of_the_library_that_reads_the_expression(text):
    begin = datetime(2026, 1, 1, 3, 4, 5, tzinfo=UTC)
    theirs = [tick for tick in islice(CronSim(text, begin), 200) if tick <= LAST_TICK]
    assert list(islice(upcoming(cron(text), begin), 200)) == theirs


def test_the_zone_of_the_host_changes_nothing():
    program = (
        "from datetime import UTC, datetime\n"
        "from packhorse.model.cron import cron\n"
        "print(cron('0 2 * * *').after(datetime(2026, 1, 1, tzinfo=UTC)), cron('@daily', tz='Europe/Paris')"
        ".after(datetime(2026, 1, 1, tzinfo=UTC)))"
    )
    given = {
        subprocess.run([sys.executable, "-c", program], env={"TZ": zone}, capture_output=True, check=True).stdout
        for zone in ("Asia/Tokyo", "America/New_York", "UTC")
    }
    assert given == {b"2026-01-01 02:00:00+00:00 2026-01-01 23:00:00+00:00\n"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0 9 * * mon", "2026-01-05T09:00"),
        ("0 9 * JUN MON#2", "2026-06-08T09:00"),
        ("0 0 L * *", "2026-01-31T00:00"),
        ("0 0 * * 5L", "2026-01-30T00:00"),
        ("30 0 12 * * *", "2026-01-01T12:00:30"),
        ("0 0 29 2 *", "2028-02-29T00:00"),
        ("@hourly", "2026-01-01T01:00"),
        ("@Daily", "2026-01-02T00:00"),
        ("@weekly", "2026-01-04T00:00"),
        ("@monthly", "2026-02-01T00:00"),
        ("@yearly", "2027-01-01T00:00"),
    ],
)
def test_expressions_of_all_kinds(text, expected):
    assert cron(text).after(at("2026-01-01T00:00")) == at(expected)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"hour": 2}, "0 2 * * *"),
        ({"hour": 2, "minute": 0}, "0 2 * * *"),
        ({"minute": "*/5"}, "*/5 * * * *"),
        ({"weekday": "mon"}, "0 0 * * mon"),
        ({"weekday": "mon", "hour": 9}, "0 9 * * mon"),
        ({"day": 1}, "0 0 1 * *"),
        ({"month": 6}, "0 0 1 6 *"),
        ({"second": 30}, "30 * * * * *"),
    ],
)
def test_fields_by_name(fields, text):
    assert cron(**fields).text == text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("0 0 30 2 *", "no day ever matches"),
        ("0 0 31 4,6 *", "no day ever matches"),
        ("61 * * * *", "'minute' is invalid"),
        ("* * *", "five nor six fields"),
        ("@reboot", "five nor six fields"),
        ("", "five nor six fields"),
        ("0 0 ? * *", "'day-of-month' is invalid"),
    ],
)
def test_an_expression_that_means_nothing_is_refused_when_declared(text, why):
    with pytest.raises(InvalidSchedule, match=why):
        cron(text)


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "../etc/passwd", "/etc/localtime", "Europe"])
def test_an_unknown_zone_is_refused_when_declared(zone):
    with pytest.raises(InvalidSchedule, match="IANA"):
        cron("@daily", tz=zone)


def test_an_expression_and_fields_together_or_neither_are_refused():
    with pytest.raises(InvalidSchedule, match="not both"):
        cron("@daily", hour=2)
    with pytest.raises(InvalidSchedule, match="not both"):
        cron()


def test_an_interval_is_counted_from_1970_or_from_its_start():
    assert every("60s").after(at("2026-01-01T00:00:30")) == at("2026-01-01T00:01")
    assert every("60s").after(at("2026-01-01T00:01")) == at("2026-01-01T00:02")
    rule = every(timedelta(hours=1), start=at("2026-01-01T00:10"))
    assert rule.after(at("2025-01-01T00:00")) == at("2026-01-01T00:10")
    assert rule.after(at("2026-01-01T00:10")) == at("2026-01-01T01:10")


@pytest.mark.parametrize("field", ["1 2", "", " ", "1,2 3"])
def test_a_field_with_a_blank_is_refused(field):
    with pytest.raises(InvalidSchedule, match="no spaces"):
        cron(hour=field)
    with pytest.raises(InvalidSchedule, match="no spaces"):
        cron(minute=field, hour=3)


@pytest.mark.parametrize(
    ("start", "why"),
    [("2026-01-01", "a datetime"), (date(2026, 1, 1), "a datetime"), (at("2200-01-01"), "end with 2100-01-01")],
)
def test_a_start_that_no_tick_can_have_is_refused(start, why):
    with pytest.raises(InvalidSchedule, match=why):
        every("1h", start=start)


def test_no_rule_has_ticks_that_no_store_can_hold():
    assert list(upcoming(every("3900w", start=at("2050-01-01")), at("2026-01-01"))) == [at("2050-01-01")]
    assert list(upcoming(cron("0 0 29 2 *"), at("2093-01-01"))) == [at("2096-02-29")]


@pytest.mark.parametrize("interval", ["999ms", 0, 0.5])
def test_an_interval_under_a_second_is_refused(interval):
    with pytest.raises(InvalidSchedule, match="shorter than a second"):
        every(interval)
    with pytest.raises(InvalidTime):
        every("soon")
    with pytest.raises(InvalidSchedule, match="time zone"):
        every("1h", start=datetime(2026, 1, 1))


def test_the_latest_ticks_of_a_long_time_are_found_without_going_through_all():
    second, until = every("1s"), at("2026-01-01T00:00")
    assert latest(second, at("2000-01-01T00:00"), until, 3) == [until - timedelta(seconds=n) for n in (2, 1, 0)]
    assert latest(cron("0 0 29 2 *"), at("2000-01-01T00:00"), until, 2) == [
        at("2020-02-29T00:00"),
        at("2024-02-29T00:00"),
    ]
    assert latest(cron("@daily"), at("2025-12-30T12:00"), until, 10) == [at("2025-12-31T00:00"), until]
    assert latest(cron("@daily"), until, until, 10) == []


def test_rules_say_what_they_mean():
    assert cron("0 2 * * *", tz="Europe/Paris").describe() == "At 02:00 every day (Europe/Paris)"
    assert every("90m").describe() == "Every 1:30:00 (UTC)"


def test_a_rule_survives_being_stored():
    for rule in (cron("@daily", tz="Europe/Paris"), every("90s"), every("1h", start=at("2026-01-01T00:10"))):
        assert msgspec.json.decode(msgspec.json.encode(rule), type=Cron | type(every(1))) == rule


@pytest.mark.parametrize("text", [5, b"@daily", ["@daily"], 0])
def test_what_is_no_text_is_refused(text):
    with pytest.raises(InvalidSchedule, match="text"):
        cron(text)
    with pytest.raises(InvalidSchedule, match="text"):
        cron("@daily", tz=text)


@pytest.mark.parametrize(
    ("interval", "text"),
    [(timedelta(days=14), "1209600s"), (1.5, "1.5s"), (timedelta(seconds=1, microseconds=1), "1.000001s"), (60, "60s")],
)
def test_the_text_of_an_interval_is_exact(interval, text):
    assert every(interval).text == text
    assert every(text).interval == every(interval).interval


@pytest.mark.parametrize(
    "rule",
    [
        cron("*/7 * * * *"),
        cron("30 2 * * *", tz="Europe/Paris"),
        cron("0 0 29 2 *"),
        every("90s"),
        every("1h", start=at("2026-01-01T00:10")),
    ],
)
def test_the_tick_before_a_moment_is_the_one_whose_next_comes_after(rule):
    ticks = list(islice(upcoming(rule, at("2026-01-01T00:00")), 20))
    assert [before(rule, tick) for tick in ticks[1:]] == ticks[:-1]
    assert [before(rule, tick + timedelta(microseconds=1)) for tick in ticks] == ticks


def test_before_its_first_tick_there_is_none():
    assert before(every("1h", start=at("2026-01-01T00:10")), at("2026-01-01T00:10")) is None
    assert before(every("1h", start=at("2026-01-01T00:10")), at("2025-01-01T00:10")) is None


def test_rules_that_read_alike_are_distinguished_by_their_zones():
    rules = [cron("@daily", tz="Europe/Paris"), cron("@daily"), cron("@hourly")]
    assert names("report", rules) == ["report @daily Europe/Paris", "report @daily UTC", "report @hourly"]
    with pytest.raises(InvalidSchedule, match="same rule twice"):
        names("report", [cron("@daily"), cron("@daily")])
