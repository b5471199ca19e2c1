"""Plans that are cancelled while they spread, that are run again, that are large, or that cannot be."""

import contextlib
import sqlite3

import pytest

from packhorse import App, InvalidInput, JobFailed, Keep, chain, chord, group
from packhorse.jobs.children import FanOut
from packhorse.jobs.portal import PORTAL
from packhorse.model import codec
from packhorse.model.effect import Enqueue
from packhorse.model.job import State
from packhorse.model.lease import Settlement
from packhorse.model.outcome import Done, Wait
from packhorse.model.reason import WaitReason
from tests.factories import DEAD, end, take
from tests.features.factories import everything, run


class Tasks:
    """Tasks that fail while they are asked to."""

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
    plan = await tasks.parts(401, on_failure="skip").enqueue()
    await run(app)

    assert await plan.result(1) == list(range(1, 401))


async def test_a_plan_cancelled_while_it_spreads_enqueues_nothing_more(app, tasks):
    plan = await tasks.parts(900).enqueue()
    store = await app.store()
    leases = await take(store)
    assert len(leases) == 3

    assert await plan.cancel() == "cancelled"
    await store.jobs.exchange([
        Settlement(lease, Wait(WaitReason.CHILDREN, children=len(jobs)), tuple(map(Enqueue, jobs)))
        for lease in leases
        if (jobs := codec.decode(lease.payload, FanOut).jobs)
    ])  # fmt: skip

    await run(app)
    assert tasks.ran == []
    assert [found.state for found in await everything(app)] == ["cancelled"] * 4


async def test_a_chain_is_repaired_by_replaying_the_job_that_died_and_then_the_last(app, tasks):
    tasks.broken = {1}
    plan = await chain(tasks.part.call(1), tasks.part).enqueue()
    await run(app)
    with pytest.raises(JobFailed, match="ChildFailed"):
        await plan.result(1)
    tasks.broken = set()
    [first] = [job for job in await everything(app, state="dead") if job.id != plan.id]

    assert await app.job(first.id).replay()
    await run(app)
    assert await app.job(plan.id).replay()
    await run(app)

    assert await plan.result(1) == 3


@pytest.mark.parametrize("count", [3, 450])
async def test_a_dead_plan_is_replayed_as_a_whole_and_what_is_done_is_not_run_again(app, tasks, count):
    tasks.broken = {1}
    plans = [await tasks.parts(count).enqueue(), await chord(tasks.parts(count), tasks.total).enqueue()]
    await run(app)
    assert [await plan.state() for plan in plans] == ["dead", "dead"]
    tasks.broken, tasks.ran = set(), []

    assert [await plan.replay() for plan in plans] == [True, True]
    await run(app)

    assert await plans[0].result(1) == list(range(1, count + 1))
    assert await plans[1].result(1) == count * (count + 1) // 2
    assert tasks.ran == [1, 1]
    assert await plans[0].replay() is False


@pytest.mark.parametrize("last_first", [True, False])
async def test_a_cancelled_group_whose_jobs_are_replayed_one_by_one_waits_for_them(app, tasks, last_first):
    plans = [await tasks.parts(3).enqueue(), await chord(tasks.parts(3), tasks.total).enqueue()]
    for plan in plans:
        await plan.cancel()
    jobs = sorted(await everything(app, state="cancelled"), key=lambda job: (job.task == "part") is last_first)
    for job in jobs:
        assert await app.job(job.id).replay()
    await run(app)

    assert await plans[0].result(1) == [1, 2, 3]
    assert await plans[1].result(1) == 6


@pytest.mark.parametrize("count", [3, 450])
async def test_a_cancelled_plan_is_replayed_as_a_whole(app, tasks, count):
    plan = await chord(tasks.parts(count), tasks.total).enqueue()
    await plan.cancel()

    assert await plan.replay()
    await run(app)

    assert await plan.result(1) == count * (count + 1) // 2
    assert await everything(app, state="cancelled") == []


async def test_results_of_a_large_chord_may_be_larger_together_than_one_result(app, tasks):
    plan = await chord(group(*(tasks.text.call(3_000) for _ in range(401))), tasks.sizes).enqueue()
    await run(app)

    assert await plan.result(1) == 401 * 3_000


