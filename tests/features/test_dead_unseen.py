"""Dead jobs that are pruned unseen are reported; a handler or a person who looks is enough."""

import logging

import pytest

from packhorse.engine.caretaker import duties
from packhorse.model.effect import Put
from packhorse.model.job import Retention
from packhorse.model.outcome import Dead
from packhorse.model.reason import DeadReason
from packhorse.model.record import SEEN
from packhorse.telemetry.names import EventName
from packhorse.testing import run_until_idle
from tests.engine.factories import EventRecorder
from tests.factories import BROKEN, DAY, SECOND, end, new, put_in, take


async def die(store, count: int, queue: str) -> None:
    await put_in(store, *[new(queue=queue) for _ in range(count)])
    for lease in await take(store, count, queue):
        await end(store, lease, Dead(DeadReason.FINAL, BROKEN, Retention(1000, DAY)))


async def prune(app) -> list[tuple[str, int]]:
    """Prune once and answer what was reported, by queue."""
    recorder = EventRecorder(app.telemetry)
    common = duties(await app.store(), lambda: None, lease=30 * SECOND, max_lost=3, telemetry=app.telemetry)
    [duty] = [duty for duty in common if duty.name == "prune"]
    while await duty.run():
        pass
    return sorted((fields["detail"], fields["count"]) for fields in recorder.of(EventName.DEAD_UNSEEN))


async def test_dead_jobs_that_are_pruned_and_were_never_looked_at_are_reported_by_queue(app, clock, caplog):
    store = await app.store()
    await die(store, 3, "a")
    await die(store, 2, "b")
    await die(store, 2, "packhorse.system")
    clock.turn(2 * DAY)
    with caplog.at_level(logging.WARNING, "packhorse"):
        assert await prune(app) == [("a", 3), ("b", 2)]
    assert await prune(app) == []
    assert "dead jobs were pruned that were never looked at (count 3): a" in caplog.messages


@pytest.mark.parametrize(("seen", "expected"), [(0, []), (-1, [("a", 1)])])
async def test_dead_jobs_that_died_before_the_last_look_are_not_reported(app, clock, seen, expected):
    store = await app.store()
    await die(store, 1, "a")
    await store.records.put([Put(SEEN, "a", str(clock.now() + seen).encode())])
    clock.turn(2 * DAY)
    assert await prune(app) == expected


async def test_a_handler_that_gets_the_letters_has_looked_at_them(app, clock):
    letters = []
    app.dead_letters()(letters.append)
    await die(await app.store(), 3, "a")
    await run_until_idle(app)
    assert len(letters) == 3
    clock.turn(2 * DAY)
    assert await prune(app) == []


async def test_one_mark_stands_for_all_letters_that_died_before_it(memory, clock):
    store, letters = await memory.store(), []
    memory.dead_letters()(letters.append)
    await die(store, 20, "a")
    clock.turn(SECOND)
    await run_until_idle(memory)
    [record] = await store.records.get(SEEN, ["a"])
    clock.turn(SECOND)
    await die(store, 1, "a")
    await run_until_idle(memory)
    [later] = await store.records.get(SEEN, ["a"])

    assert len(letters) == 21
    assert int(record.value) < int(later.value)
