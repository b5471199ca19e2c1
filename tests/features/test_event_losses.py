"""Losses as events for other processes: the job, and the worker that had it."""

from packhorse import App
from packhorse.engine.losses import WorkerNames, publish_losses
from packhorse.model.event import LOSSES
from packhorse.model.ids import new_id
from packhorse.model.job import State
from packhorse.model.lease import Lost
from packhorse.model.worker import WorkerInfo
from tests.factories import HOUR, OTHER, SECOND, WORKER, lapse, new, put_in, take
from tests.features.factories import so_far


async def test_a_loss_by_a_worker_whose_name_is_not_known_has_its_id(app: App, clock):
    store = await app.store()
    await put_in(store, new())
    await take(store)
    clock.turn(HOUR)
    [lost] = await lapse(store, clock)
    await publish_losses(store, [lost], {})

    [event] = await so_far(app, "lost")
    assert event.worker == WORKER.hex()


async def test_losses_that_nothing_was_published_about_come_without_worker(app: App, clock):
    store = await app.store()
    await put_in(store, new())
    for _ in range(2):
        await take(store)
        await lapse(store, clock)
        clock.turn(HOUR)

    assert [(event.name, event.worker) for event in await so_far(app, "lost")] == [("lost", None)] * 2


async def test_the_stream_of_losses_keeps_its_newest(memory: App):
    store = await memory.store()
    lost = [Lost(new_id(), WORKER, 1, 1, State.READY) for _ in range(500)]
    for _ in range(21):
        await publish_losses(store, lost, {WORKER: "ox"})

    bounds = await store.streams.bounds(LOSSES)
    assert (bounds.last, bounds.last - bounds.first + 1) == (10_500, 10_000)


async def test_names_of_workers_are_remembered_beyond_their_beats(app: App, clock):
    store = await app.store()
    names = WorkerNames(store)
    await store.fleet.beat(WorkerInfo(id=WORKER, name="ox"), SECOND)
    await names.refresh()
    clock.turn(HOUR)

    assert await names.of([WORKER, OTHER]) == {WORKER: "ox"}
