"""What calls cost in a store that holds millions of jobs, beside the same calls in an empty one.

Both stores are on one server and each call is made in turn on either, so whatever else the machine does falls on both. The
ratio is that of the medians; its spread is that of the quarters of the run. Claims, enqueues and ends use the queue that the
millions are in.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from statistics import median

from benchmarks import places
from packhorse.model.ids import new_id
from packhorse.model.job import NewJob, Retention, State
from packhorse.model.lease import ClaimRequest, Lease, Settlement, Share
from packhorse.model.outcome import Done
from packhorse.model.page import Filter
from packhorse.stores import open_store
from packhorse.stores.contract import Store

SMALL, FULL = (1_000_000, 100_000), (10_000_000, 1_000_000)  # finished and scheduled
GOAL = 1.5
GOALS = ("enqueue 1", "enqueue 50", "claim 50")
HOUR = 3600 * 1_000_000
FOREVER = Retention(1_000_000_000, 365 * 24 * HOUR)
AT_ONCE = Retention(0, HOUR)
BATCH = 50
PAYLOAD, HEADERS = b'{"n":1}', b'{"correlation":"0123456789abcdef"}'
WORKER = new_id()


@dataclass
class Costs:
    """Seconds of each kind of call."""

    of: dict[str, list[float]] = field(default_factory=dict)

    async def take(self, name: str, call: Awaitable[object]) -> object:
        """Await a call and note how long it took."""
        begun = time.perf_counter()
        answer = await call
        self.of.setdefault(name, []).append(time.perf_counter() - begun)
        return answer


def jobs(count: int, **options: object) -> list[NewJob]:
    """Jobs to enqueue."""
    return [NewJob(task="app.tasks.noop", payload=PAYLOAD, headers=HEADERS, **options) for _ in range(count)]  # type: ignore[arg-type]


def ask(count: int, queue: str = "default") -> ClaimRequest:
    """An ask for so many."""
    return ClaimRequest(WORKER, (Share(queue, count),))


async def fill(store: Store, finished: int, scheduled: int, say: Callable[[str], None]) -> None:
    """Run so many jobs to their end, and schedule so many."""
    begun, most = time.monotonic(), 500
    for start in range(0, scheduled, most):
        await store.jobs.enqueue(jobs(min(most, scheduled - start), delay=24 * HOUR + start))
    ended: tuple[Lease, ...] = ()
    for start in range(0, finished, most):
        _, exchange = await asyncio.gather(
            store.jobs.enqueue(jobs(min(most, finished - start))),
            store.jobs.exchange([Settlement(lease, Done(b"1", FOREVER)) for lease in ended], ask(most)),
        )
        ended = exchange.leases
        if start % 100_000 == 0:
            await store.maintain()
            say(f"  {start:,} finished after {time.monotonic() - begun:.0f} s")
    while ended:
        settlements = [Settlement(lease, Done(b"1", FOREVER)) for lease in ended]
        ended = (await store.jobs.exchange(settlements, ask(most))).leases
    await store.maintain()
    say(f"  filled in {time.monotonic() - begun:.0f} s")


async def round_of_calls(store: Store, costs: Costs) -> None:
    """One call of each kind."""
    take = costs.take
    await take("enqueue 1", store.jobs.enqueue(jobs(1)))
    await take("enqueue 50", store.jobs.enqueue(jobs(BATCH - 1)))
    claimed = await take("claim 50", store.jobs.exchange((), ask(BATCH)))
    leases = claimed.leases  # type: ignore[attr-defined]
    assert len(leases) == BATCH
    await take("renew 50", store.jobs.renew(leases, HOUR))
    await take("settle 50", store.jobs.exchange([Settlement(lease, Done(b"1", FOREVER)) for lease in leases]))
    await take("idle ask", store.jobs.exchange((), ask(BATCH)))
    await take("reap", store.jobs.reap(500))
    await take("prune nothing", store.jobs.prune(500))
    await _old(store)
    pruned = await take(f"prune {BATCH}", store.jobs.prune(500))
    assert pruned.jobs == BATCH, pruned  # type: ignore[attr-defined]
    await take("get 50", store.jobs.get([lease.id for lease in leases]))
    page = await take("find done", store.jobs.find(Filter(state=State.DONE), limit=50))
    await take("find next", store.jobs.find(Filter(state=State.DONE), limit=50, cursor=page.cursor))  # type: ignore[attr-defined]
    await take("find none", store.jobs.find(Filter(state=State.DONE, task="nothing.like.it"), limit=50))
    await take("find due", store.jobs.find(Filter(state=State.SCHEDULED), limit=50))
    await take("find other", store.jobs.find(Filter(state=State.SCHEDULED, queue="other"), limit=50))
    await take("find any", store.jobs.find(Filter(), limit=50))
    await take("count", store.jobs.count())
    await take("stats", store.queues.stats())


async def _old(store: Store) -> None:
    """Ended jobs that are not to be kept, in the queue of all."""
    await store.jobs.enqueue(jobs(BATCH))
    leases = (await store.jobs.exchange((), ask(BATCH))).leases
    await store.jobs.exchange([Settlement(lease, Done(b"1", AT_ONCE)) for lease in leases])


@asynccontextmanager
async def twins(store: str, url: str) -> AsyncIterator[tuple[Store, Store]]:
    """An empty store and one to be filled, in one place."""
    other = url.replace("bench.db", "empty.db") if store == "sqlite" else url
    both = open_store(other, namespace="empty"), open_store(url, namespace="filled")
    for each in both:
        await each.migrate()
        await each.open()
    try:
        yield both
    finally:
        for each in both:
            await each.close()


async def measure(
    store: str, url: str, size: tuple[int, int], rounds: int, say: Callable[[str], None]
) -> dict[str, str]:
    """Fill, make the calls in turn, and answer a line for each kind."""
    async with twins(store, url) as (empty, filled):
        await fill(filled, *size, say)
        await fill(empty, 1000, 1000, lambda _: None)  # what find looks at, at most
        for each in (empty, filled):
            await each.jobs.enqueue(jobs(100, delay=48 * HOUR, queue="other"))
        costs = Costs(), Costs()
        for number in range(rounds + 3):
            if number == 3:  # warm
                costs = Costs(), Costs()
            both = [(empty, costs[0]), (filled, costs[1])]
            for each, spent in (
                both if number % 2 else reversed(both)
            ):  # whoever is second finds a machine that is awake
                await round_of_calls(each, spent)
    return {name: line(name, before, costs[1].of[name]) for name, before in costs[0].of.items()}


def line(name: str, before: list[float], after: list[float]) -> str:
    """How a call fares, with the least and the greatest ratio of a quarter of the run."""
    quarter = max(1, len(before) // 4)
    parts = [
        median(after[n : n + quarter]) / median(before[n : n + quarter])
        for n in range(0, len(before) - quarter + 1, quarter)
    ]
    ratio = median(after) / median(before)
    goal = "" if name not in GOALS else f"goal {GOAL}: {'met' if ratio <= GOAL else 'missed'}"
    return (
        f"{name:14} {median(before) * 1e3:9.2f} ms {median(after) * 1e3:9.2f} ms   {ratio:5.2f}x "
        f"({min(parts):.2f}-{max(parts):.2f})  {goal}"
    )


def main() -> int:
    """Measure each store and print a table; 1 if a goal was missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.size", description=__doc__)
    parser.add_argument("--small", action="store_true", help="a tenth of it: 1 million finished, 100,000 scheduled")
    parser.add_argument("--finished", type=int, help="so many finished jobs")
    parser.add_argument("--scheduled", type=int, help="so many scheduled jobs")
    parser.add_argument(
        "--stores", nargs="+", choices=("sqlite", "redis", "postgres"), default=["sqlite", "redis", "postgres"]
    )
    parser.add_argument("--rounds", type=int, default=60)
    options = parser.parse_args()
    finished, scheduled = SMALL if options.small else FULL
    size = options.finished or finished, options.scheduled or scheduled
    missed = False
    for store in options.stores:
        with places.opened(store) as place:
            print(
                f"{place.what}\n{size[0]:,} finished and {size[1]:,} scheduled jobs, {options.rounds} rounds",
                flush=True,
            )
            lines = asyncio.run(
                measure(
                    store, place.empty(), size, options.rounds, lambda text: print(text, file=sys.stderr, flush=True)
                )
            )
            print(f"{'':14} {'empty':>12} {'filled':>12}", *lines.values(), "", sep="\n", flush=True)
            missed = missed or any("missed" in text for text in lines.values())
    return missed


if __name__ == "__main__":
    sys.exit(main())