async def test_a_call_of_a_group_may_be_as_large_as_any_other(app, tasks):
    big = "x" * 1_000_000
    plans = [await group(*[tasks.size.call(big)] * count).enqueue() for count in (1, 3)]
    await run(app)

    assert [await plan.result(1) for plan in plans] == [[1_000_000], [1_000_000] * 3]


async def test_a_call_that_is_too_large_for_a_large_group_is_refused(app, tasks):
    with pytest.raises(InvalidInput, match="more than 400 jobs the cap is 600,000"):
        await group(*[tasks.size.call("x" * 700_000)] * 401).enqueue()


async def test_mistakes_that_are_easily_made_are_refused_with_what_to_write(app, tasks):
    add, total = tasks.part, tasks.total
    for wrong, hint in (
        (lambda: chain(add.call(1), add.call(2)), r"give a task, or task\.using"),
        (lambda: chain(add.call(1), chain(add.call(1), add)), r"give a task, or task\.using"),
        (lambda: group(add, add).enqueue(), "takes the result of what runs before it"),
        (lambda: chain(group(add, add), total).enqueue(), "takes the result of what runs before it"),
        (lambda: chord(chain(add.call(1), add), total), r"chord\(group\("),
        (lambda: chain(add(1), add), r"part\.call"),
        (lambda: chain(add.call(1), add(1)), r"part\.call"),
        (lambda: group(add(1)), r"part\.call"),
        (lambda: group([add.call(1)]), r"group\(\*calls\)"),
        (lambda: group(3), r"task\.call"),
        (lambda: chord([add.call(1)], total), r"chord\(group\("),
    ):
        with pytest.raises(InvalidInput, match=hint):
            wrong()


async def test_no_job_of_a_replayed_plan_waits_for_ever(app, tasks):
    tasks.broken = {2}
    plan = await chain(tasks.part.call(1), tasks.part, tasks.part).enqueue()
    await run(app)
    for _ in range(2):
        await plan.replay()
        await run(app)

    assert {job.state for job in await everything(app)} == {"done", "dead"}
    assert (await (await app.store()).jobs.count())["default"].get(State.WAITING, 0) == 0


async def test_a_chord_enqueued_again_under_its_id_with_more_calls_waits_for_its_own(app, tasks):
    slow = tasks.part.using(queue="slow")
    named = tasks.total.using(id="total:1")
    first = await chord(group(*(slow.call(number) for number in range(2))), named).enqueue()
    second = chord(group(*(tasks.part.call(number) for number in range(10, 15))), named)
    [receipt, *_] = await (await app.store()).jobs.enqueue(second.jobs())  # as by two programs at the same moment
    assert (first.created, receipt.created) == (True, False)

    await run(app)
    assert await first.state() == "waiting"
    await run(app, ["slow", "default"])

    assert await first.result(1) == 3


async def test_a_plan_in_one_lane_goes_on_when_a_part_is_replayed_before_its_last_job(app, tasks):
    keyed = tasks.part.using(key="ann")
    plan = await chord(group(keyed.call(0), keyed.call(1), on_failure="none"), tasks.total.using(key="ann")).enqueue()
    store = await app.store()
    [first] = await take(store)
    await end(store, first, Done(b"1"))
    [second] = await take(store)
    await end(store, second, DEAD)
    assert await plan.state() == "ready"

    await store.jobs.replay([second.id])  # its place is behind the last job, which waits for it
    await run(app)

    assert await plan.result(1) == 3


@pytest.mark.parametrize("ending", ["cancel", "drop"])
async def test_none_stands_in_the_place_of_every_call_of_a_part_that_was_ended(app, tasks, ending):
    plan = await tasks.parts(801, on_failure="none").enqueue()
    store = await app.store()
    part = [job for job in await everything(app) if job.task == "packhorse.collect" and job.state == "ready"]
    middle = sorted(part, key=lambda job: job.stored.id)[1]
    await getattr(store.jobs, ending)([middle.stored.id])
    await run(app)

    result = await plan.result(1)
    assert len(result) == 801
    assert result.count(None) == 400
    assert result == [*range(1, 401), *[None] * 400, 801]


async def test_a_group_whose_results_are_too_large_together_says_to_use_a_chord(app, tasks):
    plan = await group(*(tasks.text.call(600_000) for _ in range(3))).enqueue()
    await run(app)

    with pytest.raises(JobFailed, match=r"chord\(group"):
        await plan.result(1)


