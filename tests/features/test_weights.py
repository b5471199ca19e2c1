"""How workers divide their claims between queues: by weight, and without starving any.

Queues are full at the first claim. A worker leases many short jobs at a time and begins those of one queue after those of
another, so shares are counted over whole claims: all leases of a claim have one token. ``PACKHORSE_TEST_LONG=1`` counts
ten times as many picks.
"""

import asyncio
import os
from collections import Counter
from collections.abc import Iterable
from contextlib import AsyncExitStack

import pytest

from packhorse import App
from packhorse.engine.attempt import current_attempt
from tests.features.factories import run, until

WEIGHTS = {"critical": 6, "default": 3, "low": 1}
SHARES = {"critical": 0.6, "default": 0.3, "low": 0.1}
SIZE = 10_000  # jobs in each queue
COUNTED = 10_000 if os.environ.get("PACKHORSE_TEST_LONG") else 1_000  # picks, before any queue is empty


class Picks:
    """The jobs that workers began, by claim: whose worker and which token. None ends before each app has begun one."""

    def __init__(self, *apps: App) -> None:
        self.claims: dict[tuple[App, bytes], Counter[str]] = {}
        self.count = 0
        self._missing = set(apps)
        self._all = asyncio.Event()
        for app in apps:
            self._watch(app)

    def _watch(self, app: App) -> None:
        @app.task(name="pick")
        async def pick(queue: str) -> None:
            self.claims.setdefault((app, current_attempt().lease.token), Counter())[queue] += 1
            self.count += 1
            self._missing.discard(app)
            if not self._missing:
                self._all.set()
            await self._all.wait()

    def first(self, count: int) -> dict[tuple[App, bytes], Counter[str]]:
        """The first picks, so many and up to the end of a claim; the last claim of each app may have begun in part."""
        last = {app: (app, token) for app, token in self.claims}
        first: dict[tuple[App, bytes], Counter[str]] = {}
        for claim, picked in self.claims.items():
            if claim not in last.values() and sum(map(Counter.total, first.values())) < count:
                first[claim] = picked
        return first


def stretches(claims: Iterable[Counter[str]], count: int) -> list[Counter[str]]:
    """Picks of one worker cut into stretches of so many or more, at the ends of claims; without the rest."""
    cut: list[Counter[str]] = [Counter()]
    for picked in claims:
        cut[-1] += picked
        if cut[-1].total() >= count:
            cut.append(Counter())
    return cut[:-1]


async def fill(app: App, **counts: int) -> None:
    for queue, count in counts.items():
        for first in range(0, count, 500):
            calls = [app.queue(queue).call("pick", {"queue": queue}) for _ in range(min(500, count - first))]
            await app.enqueue(*calls)


def shares(claims: Iterable[Counter[str]]) -> dict[str, float]:
    total = sum(claims, Counter())
    return {queue: total[queue] / total.total() for queue in WEIGHTS}


@pytest.mark.parametrize("workers", [1, 4])
async def test_s09_picks_of_full_queues_follow_the_weights_and_starve_none(make, workers):
    apps = [make() for _ in range(workers)]
    picks = Picks(*apps)
    await fill(apps[0], **dict.fromkeys(WEIGHTS, SIZE))

    async def enough() -> bool:
        return picks.count >= COUNTED + 1000 * workers

    async with AsyncExitStack() as stack:
        for app in apps:
            await stack.enter_async_context(app.worker(WEIGHTS))
        await until(enough, 300)
        first = picks.first(COUNTED)

    assert sum(map(Counter.total, first.values())) >= COUNTED
    assert {app for app, _ in first} == set(apps)
    assert shares(first.values()) == pytest.approx(SHARES, abs=0.05)
    for app in apps:
        own = [picked for (whose, _), picked in first.items() if whose is app]
        assert [seen for seen in stretches(own, 20) if seen.keys() != WEIGHTS.keys()] == []


@pytest.mark.parametrize("concurrency", [1, 10])
async def test_s09_weights_hold_for_one_slot_and_for_several(app, concurrency):
    picks = Picks(app)
    await fill(app, critical=450, default=250, low=100)
    await run(app, WEIGHTS, concurrency=concurrency)

    assert shares(picks.first(200).values()) == pytest.approx(SHARES, abs=0.05)
    assert picks.count == 800


async def test_s09_the_share_of_an_empty_queue_goes_to_the_others(app):
    picks = Picks(app)
    await fill(app, default=550, low=200)
    await run(app, WEIGHTS, concurrency=10)

    expected = {"critical": 0, "default": 0.75, "low": 0.25}
    assert shares(picks.first(200).values()) == pytest.approx(expected, abs=0.05)
