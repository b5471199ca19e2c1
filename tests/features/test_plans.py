"""Calls that belong together: chains, groups, chords; what they hand on, and what becomes of them when a part fails."""

import asyncio
import time

import pytest

from packhorse import App, Call, InvalidInput, JobCancelled, JobFailed, Plan, chain, chord, current, group
from packhorse.errors import ConfigError
from tests.conftest import kinds
from tests.features.conftest import STORES
from tests.features.factories import SECOND, everything, run


class Tasks:
    """Tasks to make plans of."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.ran: list[str] = []

        @app.task(name="add", attempts=1)
        async def add(a: int, b: int = 1) -> int:
            self.ran.append("add")
            return a + b

        @app.task(name="total", attempts=1)
        def total(parts: list[int], factor: int = 1) -> int:
            self.ran.append("total")
            return factor * sum(parts)

        @app.task(name="fails", attempts=1)
        async def fails(a: int = 0) -> int:
            self.ran.append("fails")
            raise ValueError("no")

        @app.task(name="listed", attempts=1)
        async def listed(parts: list[int | None]) -> list[int | None]:
            return parts

        @app.task(name="seen", attempts=1)
        async def seen(before: int | None) -> str:
            return f"saw {before}"

        self.add, self.total, self.fails, self.listed, self.seen = add, total, fails, listed, seen


@pytest.fixture
def tasks(app: App) -> Tasks:
    return Tasks(app)


async def end_of(app: App, plan: Plan) -> object:
    """Enqueue a plan, run it, and answer its result."""
    job = await plan.enqueue()
    await run(app)
    return await job.result(1)


async def test_a_chain_hands_each_result_to_the_next(app, tasks):
    assert await end_of(app, chain(tasks.add.call(1), tasks.add, tasks.add)) == 4
    assert tasks.ran == ["add"] * 3


async def test_a_chain_of_any_length_over_queues_with_options(app, tasks):
    links = [tasks.add.using(queue="other", priority=1), tasks.add.using(delay=0)] * 10
    job = await chain(tasks.add.call(0), *links).enqueue()
    await run(app, ["default", "other"])

    assert await job.result(1) == 21
    assert len(await everything(app, queue="other")) == 10


async def test_a_later_link_is_there_from_the_start_and_waits(app, tasks):
    job = await chain(tasks.add.call(1), tasks.add).enqueue()

    info = await job.info()
    assert (info.state, info.reason) == ("waiting", "children")
    assert len(await everything(app)) == 2


async def test_a_group_answers_with_the_results_in_order(app, tasks):
    assert await end_of(app, group(*(tasks.add.call(number) for number in range(50)))) == list(range(1, 51))


async def test_a_group_of_different_tasks_keeps_their_types(app):
    from tests.features.shapes import Cat, Line

    @app.task
    async def line() -> Line:
        return Line("a", 2)

    @app.task
    async def cat(lives: int) -> Cat:
        return Cat(lives)

    @app.task
    async def nothing() -> None: ...

    assert await end_of(app, group(line.call(), cat.call(9), nothing.call())) == [Line("a", 2), Cat(9), None]


async def test_a_group_whose_parts_have_no_result_ends_with_nones(app):
    ran = []

    @app.task
    async def quiet(number: int) -> None:
        ran.append(number)

    assert await end_of(app, group(*(quiet.call(number) for number in range(10)))) == [None] * 10
    assert sorted(ran) == list(range(10))


async def test_a_chord_hands_the_list_to_its_callback(app, tasks):
    parts = group(*(tasks.add.call(number) for number in range(10)))

    assert await end_of(app, chord(parts, tasks.total)) == 55
    assert tasks.ran[-1] == "total"


async def test_a_retried_part_is_waited_for(app, clock):
    tried = []

    @app.task
    async def flaky(number: int) -> int:
        tried.append(number)
        if tried.count(number) == 1 and number == 2:
            raise ValueError("no")
        return number

    job = await group(*(flaky.call(number) for number in range(4))).enqueue()
    await run(app)
    assert await job.state() == "waiting"
    clock.turn(2 * SECOND)
    await run(app)

    assert await job.result(1) == [0, 1, 2, 3]


@pytest.mark.parametrize("count", [3, 450])  # the larger one is spread
async def test_a_part_that_fails_means_what_the_policy_says(app, tasks, count):
    calls: list[Call[int]] = [tasks.add.call(0), tasks.fails.call(), tasks.add.call(2)]
    calls += [tasks.add.call(number) for number in range(3, count)]
    rest = list(range(4, count + 1))
    for policy, begin in (("skip", [1, 3]), ("none", [1, None, 3])):
        parts = group(*calls, on_failure=policy)
        assert await end_of(app, parts) == begin + rest
        assert await end_of(app, chord(parts, tasks.listed)) == begin + rest
    for plan in (group(*calls), chord(group(*calls, on_failure="fail"), tasks.listed)):
        with pytest.raises(JobFailed, match="ChildFailed"):
            await end_of(app, plan)


@pytest.mark.parametrize(("policy", "ends"), [("fail", ["dead", "dead"]), ("none", ["dead", "done"])])
async def test_a_link_that_fails_means_what_the_policy_says(app, tasks, policy, ends):
    job = await chain(tasks.fails.call(), tasks.seen, on_failure=policy).enqueue()
    await run(app)

    assert sorted((found.state.value for found in await everything(app)), key=ends.index) == ends
    if policy == "none":
        assert await job.result(1) == "saw None"
    else:
        with pytest.raises(JobFailed, match="ChildFailed"):
            await job.result(1)


async def test_a_chain_that_fails_early_ends_to_its_last_link(app, tasks):
    job = await chain(tasks.fails.call(), tasks.add, tasks.add, tasks.add).enqueue()
    await run(app)

    assert await job.state() == "dead"
    assert tasks.ran == ["fails"]
    assert {found.state for found in await everything(app)} == {"dead"}


async def cancelled(app: App, child: str) -> None:
    await app.job(child).cancel()


async def dropped(app: App, child: str) -> None:
    await (await app.store()).jobs.drop([(await app.job(child).info()).stored.id])


async def died(app: App, child: str) -> None: ...


@pytest.mark.parametrize("end", [cancelled, dropped, died])
async def test_a_part_that_does_not_end_well_never_hangs_the_rest(app, tasks, end):
    odd = tasks.fails.using(delay=1 if end is not died else 0)
    ends: dict[str, list] = {"dead": [], "done": []}
    for policy in ("fail", "skip", "none"):
        parts = group(tasks.add.call(1), odd.call(), tasks.add.call(2), on_failure=policy)
        jobs = [await parts.enqueue(), await chord(parts, tasks.listed).enqueue()]
        if policy != "skip":
            jobs.append(await chain(odd.call(), tasks.seen, on_failure=policy).enqueue())
        ends["dead" if policy == "fail" else "done"] += jobs
    for child in await everything(app, task="fails"):
        await end(app, child.id)
    await run(app)

    for status, jobs in ends.items():
        assert {await job.state() for job in jobs} == {status}
    assert await everything(app, state="waiting") == []


async def test_parts_that_fail_inside_plans_from_a_handler_never_hang(app, tasks):
    @app.task
    async def parent() -> None:
        current().enqueue(chord(group(tasks.fails.call(), tasks.add.call(1)), tasks.total))
        current().enqueue(chord(group(tasks.fails.call(), tasks.add.call(1), on_failure="skip"), tasks.total))

    await parent.enqueue()
    await run(app)

    assert sorted(found.state for found in await everything(app, task="total")) == ["dead", "done"]


async def test_children_made_by_a_handler_are_gathered(app, tasks):
    """How many there are is only known when the handler runs."""

    @app.task
    async def plan(count: int) -> None:
        current().enqueue(chord(group(*(tasks.add.call(number) for number in range(count))), tasks.total.using(id="t")))

    await plan.enqueue(7)
    await run(app)

    [total] = await everything(app, task="total")
    assert await app.job(total.id).result(1) == 28


async def test_a_cancelled_plan_ends_as_a_whole(app, tasks):
    plans = [
        await chain(tasks.add.call(1), tasks.add, tasks.add).enqueue(),
        await group(*(tasks.add.call(number) for number in range(20))).enqueue(),
        await chord(group(*(tasks.add.call(number) for number in range(20))), tasks.total).enqueue(),
    ]
    for plan in plans:
        assert await plan.cancel() == "cancelled"
        with pytest.raises(JobCancelled):
            await plan.result(1)
    await run(app)

    assert tasks.ran == []
    assert {found.state for found in await everything(app)} == {"cancelled"}


async def test_a_cancelled_plan_stops_what_runs_and_begins_nothing_more(live):
    running, begun = asyncio.Event(), []

    @live.task
    async def part(number: int) -> int:
        begun.append(number)
        running.set()
        await asyncio.Event().wait()
        return number

    plan = await group(*(part.call(number) for number in range(10))).enqueue()
    async with live.worker(concurrency=2, lease=1):
        await running.wait()
        await plan.cancel()
        with pytest.raises(JobCancelled):
            await plan.result(20)
        while any(not found.ended for found in await everything(live)):
            await asyncio.sleep(0.02)

    assert len(begun) <= 2


async def test_plans_that_cannot_be_are_refused(app, tasks):
    @app.task
    async def alone() -> None: ...

    for wrong in (
        group,
        lambda: group(tasks.add.call(1), on_failure="perhaps"),
        lambda: chain(tasks.add.call(1), tasks.add, on_failure="skip"),
        lambda: chain(tasks.add.call(1), tasks.add.call(2)),
        lambda: chord(group(tasks.add.call(1)), tasks.add.call(2)),
    ):
        with pytest.raises(InvalidInput):
            wrong()
    with pytest.raises(ConfigError, match="takes no argument"):
        chain(tasks.add.call(1), alone)


async def test_a_part_that_might_be_there_already_is_refused_for_nothing_would_end_the_wait(app, tasks):
    @app.task(unique="5s")
    async def once(a: int = 0) -> int:
        return a

    for odd in (once, tasks.add.using(id="x"), tasks.add.using(unique="5s")):
        for wrong in (
            lambda odd=odd: group(odd.call(1)),
            lambda odd=odd: chain(odd.call(1), tasks.add),
            lambda odd=odd: chain(tasks.add.call(1), odd, tasks.add),
        ):
            with pytest.raises(InvalidInput):
                wrong().jobs()
    with pytest.raises(InvalidInput):
        chain(tasks.add.call(1), once).jobs()


async def test_a_plan_whose_last_job_has_a_chosen_id_is_there_once(app, tasks):
    named = tasks.total.using(id="total:1")
    for plan in (
        chord(group(*(tasks.add.call(number) for number in range(5))), named),
        chain(tasks.add.call(1), tasks.add, tasks.add.using(id="chain:1")),
    ):
        first, second = await plan.enqueue(), await plan.enqueue()
        assert (first.created, second.created, second) == (True, False, first)
        await run(app)
        third = await plan.enqueue()
        await run(app)
        assert (third.created, await third.result(1)) == (False, await first.result(1))

    assert tasks.ran == ["add"] * 5 + ["total"] + ["add"] * 3


async def test_all_jobs_of_a_plan_are_in_one_chain_of_work(app, tasks):
    plans = {
        3: await chain(tasks.add.call(1), tasks.add, tasks.add).enqueue(),
        6: await chord(group(*(tasks.add.call(number) for number in range(5))), tasks.total).enqueue(),
        404: await group(*(tasks.add.call(number) for number in range(401))).enqueue(),  # spread by two jobs
    }
    await run(app)

    for count, plan in plans.items():
        assert len(await everything(app, header=("correlation_id", plan.id))) == count


async def test_a_large_plan_is_cancelled_as_a_whole(app, tasks):
    plan = await group(*(tasks.add.using(delay=60).call(number) for number in range(900))).enqueue()
    await run(app)  # its parts are enqueued by now
    await app.enqueue(*(tasks.add.using(queue="other").call(1) for _ in range(500)))
    assert len(await everything(app, state="scheduled")) == 900

    await plan.cancel()
    assert await everything(app, state="scheduled") == []
    assert await everything(app, state="waiting") == []
    assert len(await everything(app, queue="default", state="cancelled")) == 904


@pytest.mark.parametrize("kind", [kind for kind in kinds() if kind in STORES])
async def test_thousands_of_children_are_gathered_in_order(app, tasks, kind):
    count = 10_000 if kind == "sqlite" else 2_000
    begun = time.process_time()
    plan = chord(group(*(tasks.add.call(number) for number in range(count))), tasks.total)
    job = await plan.enqueue()
    await run(app, concurrency=100)

    assert await job.result(1) == count * (count + 1) // 2
    assert tasks.ran.count("add") == count
    print(f"{kind}: {count} children in {time.process_time() - begun:.1f} s of CPU")  # noqa: T201
