"""Schedules declared in code, from release to release."""

import sys

import pytest

from packhorse import App, every
from packhorse.schedules.release import rank
from packhorse.telemetry.names import EventName
from packhorse.testing import TurnedClock
from tests.features.factories import HOUR, MINUTE, everything
from tests.features.scheduling import begin, elsewhere, nothing


@pytest.fixture
def clock() -> TurnedClock:
    return begin()


async def test_a_lower_release_never_overwrites_what_a_higher_one_declared(make, clock):
    old, new = make(clock=clock, release="1.9"), make(clock=clock, release="1.10")
    old.schedule(every("1h"), name="s")(nothing(old))
    new.schedule(every("2h"), name="s")(nothing(new))

    for app in (old, new, old, new, old):  # a rolling deploy, restarting in turn
        await app.schedules.declare()

    schedule = await old.schedules.get("s")
    assert (schedule.rule, schedule.release) == (every("2h"), "1.10")


async def test_a_higher_release_disables_what_it_no_longer_declares_and_a_lower_one_does_not(make, clock):
    old, new = make(clock=clock, release="1"), make(clock=clock, release="2")
    old.schedule(every("1h"), name="gone")(nothing(old))
    for app in (old, new):
        app.schedule(every("1h"), name="kept")(nothing(app) if app is new else app.registry.task("nothing"))
    await old.schedules.declare()
    assert await new.schedules.declare() == ["kept", "gone"]
    assert await old.schedules.declare() == []

    assert (await new.schedules.get("gone")).disabled
    assert not (await new.schedules.get("kept")).disabled


async def test_without_a_release_nothing_is_disabled_until_sync_says_so(make, clock):
    old, new = make(clock=clock), make(clock=clock)
    old.schedule(every("1h"), name="gone")(nothing(old))
    new.schedule(every("1h"), name="kept")(nothing(new))
    await new.schedules.put("by-hand", every("1h"), elsewhere(new))
    await old.schedules.declare()
    assert await new.schedules.declare() == ["kept"]
    assert await new.schedules.next("gone", 1)

    assert await new.schedules.sync() == ["gone"]
    assert await new.schedules.next("gone", 1) == []
    assert await new.schedules.next("by-hand", 1)


async def test_declaring_again_changes_nothing_and_forgets_no_tick_that_is_due(make, clock):
    app = make(clock=clock)
    app.schedule(every("1h"), name="s", overlap="allow")(nothing(app))
    await app.schedules.declare()
    clock.turn(HOUR)
    assert await app.schedules.declare() == []
    changed = make(clock=clock)
    changed.schedule(every("1h"), name="s", overlap="allow", expect_within="5m")(nothing(changed))
    assert await changed.schedules.declare() == ["s"]

    assert await app.schedules.fire() == 1


def declaring(app: App, **intervals: str) -> App:
    """The app with schedules of these names."""
    task = nothing(app)
    for name, interval in intervals.items():
        app.schedule(every(interval), name=name, overlap="allow")(task)
    return app


async def test_sync_of_a_lower_release_disables_nothing_that_a_higher_one_declared(make, clock):
    old = declaring(make(clock=clock, release="1"), kept="1h")
    new = declaring(make(clock=clock, release="2"), kept="1h", new="1h")
    await new.schedules.declare()

    for app in (old, declaring(make(clock=clock), kept="1h")):
        assert await app.schedules.sync() == []
    schedule = await new.schedules.get("new")
    assert (schedule.disabled, schedule.release) == (False, "2")
    assert await declaring(make(clock=clock, release="2"), kept="1h").schedules.sync() == ["new"]
    assert await declaring(make(clock=clock, release="3"), kept="1h", new="1h").schedules.declare() == ["kept", "new"]


def declaring_in(app: App, **modules: str) -> App:
    """The app with schedules of these names, each of a function in its module."""
    for name, module in modules.items():

        async def run() -> None: ...

        run.__module__, run.__qualname__ = module, name
        app.schedule(every("1h"), name=name)(run)
    return app


async def test_a_higher_release_disables_the_last_schedule_of_a_module_and_of_the_app(make, clock):
    first = declaring_in(make(clock=clock, release="1"), nightly="shop.reports", stock="shop.stock")
    second = declaring_in(make(clock=clock, release="2"), stock="shop.stock")
    await first.schedules.declare()

    assert await second.schedules.declare() == ["stock", "nightly"]
    assert await make(clock=clock, release="3").schedules.declare() == ["stock"]
    assert {name: (await second.schedules.get(name)).disabled for name in ("nightly", "stock")} == {
        "nightly": True,
        "stock": True,
    }


async def test_sync_disables_the_last_schedule_of_a_module_and_of_the_app(make, clock):
    await declaring_in(make(clock=clock), nightly="shop.reports", stock="shop.stock").schedules.declare()

    assert await declaring_in(make(clock=clock), stock="shop.stock").schedules.sync() == ["nightly"]
    assert await make(clock=clock).schedules.sync() == ["stock"]


async def test_an_app_disables_nothing_of_another_app_in_the_same_store(make, clock, monkeypatch):
    mail = declaring(make(clock=clock, release="1"), letters="1h")
    shop = declaring(make(clock=clock, release="2"), stock="1h")
    for name, app in (("mail", mail), ("shop", shop)):
        monkeypatch.setattr(sys.modules[__name__], name, app, raising=False)
    await mail.schedules.declare()

    assert await shop.schedules.declare() == ["stock"]
    assert await shop.schedules.sync() == []
    assert (await shop.schedules.get("letters")).app == f"{__name__}:mail"


async def test_a_declaration_that_is_left_out_is_reported(make, clock):
    old = declaring(make(clock=clock, release="1"), same="1h", other="1h", gone="1h")
    new = declaring(make(clock=clock, release="2"), same="1h", other="2h")
    reported: list[str] = []
    old.telemetry.on(lambda name, fields: reported.append(fields["detail"]), EventName.DECLARATION_IGNORED)
    for app in (old, new, old):
        await app.schedules.declare()

    assert reported == ["other of 2 over 1", "gone of 2 over 1"]


def test_releases_have_an_order():
    rising = [
        None,
        "rc",
        "0.9",
        "v1.0.dev1",
        "1.0rc1",
        "1.0rc2",
        "v1.0",
        "1.0.1",
        "1.9",
        "1.10",
        "v2",
        "2026-01-31",
    ]
    assert sorted(rising, key=rank) == rising
    assert len({rank(release) for release in rising}) == len(rising)
    assert rank("V1.2") == rank("v1.2") == rank("1.2")


async def test_in_a_rolling_deploy_every_schedule_has_exactly_its_ticks(make, clock):
    old = declaring(make(clock=clock, release="1.9"), kept="60s", changed="60s", gone="60s")
    new = declaring(make(clock=clock, release="1.10"), kept="60s", changed="120s", new="60s")
    await old.schedules.declare()
    for minute in range(1, 21):
        clock.turn(MINUTE)
        restarting = [] if minute < 6 else [new, old] if minute % 2 == 0 else [old, new]
        for app in restarting:  # while ticks are due
            await app.schedules.declare()
        for app in (old, new):
            await app.schedules.fire()

    made: dict[str, list[int]] = {}
    for job in await everything(old, limit=1000):
        made.setdefault(job.headers["schedule"], []).append(int(job.headers["tick"][14:16]))
    assert {name: sorted(minutes) for name, minutes in made.items()} == {
        "kept": [*range(1, 21)],
        "changed": [1, 2, 3, 4, 5, *range(6, 21, 2)],
        "gone": [1, 2, 3, 4, 5],
        "new": [*range(7, 21)],
    }
