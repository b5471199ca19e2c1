"""What goes wrong with schedules: runs that fail, come late or never; requests that are refused."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from packhorse import InvalidInput, Tick, constant, every
from packhorse.engine.caretaker import duties
from packhorse.errors import InvalidSchedule, JobFailed
from packhorse.model import limits
from packhorse.model.codec import Codec, JobIdentity
from packhorse.model.effect import Publish, Put
from packhorse.model.lease import Settlement
from packhorse.schedules import failure_events
from packhorse.schedules.duties import duties as schedule_duties
from packhorse.schedules.failure_events import failed
from packhorse.schedules.firing import EXPECTED
from packhorse.schedules.schedule import KIND
from packhorse.telemetry.names import EventName
from packhorse.testing import TurnedClock
from tests.factories import Held, take
from tests.features.factories import DAY, HOUR, MINUTE, SECOND, everything, run
from tests.features.scheduling import BEGIN, alarms, at, begin, elsewhere, nothing, pass_time, ticks


@pytest.fixture
def clock() -> TurnedClock:
    return begin()


@pytest.fixture
def seen() -> list[Tick]:
    return []


# -- what goes wrong


async def test_one_schedule_that_cannot_be_fired_stops_no_other(app, clock):
    await app.schedules.put("good", every("1h"), elsewhere(app), overlap="allow")
    store, reported = await app.store(), []
    app.telemetry.on(lambda name, fields: reported.append(fields["detail"]), EventName.DUTY_FAILED)
    await store.records.put([Put(KIND, "bad", b'{"rule": "nonsense"}', due=clock.now() + 1)])

    await pass_time(app, clock, 3 * HOUR, HOUR)

    assert await ticks(app) == ["03-01T01:00", "03-01T02:00", "03-01T03:00"]
    assert reported == ["fire bad"] * 3


class NoKey:
    """A seal whose key this process was not given."""

    mark, required = "k", True

    def close(self, data: bytes, about: JobIdentity) -> bytes:
        raise PermissionError("no key here")

    def open(self, data: bytes, about: JobIdentity) -> bytes:
        raise PermissionError("no key here")


@pytest.mark.parametrize("catch_up", ["skip", "latest", "all"])
async def test_what_one_process_cannot_fire_another_does(make, clock, catch_up):
    unfit, fit = make(clock=clock), make(clock=clock)
    unfit.client.builder._codec = Codec(NoKey())
    reported: list[str] = []
    unfit.telemetry.on(lambda name, fields: reported.append(fields["detail"]), EventName.DUTY_FAILED)
    await fit.schedules.put("s", every("1h"), elsewhere(fit), catch_up=catch_up, overlap="allow")
    clock.turn(HOUR)

    for _ in range(3):
        assert await unfit.schedules.fire() == 0
    assert reported == ["fire s"]
    assert await fit.schedules.fire() == 1

    clock.turn(HOUR)
    assert await unfit.schedules.fire() == 0
    assert await fit.schedules.fire() == 1
    assert await ticks(fit) == ["03-01T01:00", "03-01T02:00"]
    assert reported == ["fire s"] * 2


async def test_many_that_cannot_be_fired_stand_in_the_way_of_none(app, clock):
    store = await app.store()
    bad = [Put(KIND, f"bad{n}", b"{}", due=clock.now() + 1) for n in range(limits.ITEMS)]
    await store.records.put(bad)
    await app.schedules.put("good", every("1h"), elsewhere(app), overlap="allow")

    await pass_time(app, clock, 2 * HOUR, HOUR)

    assert await ticks(app) == ["03-01T01:00", "03-01T02:00"]


async def test_a_record_that_cannot_be_read_is_reported_and_hides_no_other(make, clock):
    app = make(clock=clock, release="2")
    await app.schedules.put("good", every("1h"), elsewhere(app), expect_within="5m")
    app.schedule(every("1h"), name="bad")(nothing(app))
    app.schedule(every("1h"), name="mine")(app.registry.task("nothing"))
    store, reported = await app.store(), []
    app.telemetry.on(lambda name, fields: reported.append(fields["detail"]), EventName.DUTY_FAILED)
    await store.records.put([Put(KIND, "bad", b'{"rule": "of a later release"}')])

    assert [schedule.name for schedule in (await app.schedules.find()).items] == ["good"]
    assert await app.schedules.declare() == ["mine"]
    assert set(reported) == {"read bad", "declare bad"}
    with pytest.raises(InvalidSchedule, match="cannot be read here"):
        await app.schedules.get("bad")
    assert await app.schedules.remove("bad")


async def test_an_expected_run_that_cannot_be_read_stops_no_other(app, clock):
    store, reported = await app.store(), []
    app.telemetry.on(lambda name, fields: reported.append(fields["detail"]), EventName.DUTY_FAILED)
    await store.records.put([Put(EXPECTED, "a/1", b"{}", due=clock.now() + HOUR)])
    await app.schedules.put("s", every("1h"), elsewhere(app), expect_within="5m")
    clock.turn(HOUR)
    await app.schedules.fire()
    clock.turn(5 * MINUTE)

    await app.schedules.watch()
    await app.schedules.watch()

    assert [event["event"] for event in await alarms(app)] == ["late"]
    assert reported == ["watch a/1"]


async def test_a_failed_run_is_tried_again_and_dies_like_any_job(app, clock):
    @app.schedule(every("1d"))
    @app.task(name="broken", attempts=2)
    async def broken() -> None:
        raise RuntimeError("no")

    await app.schedules.declare()
    clock.turn(DAY)
    await app.schedules.fire()
    for _ in range(3):
        await run(app)
        clock.turn(10 * SECOND)

    [job] = await everything(app)
    assert (job.state, job.attempt) == ("dead", 2)


async def test_a_run_is_stopped_at_the_timeout_of_its_task(live):
    @live.schedule(every("1d"), name="slow")
    @live.task(name="slow", timeout="100ms", attempts=1)
    async def slow() -> None:
        await asyncio.Event().wait()

    async with live.worker():
        with pytest.raises(JobFailed, match="TimeoutError"):
            await (await live.schedules.run("slow")).result(timeout=20)


async def test_s48_a_scheduled_run_that_fails_for_good_is_an_event_at_once(app, clock):
    @app.schedule(every("1h"), name="s")
    @app.task(name="broken", attempts=2, backoff=constant(1))
    async def broken() -> None:
        raise RuntimeError("no")

    await app.schedules.declare()
    clock.turn(HOUR)
    await app.schedules.fire()
    await broken.enqueue()
    await run(app)
    assert await alarms(app) == [], "it is tried again"
    clock.turn(2 * SECOND)
    await run(app)

    [job] = [job for job in await everything(app) if "schedule" in job.headers]
    tick = "2026-03-01T01:00:00+00:00"
    assert await alarms(app) == [{"event": "failed", "schedule": "s", "tick": tick, "job": job.id, "count": 1}]


async def test_s48_a_scheduled_run_that_was_lost_too_often_is_an_event(app, clock):
    store = await app.store()
    [reap, *_] = duties(store, list, lease=30 * SECOND, max_lost=1, telemetry=app.telemetry, on_dead=failed)
    await app.schedules.put("s", every("1h"), elsewhere(app))
    clock.turn(HOUR)
    await app.schedules.fire()
    await app.enqueue(elsewhere(app))
    leases = await take(store)
    assert len(leases) == 2
    await store.jobs.exchange([Settlement(lease, Held(1)) for lease in leases])
    clock.turn(HOUR)

    await reap.run()
    await reap.run()

    assert [(event["event"], event["schedule"]) for event in await alarms(app)] == [("failed", "s")]


async def test_s48_a_run_that_does_not_end_in_time_is_reported_once(app, clock):
    reported: list[tuple[EventName, str]] = []
    app.telemetry.on(
        lambda name, fields: reported.append((name, fields["detail"])), EventName.RUN_LATE, EventName.RUN_MISSED
    )
    app.schedule(every("1h"), name="late", expect_within="5m")(nothing(app))
    await app.schedules.declare()
    clock.turn(HOUR)
    await app.schedules.fire()
    await app.schedules.watch()
    assert reported == []

    clock.turn(5 * MINUTE)
    await app.schedules.watch()
    await app.schedules.watch()

    assert reported == [(EventName.RUN_LATE, "late 2026-03-01T01:00:00+00:00")]
    [event] = await alarms(app)
    assert event["event"] == "late"


async def test_s48_a_run_that_failed_or_was_never_made_is_missed_and_one_that_ended_well_is_not(app, clock):
    reported: list[str] = []
    app.telemetry.on(
        lambda name, fields: reported.append(f"{name.value} {fields['detail'][:4]}"),
        EventName.RUN_MISSED,
        EventName.RUN_LATE,
    )

    @app.schedule(every("1h"), name="good", expect_within="5m")
    @app.task(name="good")
    async def good() -> None: ...

    @app.schedule(every("1h"), name="dead", expect_within="5m")
    @app.task(name="dead", attempts=1)
    async def dead() -> None:
        raise RuntimeError("no")

    await app.schedules.declare()
    clock.turn(HOUR)
    await app.schedules.fire()
    await run(app)
    clock.turn(10 * MINUTE)
    await app.schedules.watch()

    assert reported == ["run_missed dead"]
    assert [(event["event"], event["schedule"]) for event in await alarms(app)] == [
        ("failed", "dead"),
        ("missed", "dead"),
    ]


@pytest.mark.parametrize(
    ("policies", "why"),
    [
        ({"catch_up": "none"}, "skip, latest, all"),
        ({"overlap": "never"}, "skip, queue, allow"),
        ({"gap": "later"}, "shift, skip"),
        ({"fold": "last"}, "first, both"),
        ({"start": datetime(2026, 1, 1)}, "time zone"),
        ({"start": "2026-01-01"}, "time zone"),
        ({"end": "2026-01-01"}, "time zone"),
        ({"start": datetime(2200, 1, 1, tzinfo=UTC)}, "end with 2100-01-01"),
        ({"start": BEGIN, "end": BEGIN - timedelta(1)}, "before the start"),
        ({"jitter": "soon"}, "duration"),
    ],
)
async def test_a_policy_that_does_not_exist_is_refused_when_declared(memory, policies, why):
    with pytest.raises(InvalidInput, match=why):
        memory.schedule(every("1h"), name="s", **policies)(nothing(memory))


async def test_what_cannot_be_scheduled_is_refused_when_declared(memory):
    task = nothing(memory)
    with pytest.raises(InvalidSchedule, match="no rule"):
        memory.schedule()(task)
    with pytest.raises(InvalidSchedule, match="same rule twice"):
        memory.schedule(every("1h"), every("1h"))(task)
    with pytest.raises(InvalidSchedule, match="cron"):
        memory.schedule("0 * * * *")(task)
    memory.schedule(every("1h"))(task)
    with pytest.raises(InvalidSchedule, match="another schedule has this name"):
        memory.schedule(every("2h"))(task)
    with pytest.raises(InvalidSchedule, match="more than the tick"):

        @memory.schedule(every("1h"))
        async def greedy(tick: Tick, other: int) -> None: ...

    with pytest.raises(InvalidSchedule, match="sets id, unique"):
        await memory.schedules.put("s", every("1h"), task.using(delay="1h").call())
    with pytest.raises(InvalidSchedule, match="cannot be combined"):
        await memory.schedules.put("s", every("1h"), task.using(key="k").call(), overlap="queue")


async def test_a_worker_starts_whatever_is_stored_and_the_other_schedules_are_declared(live):
    task = nothing(live)
    live.schedule(every("1h"), name="good")(task)
    live.schedule(every("1h"), name="bad")(task)
    await (await live.store()).records.put([Put(KIND, "bad", b"not a schedule")])

    async with live.worker():
        assert [schedule.name for schedule in (await live.schedules.find()).items] == ["good"]


async def test_a_rule_that_fires_once_before_the_end_of_time_does(app, clock):
    start = at("03-01T00:00:01")
    await app.schedules.put("century", every("3900w", start=start), elsewhere(app))
    assert await app.schedules.next("century", 5) == [start]
    clock.turn(2 * SECOND)

    assert await app.schedules.fire() == 1
    assert await app.schedules.next("century", 5) == []


@pytest.mark.parametrize(("written", "kept"), [(2, [1, 2]), (12, [8, 9, 10, 11, 12]), (2507, list(range(2503, 2508)))])
async def test_a_duty_of_the_worker_keeps_the_newest_events(app, monkeypatch, written, kept):
    assert failure_events.MAX_EVENTS == 10_000
    monkeypatch.setattr(failure_events, "MAX_EVENTS", 5)
    store = await app.store()
    for first in range(0, written, 500):
        await store.streams.publish([Publish("packhorse.schedules", b"{}")] * min(500, written - first))
    [trim] = [duty for duty in schedule_duties(app.client, store, app.telemetry) if duty.name == "trim failure events"]

    rounds = 1
    while await trim.run():
        rounds += 1

    assert rounds == written // 1000 + 1
    assert [event.offset for event in await store.streams.read("packhorse.schedules", limit=1000)] == kept
