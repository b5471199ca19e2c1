"""What code can do about dead jobs: find, group, replay, replay with other arguments, drop."""

import asyncio
from collections.abc import Iterator

import pytest

from packhorse import ErrorGroup, InvalidInput, JobNotFound, chain
from packhorse.errors import EmptyFilter, InvalidOption, StoreUnavailable, WrongArguments
from packhorse.jobs.portal import PORTAL
from packhorse.model.record import SEEN
from packhorse.testing import run_until_idle
from packhorse.testing.faults import DropRequest, Faulty
from tests.factories import DEAD, SECOND, end, take

PARTS = {"a": ValueError, "b": KeyError}


class Shop:
    """Jobs that die of two errors, until they are repaired."""

    def __init__(self, app) -> None:
        self.app, self.paid = app, list[str]()

        @app.task(name="pay", queue="money", attempts=1)
        async def pay(order: str, amount: int = 1) -> str:
            if order in PARTS:
                raise PARTS[order](f"not paid: {order}")
            self.paid.append(order)
            return order

        self.pay = pay

    async def die(self, orders: str = "aab"):
        jobs = [await self.pay.enqueue(order) for order in orders]
        await run_until_idle(self.app)
        return jobs


@pytest.fixture
def shop(app) -> Shop:
    return Shop(app)


@pytest.fixture
def small(memory) -> Shop:
    """The same in memory: for what does not depend on the store."""
    return Shop(memory)


@pytest.fixture
def portal() -> Iterator[None]:
    """The thread of blocking calls ends with the test."""
    yield
    PORTAL.stop()


async def test_s22_dead_jobs_are_found_as_letters(shop):
    first, _, other = await shop.die()
    page = await shop.app.dead.find(queue="money", error="not paid: b")

    assert [letter.job_id for letter in page.items] == [other.id]
    letter = await shop.app.dead.get(first.id)
    assert (letter.arguments, letter.error_type) == ({"order": "a"}, "ValueError")
    assert [each.job_id for each in (await shop.app.dead.find(limit=2)).items] != []
    assert (await shop.app.dead.find(task="other")).items == ()


async def test_a_job_that_is_not_dead_has_no_letter(small):
    job = await small.pay.enqueue("c")
    with pytest.raises(InvalidOption, match="is ready, not dead"):
        await small.app.dead.get(job.id)
    with pytest.raises(JobNotFound):
        await small.app.dead.get("unknown")


async def test_who_looks_at_dead_jobs_has_seen_those_of_their_queue(small, clock):
    await small.die()
    clock.turn(SECOND)
    store = await small.app.store()
    assert await store.records.get(SEEN, ["money"]) == [None]
    await small.app.dead.find()
    [record] = await store.records.get(SEEN, ["money"])
    assert record.value == str(clock.now()).encode()


async def test_s22_groups_are_counted_where_there_is_a_handler(shop):
    shop.app.dead_letters()(lambda letter: None)
    jobs = await shop.die()
    await jobs[0].replay()
    await run_until_idle(shop.app)
    groups = await shop.app.dead.groups()

    assert {group.error_type: group.deaths for group in groups} == {"ValueError": 3, "KeyError": 1}
    assert all(group.exact for group in groups)
    [letter] = (await shop.app.dead.find(error="not paid: b")).items
    assert letter.fingerprint in {group.fingerprint for group in groups}


async def test_s22_groups_without_a_handler_are_made_of_the_dead_jobs_that_are_kept(small):
    await small.die()
    groups = await small.app.dead.groups()

    assert {group.error_type: group.deaths for group in groups} == {"ValueError": 2, "KeyError": 1}
    assert not any(group.exact for group in groups)


async def test_s22_dead_jobs_are_replayed_by_id_filter_and_group(shop, monkeypatch):
    first, second, other = await shop.die()
    living = await shop.pay.enqueue("c")
    monkeypatch.delitem(PARTS, "a")
    group = next(each for each in await shop.app.dead.groups() if each.error_type == "ValueError")
    assert isinstance(group, ErrorGroup)

    assert (await shop.app.dead.replay(group=group, dry_run=True)).total == 2
    assert (await first.info()).state == "dead"
    run = await shop.app.dead.replay([first.id, living.id])
    assert (run.counts.changed, set(run.unchanged)) == (1, {living.id})
    assert (await shop.app.dead.replay(group=group.fingerprint)).counts.changed == 1
    await run_until_idle(shop.app)
    assert [(await job.info()).state for job in (first, second, other)] == ["done", "done", "dead"]
    assert (await shop.app.dead.replay(error="not paid")).counts.changed == 1


async def test_s22_dead_jobs_are_dropped_and_no_others(shop):
    first, second, other = await shop.die()
    living = await shop.pay.enqueue("c")

    assert (await shop.app.dead.drop(living.id)).counts.changed == 0
    assert (await shop.app.dead.drop(first.id)).counts.changed == 1
    assert (await shop.app.dead.drop(all=True)).counts.changed == 2
    assert [await job.state() for job in (first, second, other, living)] == ["unknown", "unknown", "unknown", "ready"]


async def test_s22_every_action_is_audited(shop):
    first, second, _ = await shop.die()
    await shop.app.dead.replay(first.id)
    edited = await shop.app.dead.replay(second.id, arguments={"order": "c"})
    await shop.app.dead.drop(queue="money")
    entries = [entry for entry in await shop.app.audit.entries() if entry.outcome == "done"]

    assert [(entry.action, entry.count) for entry in entries] == [
        ("replay", 1),
        ("replay with other arguments", 1),
        ("drop", 1),
    ]
    assert entries[1].target == f"{second.id} as {edited.job_id}"


