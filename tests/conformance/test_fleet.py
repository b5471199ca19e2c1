"""The workers that live."""

import msgspec

from packhorse.model.worker import WorkerInfo
from tests.factories import HOUR, MINUTE, OTHER, SECOND, WORKER


def worker(name: str = "ox", worker_id: bytes = WORKER, **options) -> WorkerInfo:
    """An incarnation of a worker."""
    return WorkerInfo(id=worker_id, name=name, **options)


async def fleet(store) -> list[WorkerInfo]:
    """The workers that live, whenever they were seen."""
    return [msgspec.structs.replace(worker, seen=0) for worker in await store.fleet.workers()]


async def test_say_that_a_worker_lives_for_so_long_no_time_at_all_says_goodbye(store, clock):
    ox, ass = worker("ox"), worker("ass", OTHER)
    await store.fleet.beat(ox, MINUTE)
    await store.fleet.beat(ass, HOUR)
    clock.turn(MINUTE - 1)
    assert await fleet(store) == [ass, ox]
    clock.turn(2)
    assert await fleet(store) == [ass]

    await store.fleet.beat(ass, 0)

    assert await fleet(store) == []


async def test_answer_the_workers_whose_last_beat_is_not_over_by_name(store, clock):
    names = ["mule", "ass", "Ox", "zebra", "ox 2", "ox 10"]
    for number, name in enumerate(names):
        await store.fleet.beat(worker(name, bytes([number]) * 16), MINUTE)
    clock.turn(SECOND)
    await store.fleet.beat(worker("zebra", b"\3" * 16), HOUR)

    assert [worker.name for worker in await fleet(store)] == sorted(names)

    clock.turn(MINUTE)
    assert [worker.name for worker in await fleet(store)] == ["zebra"]


async def test_a_worker_is_known_as_of_its_last_beat(store):
    first = worker("ox", release="1.0", queues=("a", "b"), tasks=("x",), started=5)
    later = worker("ox", release="2.0", queues=("b",), tasks=("x", "y"), started=5)
    await store.fleet.beat(first, MINUTE)
    assert await fleet(store) == [first]

    await store.fleet.beat(later, MINUTE)

    assert await fleet(store) == [later]


async def test_a_beat_puts_off_the_end(store, clock):
    await store.fleet.beat(worker(), MINUTE)
    clock.turn(MINUTE - 1)
    await store.fleet.beat(worker(), MINUTE)
    clock.turn(MINUTE - 1)

    assert await fleet(store) == [worker()]


async def test_a_later_beat_may_be_shorter(store, clock):
    await store.fleet.beat(worker(), HOUR)
    await store.fleet.beat(worker(), SECOND)
    clock.turn(MINUTE)

    assert await fleet(store) == []


async def test_incarnations_of_one_name_are_apart(store):
    await store.fleet.beat(worker("ox", WORKER), MINUTE)
    await store.fleet.beat(worker("ox", OTHER), MINUTE)

    assert sorted(worker.id for worker in await fleet(store)) == [WORKER, OTHER]


async def test_a_goodbye_of_an_unknown_worker_is_harmless(store):
    await store.fleet.beat(worker(), 0)

    assert await fleet(store) == []


async def test_a_worker_is_seen_at_its_beat(store, clock):
    clock.turn(SECOND)
    await store.fleet.beat(worker(seen=1), HOUR)
    clock.turn(MINUTE)

    [seen] = await store.fleet.workers()

    assert seen.seen == clock.now() - MINUTE


async def test_the_fleet_is_one_for_all(store, second):
    await second.fleet.beat(worker(), MINUTE)

    assert await fleet(store) == [worker()]
