"""Jobs that must not be there twice: by a chosen id, or by a unique key with its scope."""

import asyncio
from datetime import date, timedelta

import pytest

from packhorse import App, InvalidInput, Unique
from packhorse.errors import InvalidId
from packhorse.model.ids import chosen_id, id_text
from tests.features.factories import DAY, HOUR, MINUTE, SECOND, everything, run


@pytest.fixture
def ran() -> list[object]:
    return []


@pytest.fixture
def work(app: App, ran: list[object]):
    """A task that notes its argument."""

    @app.task(name="work")
    async def work(what: object = None) -> None:
        ran.append(what)

    return work


async def prune(app: App) -> None:
    await (await app.store()).jobs.prune(500)


@pytest.mark.parametrize("key", ["\ud800", "", "a\nb", 5])
async def test_s05_a_unique_key_that_cannot_be_stored_is_refused_in_words(memory, key):
    with pytest.raises(InvalidInput, match="unique key"):
        Unique(key=key, until="finished")


async def test_s05_a_chosen_id_gives_the_first_job(app, work, ran):
    first = await work.using(id="llm:42").enqueue("first")
    second = await work.using(id="llm:42").enqueue("second")
    await run(app)

    assert (first.created, second.created) == (True, False)
    assert first == second
    assert first.id == second.id == id_text(chosen_id(app.namespace, "llm:42"))
    assert ran == ["first"]
    assert (await first.info()).chosen_id == "llm:42"


async def test_s05_a_chosen_id_is_known_in_every_program_of_the_namespace(make, work):
    other = make()

    @other.task(name="other")
    async def elsewhere() -> None: ...

    first = await work.using(id="llm:42").enqueue()
    second = await elsewhere.using(id="llm:42").enqueue()

    assert (second.created, second.id) == (False, first.id)


async def test_s05_a_chosen_id_holds_for_seven_days_whatever_retention_says(app, work, ran, clock):
    first = await work.using(id="llm:42", keep_done=0).enqueue("first")
    await run(app)
    await prune(app)
    assert await first.state() == "unknown"

    clock.turn(7 * DAY - MINUTE)
    await prune(app)
    again = await work.using(id="llm:42").enqueue("again")
    await run(app)
    assert (again.created, again.id, ran) == (False, first.id, ["first"])

    clock.turn(2 * MINUTE)
    await prune(app)
    assert (await work.using(id="llm:42").enqueue("anew")).created
    await run(app)
    assert ran == ["first", "anew"]


async def test_s05_of_fifty_at_once_one_makes_the_job(make):
    apps = [make() for _ in range(5)]
    calls = [app.queue("default").call("work", {"n": n}).using(id="llm:42") for n, app in enumerate(apps * 10)]
    handles = [
        one for [one] in await asyncio.gather(*(app.enqueue(call) for app, call in zip(apps * 10, calls, strict=True)))
    ]

    assert sum(handle.created for handle in handles) == 1
    assert len({handle.id for handle in handles}) == 1
    assert len(await everything(apps[0])) == 1


async def test_s28_the_same_key_within_the_window_is_the_same_job(app, work, clock):
    five = work.using(unique=Unique(key="request-1", within="5s"))
    first = await five.enqueue("first")
    clock.turn(4_900_000)
    second = await five.enqueue("other arguments")
    assert (first.created, second.created, second.id) == (True, False, first.id)

    clock.turn(200_000)
    third = await five.enqueue("third")
    assert third.created
    assert third != first


async def test_s28_duplicates_do_not_extend_the_window(app, work, clock):
    five = work.using(unique=Unique(key="request-1", within="5s"))
    created = []
    for _ in range(12):
        created.append((await five.enqueue()).created)
        clock.turn(SECOND)

    assert [second for second, new in enumerate(created) if new] == [0, 5, 10]


async def test_s28_the_window_outlives_the_job_and_its_retention(app, work, clock):
    five = work.using(unique=Unique(key="request-1", within="5s"), keep_done=0)
    first = await five.enqueue("first")
    await run(app)
    await prune(app)
    assert await first.state() == "unknown"

    second = await five.enqueue("second")
    assert (second.created, second.id) == (False, first.id)


