"""Each death has one letter, handled once, and groups of errors add up, while workers are killed.

``PACKHORSE_TEST_LONG=1`` is the full length; ``PACKHORSE_SEED`` repeats the kills of a run.
"""

import asyncio
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from packhorse import App
from packhorse.dead_letters.groups import GROUPS, ErrorGroup, group_of
from packhorse.model.ids import id_text
from packhorse.model.job import State
from packhorse.model.lease import ClaimRequest, Settlement, Share
from packhorse.model.outcome import Dead, Held
from packhorse.model.page import Filter
from packhorse.model.reason import DeadReason
from packhorse.stores.contract import Store
from packhorse.system_queue import SYSTEM_QUEUE
from tests.factories import BROKEN, WORKER, found, new, put_in
from tests.features.factories import Place, until

LONG = bool(os.environ.get("PACKHORSE_TEST_LONG"))
TIMES = 10 if LONG else 1
KILLS, FAILING, REPLAYS, FOREIGN, POISON = 5 * TIMES, 350 * TIMES, 100 * TIMES, 30 * TIMES, 20 * TIMES
DEATHS = FAILING + REPLAYS + FOREIGN + POISON
OPEN = (State.SCHEDULED, State.READY, State.RUNNING, State.WAITING)
LEASE = 1_000_000
SEED = int(os.environ.get("PACKHORSE_SEED", random.randrange(1 << 30)))


async def claim(store: Store, queue: str, count: int, lease: int) -> list:
    """Lease jobs of a queue that the workers do not serve."""
    request = ClaimRequest(WORKER, (Share(queue, min(count, 500)),), lease=lease)
    return list((await store.jobs.exchange((), request)).leases)


async def let_foreign_jobs_die(store: Store) -> None:
    """Jobs die in a worker in another language, which knows nothing of fingerprints."""
    await put_in(store, *[new("elsewhere", queue="foreign") for _ in range(FOREIGN)])
    while leases := await claim(store, "foreign", 25, 30_000_000):
        await store.jobs.exchange([Settlement(lease, Dead(DeadReason.FINAL, BROKEN)) for lease in leases])


async def let_jobs_be_poison(store: Store) -> None:
    """Jobs are lost with their worker when they had begun, before other workers are there."""
    await put_in(store, *[new("crashes", queue="poison") for _ in range(POISON)])
    while leases := await claim(store, "poison", 50, 1_000):
        await store.jobs.exchange([Settlement(lease, Held(1)) for lease in leases])
    while sum(each.total_ended[State.DEAD] for each in await store.queues.stats()) < POISON:
        await store.jobs.reap(500, max_lost=1)


async def replay_some(store: Store) -> None:
    """Jobs are replayed and die again, some of them before their letter was handled."""
    replayed, chance = 0, random.Random(SEED)
    while replayed < REPLAYS:
        await asyncio.sleep(0.1)
        page = await store.jobs.find(Filter(queue="letters", state=State.DEAD), limit=20, bodies=False)
        ids = [job.id for job in page.items if chance.random() < 0.5][: REPLAYS - replayed]
        replayed += sum(await store.jobs.replay(ids)) if ids else 0


async def error_groups(store: Store) -> list[ErrorGroup]:
    return [group_of(record) for record in (await store.records.find(GROUPS)).items]


async def handled(store: Store) -> Counter[str]:
    """How often each letter was handled: what handlers published together with their ends."""
    counts: Counter[str] = Counter()
    after = 0
    while events := await store.streams.read("handled", after=after, limit=1000):
        counts.update(event.data.decode() for event in events)
        after = events[-1].offset
    return counts


@asynccontextmanager
async def killed_workers(place: Place) -> AsyncIterator[None]:
    """Four workers, one of which is killed now and then."""
    killing = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.features.killing", "letters", str(LEASE), str(SEED), env=place.environment
    )
    try:
        yield
        assert killing.returncode is None
    finally:
        killing.send_signal(signal.SIGTERM)
        await killing.wait()


async def test_each_death_has_one_letter_and_groups_add_up_while_workers_are_killed(live: App, place: Place):
    store = await live.store()
    await let_jobs_be_poison(store)
    async with killed_workers(place):
        for start in range(0, FAILING, 50):
            calls = [live.queue("letters").call("fails", {"number": n}) for n in range(start, start + 50)]
            await live.enqueue(*calls)
        await asyncio.gather(let_foreign_jobs_die(store), replay_some(store))

        async def all_handled() -> bool:
            await asyncio.sleep(0.2)
            groups, counts = await error_groups(store), await store.jobs.count()
            letters = counts.get(SYSTEM_QUEUE, {})
            latest = sum(counts[queue][State.DEAD] for queue in ("letters", "foreign", "poison"))
            return (
                sum(group.deaths for group in groups) >= DEATHS
                and len(await handled(store)) >= latest
                and not any(letters.get(state) for state in OPEN)
                and len(place.lines("killed")) >= KILLS
            )

        await until(all_handled, 60 * TIMES)

    about = f"PACKHORSE_SEED={SEED}"
    stats = {each.name: each for each in await store.queues.stats()}
    assert sum(stats[queue].total_ended[State.DEAD] for queue in ("letters", "foreign", "poison")) == DEATHS, about
    deaths = Counter[tuple[str, str]]()
    for group in await error_groups(store):
        assert group.deaths >= sum(group.hourly)
        deaths[group.task, group.error_type] += group.deaths
    assert len(deaths) == len(await error_groups(store)) == 4, (about, deaths)
    assert deaths.total() == DEATHS, about
    assert (deaths["elsewhere", "Broken"], deaths["crashes", "poison"]) == (FOREIGN, POISON), about
    assert deaths["fails", "ConnectionError"] + deaths["fails", "ValueError"] == FAILING + REPLAYS, about

    dead = await found(store, 500, state=State.DEAD)
    letters, called = await handled(store), Counter(" ".join(words) for _, *words in place.lines("called"))
    wanted = {f"{id_text(job.id)} {job.since}" for job in dead if job.queue != SYSTEM_QUEUE}
    assert len(wanted) == DEATHS - REPLAYS
    assert wanted <= set(letters), about
    assert set(letters.values()) == {1}, about
    assert set(called) >= set(letters), about
    assert called.total() - len(called) <= 16 * len(place.lines("killed")), (
        about
    )  # those that ran when they were killed
    assert stats[SYSTEM_QUEUE].total_ended[State.DEAD] == 0, about
