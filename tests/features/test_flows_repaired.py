"""Flows that are cancelled while they spread, that are run again, that are large, or that cannot be."""

import pytest

from packhorse import App, InvalidInput, JobFailed, Keep, chain, chord, group
from packhorse.jobs.gather import Spread
from packhorse.model import codec
from packhorse.model.effect import Enqueue
from packhorse.model.job import State
from packhorse.model.lease import Settlement
from packhorse.model.outcome import Done, Wait
from packhorse.model.reason import WaitReason
from tests.features.making import everything, run
from tests.making import DEAD, end, take


class Tasks:
    """Tasks that fail while they are told to."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.broken: set[int] = set()
        self.ran: list[int] = []

        @app.task(name="part", attempts=1)
        async def part(number: int) -> int:
            self.ran.append(number)
            if number in self.broken:
                raise ValueError("broken")
            return number + 1

        @app.task(name="total", attempts=1)
        async def total(parts: list[int]) -> int:
            return sum(parts)

        @app.task(name="text", attempts=1)
        async def text(size: int) -> str:
            return "x" * size

        @app.task(name="sizes", attempts=1)
        async def sizes(parts: list[str]) -> int:
            return sum(map(len, parts))

        @app.task(name="size", attempts=1)
        async def size(data: str) -> int:
            return len(data)

        self.part, self.total, self.text, self.sizes, self.size = part, total, text, sizes, size

    def parts(self, count: int, **options):
        return group(*(self.part.call(number) for number in range(count)), **options)


@pytest.fixture
def tasks(app: App) -> Tasks:
    return Tasks(app)


async def test_a_large_group_ends_when_all_calls_of_one_part_failed(app, tasks):
    tasks.broken = {400}
    flow = await tasks.parts(401, on_failure="skip").enqueue()
    await run(app)

    assert await flow.result(1) == list(range(1, 401))


async def test_a_flow_cancelled_while_it_spreads_enqueues_nothing_more(app, tasks):
    flow = await tasks.parts(900).enqueue()
    store = await app.store()
    leases = await take(store)
    assert len(leases) == 3

    assert await flow.cancel() == "cancelled"
    await store.jobs.exchange([
        Settlement(lease, Wait(WaitReason.CHILDREN, children=len(jobs)), tuple(map(Enqueue, jobs)))
        for lease in leases
        if (jobs := codec.decode(lease.payload, Spread).jobs)
    ])  # fmt: skip

    await run(app)
    assert tasks.ran == []
    assert [found.status for found in await everything(app)] == ["cancelled"] * 4


async def test_a_chain_is_repaired_by_replaying_the_job_that_died_and_then_the_last(app, tasks):
    tasks.broken = {1}
    flow = await chain(tasks.part.call(1), tasks.part).enqueue()
    await run(app)
    with pytest.raises(JobFailed, match="ChildFailed"):
        await flow.result(1)
    tasks.broken = set()
    [first] = [job for job in await everything(app, state="dead") if job.id != flow.id]

    assert await app.job(first.id).replay()
    await run(app)
    assert await app.job(flow.id).replay()
    await run(app)

    assert await flow.result(1) == 3


@pytest.mark.parametrize("count", [3, 450])
async def test_a_dead_flow_is_replayed_as_a_whole_and_what_is_done_is_not_run_again(app, tasks, count):
    tasks.broken = {1}
    flows = [await tasks.parts(count).enqueue(), await chord(tasks.parts(count), tasks.total).enqueue()]
    await run(app)
    assert [await flow.status() for flow in flows] == ["dead", "dead"]
    tasks.broken, tasks.ran = set(), []

    assert [await flow.replay() for flow in flows] == [True, True]
    await run(app)

    assert await flows[0].result(1) == list(range(1, count + 1))
    assert await flows[1].result(1) == count * (count + 1) // 2
    assert tasks.ran == [1, 1]
    assert await flows[0].replay() is False


@pytest.mark.parametrize("last_first", [True, False])
async def test_a_cancelled_group_whose_jobs_are_replayed_one_by_one_waits_for_them(app, tasks, last_first):
    flows = [await tasks.parts(3).enqueue(), await chord(tasks.parts(3), tasks.total).enqueue()]
    for flow in flows:
        await flow.cancel()
    jobs = sorted(await everything(app, state="cancelled"), key=lambda job: (job.task == "part") is last_first)
    for job in jobs:
        assert await app.job(job.id).replay()
    await run(app)

    assert await flows[0].result(1) == [1, 2, 3]
    assert await flows[1].result(1) == 6


@pytest.mark.parametrize("count", [3, 450])
async def test_a_cancelled_flow_is_replayed_as_a_whole(app, tasks, count):
    flow = await chord(tasks.parts(count), tasks.total).enqueue()
    await flow.cancel()

    assert await flow.replay()
    await run(app)

    assert await flow.result(1) == count * (count + 1) // 2
    assert await everything(app, state="cancelled") == []


async def test_results_of_a_large_chord_may_be_larger_together_than_one_result(app, tasks):
    flow = await chord(group(*(tasks.text.call(3_000) for _ in range(401))), tasks.sizes).enqueue()
    await run(app)

    assert await flow.result(1) == 401 * 3_000


async def test_a_call_of_a_group_may_be_as_large_as_any_other(app, tasks):
    big = "x" * 1_000_000
    flows = [await group(*[tasks.size.call(big)] * count).enqueue() for count in (1, 3)]
    await run(app)

    assert [await flow.result(1) for flow in flows] == [[1_000_000], [1_000_000] * 3]


async def test_a_call_that_is_too_large_for_a_large_group_is_refused(app, tasks):
    with pytest.raises(InvalidInput, match="more than 400 calls the cap is 600,000"):
        group(*[tasks.size.call("x" * 700_000)] * 401)


async def test_flows_in_flows_and_mistakes_that_are_easily_made_are_refused_with_what_to_write(app, tasks):
    add, total = tasks.part, tasks.total
    parts = tasks.parts(2)
    for wrong, hint in (
        (lambda: group(chord(parts, total)), "cannot be put into one another"),
        (lambda: chain(chord(parts, total), add), "cannot be put into one another"),
        (lambda: chain(parts, total), "cannot be put into one another"),
        (lambda: chain(add.call(1), parts), "cannot be put into one another"),
        (lambda: chord(parts, parts), "cannot be put into one another"),
        (lambda: chain(add(1), add), r"part\.call"),
        (lambda: chain(add.call(1), add(1)), r"part\.call"),
        (lambda: group(add(1)), r"part\.call"),
        (lambda: group(add), r"task\.call"),
        (lambda: group([add.call(1)]), r"group\(\*calls\)"),
        (lambda: group(3), r"task\.call"),
        (lambda: chord([add.call(1)], total), r"chord\(group\("),
    ):
        with pytest.raises(InvalidInput, match=hint):
            wrong()


async def test_no_job_of_a_replayed_flow_waits_for_ever(app, tasks):
    tasks.broken = {2}
    flow = await chain(tasks.part.call(1), tasks.part, tasks.part).enqueue()
    await run(app)
    for _ in range(2):
        await flow.replay()
        await run(app)

    assert {job.status for job in await everything(app)} == {"done", "dead"}
    assert (await (await app.store()).jobs.count())["default"].get(State.WAITING, 0) == 0


async def test_a_chord_enqueued_again_under_its_id_with_more_calls_waits_for_its_own(app, tasks):
    slow = tasks.part.using(queue="slow")
    named = tasks.total.using(id="total:1")
    first = await chord(group(*(slow.call(number) for number in range(2))), named).enqueue()
    second = await chord(group(*(tasks.part.call(number) for number in range(10, 15))), named).enqueue()
    assert (first.created, second.created, second) == (True, False, first)

    await run(app)
    assert await first.status() == "waiting"
    await run(app, ["slow", "default"])

    assert await first.result(1) == 3


async def test_a_flow_in_one_lane_goes_on_when_a_part_is_replayed_before_its_last_job(app, tasks):
    keyed = tasks.part.using(key="ann")
    flow = await chord(group(keyed.call(0), keyed.call(1), on_failure="none"), tasks.total.using(key="ann")).enqueue()
    store = await app.store()
    [first] = await take(store)
    await end(store, first, Done(b"1"))
    [second] = await take(store)
    await end(store, second, DEAD)
    assert await flow.status() == "ready"

    await store.jobs.replay([second.id])  # its place is behind the last job, which waits for it
    await run(app)

    assert await flow.result(1) == 3


@pytest.mark.parametrize("ending", ["cancel", "drop"])
async def test_none_stands_in_the_place_of_every_call_of_a_part_that_was_ended(app, tasks, ending):
    flow = await tasks.parts(801, on_failure="none").enqueue()
    store = await app.store()
    part = [job for job in await everything(app) if job.task == "packhorse.gather" and job.status == "ready"]
    middle = sorted(part, key=lambda job: job.stored.id)[1]
    await getattr(store.jobs, ending)([middle.stored.id])
    await run(app)

    result = await flow.result(1)
    assert len(result) == 801
    assert result.count(None) == 400
    assert result == [*range(1, 401), *[None] * 400, 801]


async def test_a_group_whose_results_are_too_large_together_says_to_use_a_chord(app, tasks):
    flow = await group(*(tasks.text.call(600_000) for _ in range(3))).enqueue()
    await run(app)

    with pytest.raises(JobFailed, match=r"chord\(group"):
        await flow.result(1)


@pytest.mark.parametrize("count", [3, 450])
async def test_a_flow_replayed_after_its_parts_were_pruned_ends_with_what_they_left(app, tasks, clock, count):
    keep = tasks.part.using(keep_done=Keep(0, "1h"), keep_dead=Keep(0, "1h"))
    flows = [
        await group(*(keep.call(number) for number in range(count)), on_failure=policy).enqueue()
        for policy in ("fail", "none")
    ]
    tasks.broken = {1}
    await run(app)
    store = await app.store()
    while (await store.jobs.prune(500)).more:
        pass
    assert {job.task for job in await everything(app)} == {"packhorse.gather"}
    tasks.broken, tasks.ran = set(), []

    assert [await flow.replay() for flow in flows] == [True, False]
    await run(app)

    assert tasks.ran == []
    with pytest.raises(JobFailed, match="ended as dead"):
        await flows[0].result(1)
    assert len(await flows[1].result(1)) == count
    assert (await store.jobs.count())["default"].get(State.WAITING, 0) == 0
