"""The claim that an idle worker parks at a store: a job begins a round trip sooner, and none is ever forgotten.

A store without parked claims must keep the same promises.
"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from packhorse.engine.parked_claim import ParkedClaim, again
from packhorse.model.job import State
from packhorse.model.lease import ClaimRequest
from packhorse.stores import open_store
from packhorse.stores.contract import Store
from packhorse.testing.faults import DropRequest
from tests.engine.factories import MINUTE, SECOND, Crossing, EventName, Gate, Once, Tasks, Worker, at_once, job, worker
from tests.factories import one, put_in, state
from tests.integration.keyspaces import KINDS
from tests.proxy import Proxy

SOON = 3  # seconds; a lease that nobody knows of would be taken back after thirty


@pytest.fixture
def claims(monkeypatch: pytest.MonkeyPatch) -> list[ClaimRequest]:
    """The claims that workers park."""
    parked: list[ClaimRequest] = []
    park = ParkedClaim.park

    def watched(self: ParkedClaim, claim: ClaimRequest, now: int) -> None:
        park(self, claim, now)
        if self.claim is claim:
            parked.append(claim)

    monkeypatch.setattr(ParkedClaim, "park", watched)
    return parked


@pytest.fixture
def parked(kind: str) -> Callable[[Worker], Awaitable[None]]:
    """Waits until a worker has nothing to do and, where the store parks claims, has parked one."""

    async def wait(working: Worker) -> None:
        await working.idle()
        async with asyncio.timeout(SOON):
            while kind in KINDS and working._exchanges._parked.claim is None:
                await asyncio.sleep(0.001)

    return wait


async def ran(store: Store, held: bytes) -> None:
    """It ran once, at once."""
    found = await one(store, held)
    assert (found.state, found.attempt, found.lost) == (State.DONE, 1, 0)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_job_begins_without_another_exchange(live, other, telemetry, recorder, claims, parked):
    crossing = Crossing()
    async with worker(crossing.before(live), at_once(), telemetry) as working:
        await parked(working)
        crossing.rules["jobs.exchange"] = lambda *args: DropRequest()
        await put_in(other, job("work"))
        await recorder.until(EventName.STARTED)
        crossing.rules.clear()
        await recorder.until(EventName.DONE)

    assert {claim.total for claim in claims} == {1}


async def test_a_job_whose_hint_was_missed_runs_soon(live, other, telemetry, recorder, parked):
    crossing = Crossing()
    async with worker(crossing.before(live), at_once(), telemetry) as working:
        await parked(working)
        crossing.rules["wakes"] = Once(DropRequest())
        [held] = await put_in(other, job("work"))
        await asyncio.wait_for(recorder.until(EventName.DONE), SOON)

    await ran(live, held)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_job_runs_soon_also_if_the_line_breaks(live, other, telemetry, recorder, parked):
    async with worker(live, at_once(), telemetry) as working:
        for number in range(1, 6):
            await parked(working)
            [held] = await put_in(other, job("work"))
            for wire in live._keyspace.connections._lent:
                wire._transport.abort()
            await asyncio.wait_for(recorder.until(EventName.DONE, number), SOON)
            await ran(live, held)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_job_is_not_leased_over_a_line_that_only_the_server_holds_open(url, other, telemetry, recorder, parked):
    async with Proxy(url).running() as proxy:
        near = open_store(proxy.url)
        await near.open()
        async with worker(near, at_once(), telemetry) as working:
            for number in range(1, 4):
                await parked(working)
                ask = working._exchanges._parked.claim
                proxy.cut()
                async with asyncio.timeout(SOON):  # it parks a later one on another connection
                    while working._exchanges._parked.claim in (None, ask, again(ask)):
                        await asyncio.sleep(0.001)
                [held] = await put_in(other, job("work"))
                await asyncio.wait_for(recorder.until(EventName.DONE, number), SOON)
                await ran(other, held)
        await near.close()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_job_runs_soon_also_if_the_server_forgot_the_script(
    live, other, telemetry, recorder, parked, monkeypatch
):
    keyspace = live._keyspace
    known, request = keyspace._scripts["exchange"].sha.encode(), keyspace.request
    monkeypatch.setattr(keyspace, "request", lambda *args, **named: request(*args, **named).replace(known, b"0" * 40))
    async with worker(live, at_once(), telemetry) as working:
        for number in range(1, 6):
            await parked(working)
            [held] = await put_in(other, job("work"))
            await asyncio.wait_for(recorder.until(EventName.DONE, number), SOON)
            await ran(live, held)


async def test_a_worker_that_stopped_gets_no_job(live, other, telemetry, parked):
    async with worker(live, at_once(), telemetry) as working:
        await parked(working)
    [held] = await put_in(other, job("work"))
    await asyncio.sleep(0.05)

    assert await state(live, held) is State.READY


@pytest.mark.parametrize("kind", KINDS)
async def test_a_job_that_comes_while_a_worker_stops_is_done_or_ready(live, other, parked):
    for turn in range(20):
        working = worker(live, at_once())
        async with working:
            await parked(working)
            coming = asyncio.create_task(put_in(other, job("work")))
            for _ in range(turn):
                await asyncio.sleep(0)
        [held] = await coming
        found = await one(live, held)

        assert (found.state, found.lost) in ((State.DONE, 0), (State.READY, 0))
        await live.jobs.drop([held])


@pytest.mark.parametrize("kind", KINDS)
async def test_a_worker_at_work_leaves_none(live, telemetry, recorder, claims, parked):
    made, gate = Tasks(), Gate()
    made.task(name="work")(gate)
    await put_in(live, job("work"))
    async with worker(live, made, telemetry) as working:
        await recorder.until(EventName.STARTED)
        await asyncio.sleep(1.2)  # long enough for every wait on the server to come round
        before = len(claims)
        await asyncio.sleep(1.2)
        at_work = len(claims)
        gate.open()
        await parked(working)

    assert (before, at_work) == (0, 0)


@pytest.mark.parametrize("kind", KINDS[:1])
async def test_one_with_short_leases_or_a_job_that_is_soon_due_leaves_none(live, telemetry, claims):
    async with worker(live, at_once(), telemetry, lease=5 * SECOND) as working:
        await working.idle()
        await asyncio.sleep(1.2)
    await put_in(live, job("work", delay=1_500_000))
    async with worker(live, at_once(), telemetry, lease=MINUTE) as working:
        await working.idle()
        await asyncio.sleep(1.2)

    assert claims == []
