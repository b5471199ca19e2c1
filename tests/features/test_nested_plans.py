"""Plans inside plans: what they hand on, how they fail, and how they are cancelled and replayed as a whole."""

from typing import Any

import pytest

from packhorse import App, InvalidInput, JobCancelled, JobFailed, Plan, chain, chord, group
from tests.features.factories import everything, run


class Tasks:
    """Tasks to make plans of; those whose number is broken fail."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.broken: set[int] = set()
        self.ran: list[int] = []

        @app.task(name="start", attempts=1)
        async def start(number: int) -> int:
            return self._run(number)

        @app.task(name="double", attempts=1)
        async def double(number: int) -> int:
            return 2 * self._run(number)

        @app.task(name="total", attempts=1)
        async def total(parts: list[int]) -> int:
            return sum(parts)

        @app.task(name="listed", attempts=1)
        async def listed(parts: list[int | list[int] | None]) -> list[int | list[int] | None]:
            return parts

        @app.task(name="seen", attempts=1)
        async def seen(before: object) -> str:
            return f"saw {before}"

        @app.task(name="text", attempts=1)
        async def text(size: int) -> str:
            return "x" * size

        @app.task(name="size", attempts=1)
        async def size(parts: list[list[str]]) -> int:
            return sum(len(one) for part in parts for one in part)

        self.start, self.double, self.total, self.listed = start, double, total, listed
        self.seen, self.text, self.size = seen, text, size

    def _run(self, number: int) -> int:
        self.ran.append(number)
        if number in self.broken:
            raise ValueError("broken")
        return number

    def chord(self, *numbers: int) -> Plan[int]:
        return chord(group(*(self.start.call(number) for number in numbers)), self.total)

    def three_levels(self, **options: Any) -> Plan[int]:
        """A chord in a group in a chain: 1 + 2, then 2 * 3 and 3 + 2 * 3, then their sum."""
        inner = chord(group(self.double, self.start), self.total)
        return chain(self.chord(1, 2), group(self.double, inner), self.total.using(**options))


@pytest.fixture
def tasks(app: App) -> Tasks:
    return Tasks(app)


async def end_of(app: App, plan: Plan) -> object:
    handle = await plan.enqueue()
    await run(app)
    assert {job.state for job in await everything(app)} == {"done"}
    return await handle.result(1)


async def test_groups_chords_and_chains_stand_in_groups(app, tasks):
    plan = group(
        tasks.start.call(1), tasks.chord(2, 3), chain(tasks.start.call(4), tasks.double), group(tasks.start.call(5))
    )

    assert await end_of(app, plan) == [1, 5, 8, [5]]


async def test_a_group_or_chord_at_the_head_of_a_chain_gives_its_result_to_the_next(app, tasks):
    parts = group(tasks.start.call(1), tasks.start.call(2))

    assert await end_of(app, chain(parts, tasks.total, tasks.double)) == 6
    assert await end_of(app, chain(chord(parts, tasks.total), tasks.double)) == 6


async def test_tasks_of_a_group_in_the_middle_of_a_chain_each_take_the_result_before_it(app, tasks):
    assert await end_of(app, chain(tasks.start.call(3), group(tasks.double, tasks.start), tasks.total)) == 9
    assert (
        await end_of(
            app, chain(tasks.start.call(3), chord(group(tasks.double, tasks.start), tasks.total), tasks.double)
        )
        == 18
    )


async def test_a_chain_may_end_with_a_group_or_two_groups_follow_each_other(app, tasks):
    assert await end_of(app, chain(tasks.start.call(3), group(tasks.double, tasks.start))) == [6, 3]
    assert await end_of(app, chain(group(tasks.start.call(1)), group(tasks.total, tasks.seen))) == [1, "saw [1]"]


async def test_a_call_in_the_middle_of_a_chain_waits_and_keeps_its_own_arguments(app, tasks):
    plan = chain(tasks.start.call(1), group(tasks.start.call(2), tasks.start.call(3)), tasks.total)

    assert await end_of(app, plan) == 5
    assert tasks.ran[0] == 1


async def test_a_plan_is_three_levels_deep(app, tasks):
    assert await end_of(app, tasks.three_levels()) == 15


async def test_all_jobs_of_a_nested_plan_have_one_correlation_id(app, tasks):
    handle = await tasks.three_levels().enqueue()
    await run(app)

    found = await everything(app)
    assert {job.correlation_id for job in found} == {handle.id}


@pytest.mark.parametrize("broken", [1, 3])
async def test_a_nested_plan_that_failed_is_replayed_as_a_whole(app, tasks, broken):
    tasks.broken = {broken}
    handle = await tasks.three_levels().enqueue()
    await run(app)
    with pytest.raises(JobFailed):
        await handle.result(1)
    done = {job.id for job in await everything(app, state="done")}
    tasks.broken, tasks.ran = set(), []

    assert await handle.replay()
    await run(app)

    assert await handle.result(1) == 15
    assert {job.state for job in await everything(app)} == {"done"}
    assert done <= {job.id for job in await everything(app, state="done")}
    assert 2 not in tasks.ran  # done before, and its result is still used


async def test_a_nested_plan_is_cancelled_as_a_whole(app, tasks):
    handle = await tasks.three_levels().enqueue()

    assert await handle.cancel() == "cancelled"
    await run(app)

    assert tasks.ran == []
    assert {job.state for job in await everything(app)} == {"cancelled"}
    assert await handle.replay()
    await run(app)
    assert await handle.result(1) == 15


async def test_a_nested_plan_is_cancelled_as_a_whole_when_its_group_was_enqueued_by_a_job(app, tasks):
    later = tasks.double.using(queue="later")
    handle = await chain(
        tasks.chord(1, 2), group(later, chord(group(later, later), tasks.total)), tasks.total
    ).enqueue()
    await run(app, ["default"])
    assert (await app.queue("later").counts())["ready"] == 3

    assert await handle.cancel() == "cancelled"
    await run(app, ["default", "later"])

    with pytest.raises(JobCancelled):
        await handle.result(1)
    assert sorted(tasks.ran) == [1, 2]
    assert all(job.ended for job in await everything(app))
    assert await handle.replay()
    await run(app, ["default", "later"])
    assert await handle.result(1) == 18
    assert sorted(tasks.ran) == [1, 2, 3, 3, 3]


@pytest.mark.parametrize(("policy", "result"), [("none", [None, 2]), ("skip", [2])])
async def test_a_part_that_is_a_plan_and_fails_means_what_the_policy_of_its_group_says(app, tasks, policy, result):
    tasks.broken = {1}
    plan = chord(group(tasks.chord(1, 5), tasks.start.call(2), on_failure=policy), tasks.listed)
    handle = await plan.enqueue()
    await run(app)

    assert await handle.result(1) == result


async def test_a_chain_whose_policy_is_none_gives_none_for_a_group_that_failed(app, tasks):
    tasks.broken = {1}
    plan = chain(group(tasks.start.call(1), tasks.start.call(2)), tasks.seen, on_failure="none")
    handle = await plan.enqueue()
    await run(app)

    assert await handle.result(1) == "saw None"


async def test_a_group_in_the_middle_whose_input_failed_follows_the_policy_of_the_chain(app, tasks):
    tasks.broken = {1}
    handles = [
        await chain(tasks.start.call(1), group(tasks.seen, tasks.seen), on_failure=policy).enqueue()
        for policy in ("none", "fail")
    ]
    await run(app)

    assert await handles[0].result(1) == ["saw None"] * 2
    with pytest.raises(JobFailed, match="ChildFailed"):
        await handles[1].result(1)


async def test_a_nested_plan_with_a_chosen_id_is_stored_once(app, tasks):
    first = await tasks.three_levels(id="report-7").enqueue()
    again = await tasks.three_levels(id="report-7").enqueue()
    await run(app)

    assert (first.created, again.created, first == again) == (True, False, True)
    assert await again.result(1) == 15
    assert sorted(tasks.ran) == [1, 2, 3, 3, 3]


async def test_only_the_last_job_of_a_nested_plan_has_an_id(app, tasks):
    inner = chain(tasks.start.call(1), tasks.double.using(id="x"))
    for wrong in (lambda: group(inner), lambda: chain(inner, tasks.double)):
        with pytest.raises(InvalidInput, match="only the last job has an id"):
            wrong()


async def test_hundreds_of_small_plans_stand_in_a_group(app, tasks):
    count = 150
    plan = chord(group(*(tasks.chord(number, number, number) for number in range(count))), tasks.total)

    assert await end_of(app, plan) == 3 * sum(range(count))


async def test_a_large_group_takes_the_result_before_it(app, tasks):
    assert await end_of(app, chain(tasks.start.call(2), group(*[tasks.double] * 450), tasks.total)) == 1800


async def test_lists_of_groups_in_groups_may_be_larger_than_one_result(app, tasks):
    part = group(*[tasks.text.call(400_000)] * 3)

    assert await end_of(app, chord(group(part, part), tasks.size)) == 2_400_000


async def test_an_input_that_is_too_large_for_a_job_of_the_group_makes_the_plan_dead_with_the_reason(app, tasks):
    handle = await chain(tasks.text.call(1_048_574), group(tasks.seen, tasks.seen)).enqueue()
    await run(app)

    with pytest.raises(JobFailed, match="PayloadTooLarge"):
        await handle.result(1)


async def test_a_group_of_too_many_bytes_behind_a_chain_is_refused(app, tasks):
    plan = chain(tasks.start.call(1), group(*[tasks.seen.call("x" * 100_000)] * 9))
    with pytest.raises(InvalidInput, match="must fit into one job"):
        await plan.enqueue()
