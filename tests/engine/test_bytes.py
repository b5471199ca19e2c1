"""How many bytes an exchange of a worker carries, and what becomes of one that was too large."""

from typing import Any

from msgspec.structs import replace

from packhorse.engine.budget import MIN_BYTES, SLOW_EXCHANGE_US, Budget
from packhorse.engine.context import current
from packhorse.engine.emitted import HELD_MAX_BYTES
from packhorse.model import limits
from packhorse.model.effect import bytes_of
from packhorse.model.lease import ClaimRequest, Exchange, Settlement
from packhorse.model.outcome import Done
from packhorse.model.reason import DeadReason
from packhorse.testing.faults import DropReply, DropRequest
from tests.engine.factories import Crossing, EventName, Tasks, job, lease_ahead, worker
from tests.factories import OTHER, ask, one, put_in
from tests.judging import lease

KIB = 1024


def results_in(settlements: list[Settlement]) -> list[int]:
    """The sizes of the results that are settled together."""
    return [len(each.outcome.result or b"") for each in settlements if isinstance(each.outcome, Done)]


def exchanged(crossing: Crossing) -> list[tuple[list[Settlement], ClaimRequest | None]]:
    return [args for name, args in crossing.calls if name == "jobs.exchange"]


async def test_an_exchange_settles_no_more_bytes_than_its_budget(live, telemetry, recorder):
    crossing, tasks = Crossing(), Tasks()

    @tasks.task()
    async def work(number: int) -> str:
        return "x" * 900 * KIB

    await put_in(live, *(job("work", number=number) for number in range(12)))
    async with worker(crossing.before(live), tasks, telemetry, concurrency=12):
        await recorder.until(EventName.DONE, 12)

    sizes = [sum(results_in(settlements)) for settlements, *_ in exchanged(crossing)]
    assert sum(sizes) > 12 * 900 * KIB
    assert max(sizes) <= limits.EXCHANGE_BYTES


async def test_settlements_that_are_too_large_for_the_link_go_in_smaller_ones(live, telemetry, recorder):
    crossing, tasks = Crossing(), Tasks()

    @tasks.task()
    async def work(number: int) -> str:
        return "x" * 100 * KIB

    def too_large(settlements: Any, *_: Any) -> DropRequest | None:
        return DropRequest() if sum(results_in(settlements)) > 300 * KIB else None

    crossing.rules["jobs.exchange"] = too_large
    ids = await put_in(live, *(job("work", number=number) for number in range(20)))
    async with worker(crossing.before(live), tasks, telemetry, concurrency=20):
        await recorder.until(EventName.DONE, 20)

    assert {(await one(live, each)).attempt for each in ids} == {1}


async def test_leases_that_were_never_delivered_are_taken_again_in_smaller_claims_and_charge_nobody(
    live, telemetry, recorder
):
    crossing, tasks = Crossing(), Tasks()

    @tasks.task()
    async def work(pad: str) -> None:
        pass

    def too_large(_: Any, request: ClaimRequest | None = None) -> DropReply | None:
        return DropReply() if request is not None and request.total > 1 and request.max_bytes > 300 * KIB else None

    crossing.rules["jobs.exchange"] = too_large
    await put_in(live, *(job("work", pad="x" * 100 * KIB) for _ in range(20)))
    async with worker(crossing.before(live), tasks, telemetry) as working:
        lease_ahead(working)
        await recorder.until(EventName.DONE, 20)

    assert {(each["lease"].attempt, each["lease"].lost) for each in recorder.of(EventName.DONE)} == {(1, 0)}
    assert recorder.count(EventName.DONE) == recorder.count(EventName.STARTED) == 20


async def test_pieces_that_are_emitted_at_once_are_written_in_bounded_parts(live, telemetry, recorder):
    crossing, tasks = Crossing(), Tasks()

    @tasks.task()
    async def work() -> None:
        for _ in range(60):
            current().emit("x" * 100 * KIB)

    await put_in(live, job("work"))
    async with worker(crossing.before(live), tasks, telemetry):
        await recorder.until(EventName.DONE)

    parts = [[bytes_of(each.effects) for each in settlements] for settlements, *_ in exchanged(crossing)]
    assert sum(map(sum, parts)) > 60 * 100 * KIB
    assert max(size for sizes in parts for size in sizes) <= HELD_MAX_BYTES
    assert max(map(sum, parts)) <= limits.EXCHANGE_BYTES


async def test_an_attempt_that_wants_more_bytes_written_than_one_call_may_has_failed_for_good(
    live, telemetry, recorder
):
    tasks = Tasks()

    @tasks.task()
    async def work() -> None:
        for _ in range(65):
            current().publish("news", b"x" * limits.VALUE)

    [wanted] = await put_in(live, job("work"))
    async with worker(live, tasks, telemetry):
        await recorder.until(EventName.DEAD)

    found = await one(live, wanted)
    assert (found.reason, found.attempt, found.failures[-1].type) == (
        DeadReason.FINAL,
        1,
        "packhorse.errors.TooManyBytes",
    )
    assert await live.streams.read("news") == []


def answer(*sizes: int, more: bool = True) -> Exchange:
    """An answer with leases of such sizes."""
    leases = [replace(lease(), payload=b"x" * size, headers=b"") for size in sizes]
    return Exchange((), tuple(leases), more, None, 0)


def test_a_budget_is_halved_after_a_failure_and_after_a_slow_exchange_and_grows_with_quick_ones():
    budget = Budget()
    budget.shrink()
    budget.answered(None, answer(), SLOW_EXCHANGE_US + 1)
    assert budget.bytes == limits.EXCHANGE_BYTES // 4

    budget.answered(None, answer(), SLOW_EXCHANGE_US)
    assert budget.bytes == limits.EXCHANGE_BYTES // 4 * 9 // 8
    for _ in range(100):
        budget.shrink()
    assert budget.bytes == MIN_BYTES
    for _ in range(100):
        budget.answered(None, answer(), 0)
    assert budget.bytes == limits.EXCHANGE_BYTES


def test_a_budget_asks_for_as_many_jobs_as_fit_once_an_ask_met_its_bound():
    budget, request = Budget(), ask(50, worker=OTHER)
    budget.answered(request, answer(*[limits.PAYLOAD] * 3, more=False), 0)
    assert budget.jobs == limits.ITEMS

    budget.answered(request, answer(*[limits.PAYLOAD] * 3), 0)
    assert budget.jobs == 4
    budget.answered(request, answer(100, 100), 0)
    assert budget.jobs == limits.ITEMS