@pytest.mark.parametrize("count", [3, 450])
async def test_a_plan_replayed_after_its_parts_were_pruned_ends_with_what_they_left(app, tasks, clock, count):
    keep = tasks.part.using(keep_done=Keep(0, "1h"), keep_dead=Keep(0, "1h"))
    plans = [
        await group(*(keep.call(number) for number in range(count)), on_failure=policy).enqueue()
        for policy in ("fail", "none")
    ]
    tasks.broken = {1}
    await run(app)
    store = await app.store()
    while (await store.jobs.prune(500)).more:
        pass
    assert {job.task for job in await everything(app)} == {"packhorse.collect"}
    tasks.broken, tasks.ran = set(), []

    assert [await plan.replay() for plan in plans] == [True, False]
    await run(app)

    assert tasks.ran == []
    with pytest.raises(JobFailed, match="ended as dead"):
        await plans[0].result(1)
    assert len(await plans[1].result(1)) == count
    assert (await store.jobs.count())["default"].get(State.WAITING, 0) == 0


async def test_a_call_replayed_before_its_group_gathers_is_run_again_alone(app, tasks, clock):
    keep = tasks.part.using(queue="parts", keep_done=Keep(0, "1h"))
    parts = group(*(keep.call(number) for number in range(401)), on_failure="skip")
    plan = await chord(parts, tasks.total).enqueue()
    tasks.broken = {7}
    await run(app)
    await run(app, ["parts"])
    store = await app.store()
    for _ in range(2):  # what is done is pruned, then forgotten
        while (await store.jobs.prune(500)).more:
            pass
        clock.turn(3600 * 1_000_000)
    [dead] = await everything(app, state="dead")
    tasks.broken, tasks.ran = set(), []

    assert await app.job(dead.id).replay()
    await run(app)
    await run(app, ["parts", "default"])

    assert tasks.ran == [7]
    assert await plan.result(1) == 401 * 402 // 2


@pytest.mark.parametrize("more", [1, 2, 3, 500])
async def test_a_plan_enqueued_again_under_its_id_with_more_calls_is_the_one_that_is_there(app, tasks, more):
    slow, parts = tasks.part.using(queue="slow"), [tasks.part.call(number) for number in range(10, 12 + more)]
    links = [tasks.part] * min(more, 100)
    last, total = tasks.part.using(id="chain:1"), tasks.total.using(id="chord:1")
    first = await app.enqueue(chain(slow.call(1), last), chord(group(slow.call(2), slow.call(3)), total))
    one, two = await chain(tasks.part.call(1), *links, last).enqueue(), await chord(group(*parts), total).enqueue()
    new, *again = await app.enqueue(
        tasks.part.call(20), chain(tasks.part.call(1), *links, last), chord(group(*parts[:100]), total)
    )
    assert [one, two] == again == list(first)
    assert [handle.created for handle in (*first, one, two, new, *again)] == [
        True,
        True,
        False,
        False,
        True,
        False,
        False,
    ]

    await run(app)
    assert (tasks.ran, await one.state(), await two.state()) == ([20], "waiting", "waiting")
    await run(app, ["slow", "default"])

    assert [await handle.result(1) for handle in (one, two, new)] == [3, 7, 21]
    assert sorted(tasks.ran) == [1, 2, 2, 3, 20]
    assert {job.state for job in await everything(app)} == {"done"}


def test_code_without_an_event_loop_enqueues_a_plan_again_the_same_way(tmp_path):
    app = App(f"sqlite:///{tmp_path}/plans.db")
    tasks = Tasks(app)
    app.sync.open()
    total = tasks.total.using(id="chord:1")
    with contextlib.closing(sqlite3.connect(tmp_path / "plans.db")) as mine:
        handles = []
        for count in (2, 3):
            handles += [chord(tasks.parts(count), total).sync.enqueue()]
            handles += app.sync.enqueue(chord(tasks.parts(count), total))
        mine.execute("BEGIN IMMEDIATE")
        handles += [chord(tasks.parts(4), total).sync.enqueue(within=mine)]
        handles += [chord(tasks.parts(5), tasks.total.using(id="chord:2")).sync.enqueue(within=mine)]
        mine.commit()
    *again, other = handles

    assert [handle.created for handle in handles] == [True, False, False, False, False, True]
    assert len({handle.id for handle in again}) == 1
    assert app.sync.queue("default").counts()["ready"] == 2 + 5
    assert other.state() == "waiting"
    app.sync.close()
    PORTAL.stop()