async def test_an_action_on_nothing_in_particular_is_refused(small):
    for act in (small.app.dead.replay, small.app.dead.drop):
        with pytest.raises(EmptyFilter):
            await act()
        with pytest.raises(EmptyFilter):
            await act(limit=5)
        with pytest.raises(EmptyFilter):
            await act(all=False)
        with pytest.raises(InvalidOption, match="no filter can be given"):
            await act(all=True, queue="money")
        with pytest.raises(InvalidInput):
            await act(["a"], queue="money")


async def test_s22_a_dead_job_is_replayed_with_other_arguments_as_a_new_one(shop):
    [dead, *_] = await shop.die("a")
    old = await dead.info()
    plan = await shop.app.dead.replay(dead.id, arguments={"order": "c", "amount": 2}, dry_run=True)
    assert (plan.done, plan.refused, plan.task, plan.queue) == (False, "", "pay", "money")
    assert await dead.state() == "dead"

    made = await shop.app.dead.replay(dead.id, arguments={"order": "c", "amount": 2})
    assert (made.job_id, made.replaces, made.done) == (plan.job_id, dead.id, True)
    new = await shop.app.job(made.job_id).info()
    assert new.data == {"order": "c", "amount": 2}
    assert (new.headers["replay_of"], new.correlation_id) == (dead.id, old.correlation_id)
    assert await dead.state() == "unknown"
    await run_until_idle(shop.app)
    assert shop.paid == ["c"]


async def test_a_replacement_keeps_options_headers_and_lane_and_leaves_out_the_chosen_id(small):
    dead = await small.pay.using(
        id="order:7", key="k", tenant="t", priority=3, attempts=7, headers={"x": 1}, correlation_id="c-1"
    ).enqueue("a")
    store = await small.app.store()
    [lease] = await take(store, 1, "money")
    await end(store, lease, DEAD)
    made = await small.app.dead.replay("order:7", arguments={"order": "c"})
    new = await small.app.job(made.job_id).info()

    assert (new.key, new.tenant, new.priority, new.headers["x"], new.correlation_id) == ("k", "t", 3, 1, "c-1")
    assert new.headers["packhorse"]["options"] == {"attempts": 7, "priority": 3}
    assert new.chosen_id.startswith(f"replay:{dead.id}:")


@pytest.mark.parametrize("arguments", [{"order": 5}, {}, {"order": "c", "more": 1}])
async def test_arguments_that_the_task_would_not_take_are_refused(small, arguments):
    [dead] = await small.die("a")
    plan = await small.app.dead.replay(dead.id, arguments=arguments, dry_run=True)
    assert plan.refused
    with pytest.raises(WrongArguments):
        await small.app.dead.replay(dead.id, arguments=arguments)
    assert await dead.state() == "dead"


async def test_arguments_of_unknown_tasks_and_of_parts_of_plans_are_refused(shop, make, clock):
    [dead] = await shop.die("a")
    with pytest.raises(InvalidOption, match="does not know the task"):
        await make(clock=clock).dead.replay(dead.id, arguments={"order": "c"})
    plan = await chain(shop.pay.call("a"), shop.pay).enqueue()
    await run_until_idle(shop.app)
    assert plan is not None
    parts = [letter for letter in (await shop.app.dead.find()).items if letter.job_id != dead.id]
    for part in parts:
        with pytest.raises(InvalidOption, match="part of a plan"):
            await shop.app.dead.replay(part.job_id, arguments={"order": "c"})
    assert parts


async def test_a_replay_that_died_before_it_dropped_the_dead_job_runs_nothing_twice(shop, monkeypatch):
    first, second = await shop.die("aa")
    store = await shop.app.store()
    lost = Faulty(store, lambda name, _: DropRequest() if name == "jobs.drop" else None)

    async def faulty():
        return lost

    for dead in (first, second):
        with monkeypatch.context() as patch:
            patch.setattr(shop.app.client, "store", faulty)
            with pytest.raises(StoreUnavailable):
                await shop.app.dead.replay(dead.id, arguments={"order": "c"})
        assert await dead.state() == "dead"
    again = await shop.app.dead.replay(first.id, arguments={"order": "d"})
    assert (again.done, again.arguments) == (True, {"order": "c"})
    run = await shop.app.dead.replay(second.id)
    assert run.counts.changed == 0
    await run_until_idle(shop.app)

    assert shop.paid == ["c", "c"]
    assert [await dead.state() for dead in (first, second)] == ["unknown", "unknown"]


async def test_the_same_without_an_event_loop(shop, portal):
    await shop.die()

    def blocking():
        dead = shop.app.sync.dead
        page, groups = dead.find(), dead.groups()
        letter = dead.get(page.items[0].job_id)
        plan = dead.replay(letter.job_id, arguments={"order": "c"}, dry_run=True)
        counts = dead.replay(letter.job_id, dry_run=True), dead.drop(all=True)
        died = [event.job_id for event in shop.app.sync.events("dead", after="earliest", follow=False)]
        shop.app.sync.close()
        runs = [(run.total, run.result().changed) for run in counts]
        return len(page.items), len(groups), plan.refused, runs, len(died)

    assert await asyncio.to_thread(blocking) == (3, 2, "", [(1, 0), (3, 3)], 3)
