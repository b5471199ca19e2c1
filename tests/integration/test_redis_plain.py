"""The short ways for plain jobs on Redis: they leave behind and answer what the long ones do, or step aside."""

from collections.abc import Sequence
from importlib.resources import files

import pytest

from packhorse.model.job import NewJob, Retention, UniqueKey
from packhorse.model.lease import ClaimRequest, Exchange, Lease, Settlement, Share
from packhorse.model.outcome import Again, Cancelled, Done, Outcome
from packhorse.stores.redis.packing import job_row
from packhorse.stores.redis.scripts import Scripts
from packhorse.stores.redis.store import RedisStore
from packhorse.testing import TurnedClock
from tests.conftest import address, wipe
from tests.factories import HOUR, MINUTE, WORKER, new, put_in, take
from tests.integration.keyspaces import KINDS, NONE, everything_stored, opened

if not KINDS:
    pytest.skip(NONE, allow_module_level=True)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def whole() -> Scripts:
    """The exchange without its short way."""
    scripts = Scripts()
    scripts._fast_paths = {}
    text = (files("packhorse.stores.redis") / "lua" / "exchange.lua").read_text(encoding="utf-8")
    scripts._scripts["exchange"] = scripts._script("exchange", text)
    return scripts


JOBS = (
    *(new(payload=b"%d" % n, priority=10 - n // 4) for n in range(9)),
    new(queue="other"),
    new(delay=MINUTE),
    new("cook", lane="a", priority=20),
    new("cook", unique=UniqueKey("u"), priority=21),
    new("cook", tenant="t", priority=22),
)
PLAIN, KEPT, AGAIN = Done(), Done(b'"r"', Retention(2, HOUR)), Again(0)
# What each exchange settles of the leases held, oldest first, and for how many it asks of which queue.
ROUNDS: tuple[tuple[tuple[Outcome, ...], tuple[Share, ...]], ...] = (
    ((), (Share("default", 3),)),
    ((PLAIN, KEPT), (Share("default", 2),)),
    ((KEPT,), ()),
    ((), (Share("nothing", 5),)),
    ((PLAIN, AGAIN), (Share("default", 4),)),
    ((PLAIN,) * 4, (Share("default", 1), Share("other", 1))),
    ((KEPT,) * 2, (Share("default", 10),)),
    ((PLAIN, Cancelled(), KEPT), (Share("default", 10),)),
    ((PLAIN,) * 2, (Share("shut", 3),)),
)


async def lived(store: RedisStore, clock: TurnedClock, jobs: Sequence[NewJob]) -> list[Exchange]:
    """The same life for the same jobs, exchange by exchange."""
    await put_in(store, *jobs)
    await store.queues.pause(["shut"])
    held: list[Lease] = []
    answers = []
    for number, (outcomes, shares) in enumerate(ROUNDS):
        settled = [Settlement(lease, outcome) for lease, outcome in zip(held, outcomes, strict=False)]
        ask = ClaimRequest(WORKER, shares, MINUTE, b"%016d" % number) if shares else None
        answers += [await store.jobs.exchange(settled, ask), await store.jobs.exchange(settled, ask)]
        held = [*held[len(settled) :], *answers[-2].leases]
        clock.turn(1)
    return answers


async def test_exchanges_leave_behind_and_answer_the_same_by_the_short_way_and_the_long_one(kind, tmp_path):
    url, lives, stored = address(kind, tmp_path), [], []
    for scripts in (None, whole()):
        await wipe(kind, url, "")
        clock = TurnedClock()
        async with opened(url, clock=clock, scripts=scripts) as store:
            lives.append(await lived(store, clock, JOBS))
        stored.append(await everything_stored(url))

    assert lives[0] == lives[1]
    assert stored[0] == stored[1]
    assert sum(len(answer.leases) for answer in lives[0]) > 20


async def test_plain_jobs_are_stored_alike_by_the_short_way_and_the_long_one(kind, url, clock):
    jobs = [new(payload=b"%d" % n, tenant="t" * (n % 2) or None) for n in range(5)]
    async with opened(url, namespace="a", clock=clock) as short, opened(url, namespace="b", clock=clock) as long:
        made = [await short.jobs.enqueue(given) for given in (jobs[:3], jobs[1:])]
        taken = [
            await long._keyspace.run("enqueue", new_jobs=[cell for job in given for cell in job_row(job)])
            for given in (jobs[:3], jobs[1:])
        ]
    assert [[receipt.created for receipt in receipts] for receipts in made] == [[True] * 3, [False, False, True, True]]
    assert taken == [[], [1, jobs[1].id, 2, jobs[2].id]]

    stored = await everything_stored(url)
    ways = [
        {key[14:]: stored[key] for key in stored if key.startswith(b"{packhorse:%s}" % name)} for name in (b"a", b"b")
    ]
    assert ways[0] == ways[1]
    assert b"jobs" in b"".join(ways[0])


async def test_scheduled_jobs_whose_moment_has_come_go_before_plain_ones(kind, url, clock):
    async with opened(url, clock=clock) as store:
        [late] = await put_in(store, new(delay=MINUTE))
        clock.turn(2 * MINUTE)
        [plain] = await put_in(store, new())

        assert [lease.id for lease in await take(store, 5)] == [late, plain]


async def test_an_id_that_comes_twice_in_a_call_is_stored_once(kind, url, clock):
    async with opened(url, clock=clock) as store:
        twice = new()
        receipts = await store.jobs.enqueue([twice, new(), twice])

        assert [receipt.created for receipt in receipts] == [True, True, False]
        assert len(await take(store, 5)) == 2
