"""What goes wrong with schedules: runs that fail, come late or never; wishes that are refused."""

import json
from datetime import datetime, timedelta

import pytest

from packhorse import InvalidInput, Tick, every
from packhorse.errors import InvalidSchedule
from packhorse.model.effect import Put
from packhorse.schedules.schedule import KIND
from packhorse.telemetry.names import Name
from packhorse.testing.clock import TurnedClock
from tests.features.making import DAY, HOUR, MINUTE, SECOND, everything, run
from tests.features.scheduling import BEGIN, begin, elsewhere, nothing, pass_time, ticks


@pytest.fixture
def clock() -> TurnedClock:
    return begin()


@pytest.fixture
def seen() -> list[Tick]:
    return []


# -- what goes wrong


async def test_one_schedule_that_cannot_be_fired_stops_no_other(app, clock):
    await app.schedules.put("good", every("1h"), elsewhere(app), overlap="allow")
    store, told = await app.store(), []
    app.telemetry.on(lambda name, fields: told.append(fields["detail"]), Name.DUTY_FAILED)
    await store.records.put([Put(KIND, "bad", b'{"rule": "nonsense"}', due=clock.now() + 1)])

    await pass_time(app, clock, 3 * HOUR, HOUR)

    assert await ticks(app) == ["03-01T01:00", "03-01T02:00", "03-01T03:00"]
    assert told == ["fire bad"] * 3


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
    assert (job.status, job.attempt) == ("dead", 2)


async def test_s48_a_run_that_does_not_end_in_time_is_told_once(app, clock):
    told: list[tuple[Name, str]] = []
    app.telemetry.on(lambda name, fields: told.append((name, fields["detail"])), Name.RUN_LATE, Name.RUN_MISSED)
    app.schedule(every("1h"), name="late", expect_within="5m")(nothing(app))
    await app.schedules.declare()
    clock.turn(HOUR)
    await app.schedules.fire()
    await app.schedules.watch()
    assert told == []

    clock.turn(5 * MINUTE)
    await app.schedules.watch()
    await app.schedules.watch()

    assert told == [(Name.RUN_LATE, "late 2026-03-01T01:00:00+00:00")]
    [event] = await (await app.store()).streams.read("packhorse.schedules")
    assert json.loads(event.data)["event"] == "late"


async def test_s48_a_run_that_failed_or_was_never_made_is_missed_and_one_that_ended_well_is_not(app, clock):
    told: list[str] = []
    app.telemetry.on(
        lambda name, fields: told.append(f"{name.value} {fields['detail'][:4]}"), Name.RUN_MISSED, Name.RUN_LATE
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

    assert told == ["run_missed dead"]


@pytest.mark.parametrize(
    ("policies", "why"),
    [
        ({"catch_up": "none"}, "skip, latest, all"),
        ({"overlap": "never"}, "skip, queue, allow"),
        ({"gap": "later"}, "shift, skip"),
        ({"fold": "last"}, "first, both"),
        ({"start": datetime(2026, 1, 1)}, "time zone"),
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
    with pytest.raises(InvalidSchedule, match="another of this name"):
        memory.schedule(every("2h"))(task)
    with pytest.raises(InvalidSchedule, match="more than the tick"):

        @memory.schedule(every("1h"))
        async def greedy(tick: Tick, other: int) -> None: ...

    with pytest.raises(InvalidSchedule, match="own business"):
        await memory.schedules.put("s", every("1h"), task.using(delay="1h").call())
    with pytest.raises(InvalidSchedule, match="exclude each other"):
        await memory.schedules.put("s", every("1h"), task.using(key="k").call(), overlap="queue")