async def test_s28_of_fifty_at_once_one_makes_the_job(make):
    apps = [make() for _ in range(5)]
    unique = Unique(key="request-1", within="5m")

    async def one(number: int):
        return await apps[number % 5].queue("default").enqueue("work", {"number": number}, unique=unique)

    handles = await asyncio.gather(*map(one, range(50)))

    assert sum(handle.created for handle in handles) == 1
    assert len({handle.id for handle in handles}) == 1
    assert len(await everything(apps[0])) == 1


async def test_s28_without_a_key_the_same_arguments_are_the_same(app, work, clock):
    five = work.using(unique="5s")
    first, same, other = [await five.enqueue(what) for what in ({"a": 1}, {"a": 1}, {"a": 2})]

    assert (first.created, same.created, other.created) == (True, False, True)
    assert same == first

    @app.task(name="other", unique="5s")
    async def elsewhere(what: object) -> None: ...

    assert (await elsewhere.enqueue({"a": 1})).created
    assert not (await elsewhere.enqueue({"a": 1})).created
    clock.turn(5_100_000)
    assert (await elsewhere.enqueue({"a": 1})).created


async def test_s28_until_started_one_may_wait_while_one_runs(live):
    started, go = asyncio.Event(), asyncio.Event()

    @live.task(unique=Unique(key="sync", until="started"))
    async def sync() -> None:
        started.set()
        await go.wait()

    first, again = await sync.enqueue(), await sync.enqueue()
    assert (first.created, again.created) == (True, False)
    async with live.worker(concurrency=1):
        await started.wait()
        next_one, again = await sync.enqueue(), await sync.enqueue()
        assert (next_one.created, again.created, again.id) == (True, False, next_one.id)
        go.set()
        await next_one.result(20)


async def test_s28_until_finished_none_is_added_while_one_runs_or_is_retried(app, clock):
    failing = True

    @app.task(unique=Unique(key="sync", until="finished"))
    async def sync() -> None:
        if failing:
            raise ValueError("no")

    first = await sync.enqueue()
    await run(app)
    assert await first.state() == "scheduled"
    assert not (await sync.enqueue()).created

    failing = False
    clock.turn(2 * SECOND)
    await run(app)
    assert await first.state() == "done"
    assert (await sync.enqueue()).created


@pytest.mark.parametrize("until", ["started", "finished"])
async def test_s28_a_cancelled_job_frees_its_key(app, work, until):
    one = work.using(unique=Unique(key="sync", until=until), delay="1h")
    await (await one.enqueue()).cancel()

    assert (await one.enqueue()).created


async def test_s28_keys_longer_than_a_store_takes_are_distinguished(app, work):
    long = "x" * 5000
    first = await work.using(unique=Unique(key=long + "a", within=HOUR // SECOND)).enqueue()
    other = await work.using(unique=Unique(key=long + "b", within=HOUR // SECOND)).enqueue()
    again = await work.using(unique=Unique(key=long + "a", within=HOUR // SECOND)).enqueue()

    assert (first.created, other.created, again.created) == (True, True, False)


async def test_scopes_that_contradict_or_do_not_exist_are_refused(memory):
    @memory.task
    async def work() -> None: ...

    for wrong in (Unique(within="5s", until="started"), Unique(until="tomorrow"), Unique(within="-5s")):
        with pytest.raises(InvalidInput):
            await work.using(unique=wrong).enqueue()
    with pytest.raises(InvalidInput):
        work.using(id="a\nb")
    with pytest.raises(InvalidId):
        memory.job(42)  # type: ignore[arg-type]


async def test_a_job_is_found_by_its_id_or_its_chosen_id_with_the_type_of_its_task(app, make, clock):
    @app.task
    async def tomorrow(day: date) -> date:
        return day + timedelta(days=1)

    job = await tomorrow.using(id="day:1").enqueue(date(2026, 1, 31))
    await run(app)

    assert app.job(job.id) == app.job("day:1") == tomorrow.job("day:1") == job
    assert await make(clock=clock).job("day:1").result(1) == "2026-02-01"
    assert await tomorrow.job("day:1").result(1) == await tomorrow.job(job.id).result(1) == date(2026, 2, 1)
    assert await app.job("day:2").state() == "unknown"
    with pytest.raises(InvalidInput):
        app.job("a\nb")
