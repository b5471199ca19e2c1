"""What travels beside the arguments: tenant, user, headers, the chain of work; readable in handlers, logs and search."""

import logging
from datetime import UTC, datetime, timedelta

import pytest

from packhorse import App, Batch, InvalidInput, Job, chain, correlated, current, group
from packhorse.errors import InvalidOption, PayloadTooLarge
from packhorse.jobs.search import PAGE_SIZE
from packhorse.model.ids import id_text
from packhorse.model.job import NewJob
from packhorse.testing.clock import START_US
from tests.features.factories import SECOND, everything, run

MOMENT = datetime.fromtimestamp(START_US / SECOND, UTC)


async def test_s12_a_handler_knows_for_whom_and_since_when_it_works(app, clock):
    seen = []

    @app.task
    async def export() -> None:
        ctx = current()
        seen.append((ctx.tenant, ctx.user, ctx.headers["plan"], ctx.enqueued_at, ctx.queue, ctx.idempotency_key))

    job = await export.using(tenant="t1", user="u1", headers={"plan": {"name": "gold"}}, delay=60).enqueue()
    clock.turn(60 * SECOND)
    await run(app)

    assert seen == [("t1", "u1", {"name": "gold"}, MOMENT, "default", job.id)]


async def test_s12_the_job_that_a_handler_or_a_batch_is_given_says_since_when_it_runs(app, clock):
    seen: dict[str, tuple[str, datetime | None]] = {}

    @app.queue("hooks").handler
    async def handle(job: Job) -> None:
        seen[job.queue] = (job.state.value, job.started_at)

    @app.queue("mail").batch(size=1, wait=0)
    async def together(batch: Batch) -> None:
        for message in batch:
            seen[message.job.queue] = (message.job.state.value, message.job.started_at)

    for queue in ("hooks", "mail"):
        await app.queue(queue).enqueue("work")
    clock.turn(60 * SECOND)
    await run(app)

    assert seen == dict.fromkeys(("hooks", "mail"), ("running", MOMENT + timedelta(minutes=1)))


async def test_s12_threads_know_it_too(app):
    seen = []

    @app.task
    def export() -> None:
        seen.append((current().tenant, current().user))

    await export.using(tenant="t1", user="u1").enqueue()
    await run(app)

    assert seen == [("t1", "u1")]


async def test_s12_names_of_our_own_are_not_for_free_headers(memory):
    @memory.task
    async def export() -> None: ...

    for name in ("tenant", "user", "correlation_id", "packhorse", "traceparent", "tracestate", "baggage"):
        with pytest.raises(InvalidOption, match=name):
            export.using(headers={name: "x"})
    with pytest.raises(PayloadTooLarge):
        await export.using(headers={"a": "x" * (16 << 10)}).enqueue()
    with pytest.raises(InvalidInput):
        export.using(tenant="")


@pytest.fixture
async def crowd(app: App, clock) -> dict[str, str]:
    """Jobs that differ in all that can be looked for; answers ids by name."""

    @app.task(name="good", queue="a")
    async def good() -> None: ...

    @app.task(name="bad", queue="b", attempts=1)
    async def bad() -> None:
        raise KeyError("gone missing")

    made = {
        "old": await good.enqueue(),
        "tenant": await good.using(tenant="t1").enqueue(),
        "key": await good.using(key="k1").enqueue(),
        "header": await good.using(headers={"plan": "gold"}).enqueue(),
        "bad": await bad.using(tenant="t1").enqueue(),
    }
    await run(app)
    clock.turn(60 * SECOND)
    made["new"] = await good.enqueue()
    made["later"] = await bad.using(delay=60).enqueue()
    return {job.id: name for name, job in made.items()}


ALL = {"old", "tenant", "key", "header", "bad", "new", "later"}


FOUND = [
    ({}, ALL),
    ({"queue": "a"}, ALL - {"bad", "later"}),
    ({"queue": "nowhere"}, set()),
    ({"task": "bad"}, {"bad", "later"}),
    ({"state": "done"}, {"old", "tenant", "key", "header"}),
    ({"state": "dead"}, {"bad"}),
    ({"state": "scheduled"}, {"later"}),
    ({"state": "ready", "queue": "a"}, {"new"}),
    ({"reason": "exhausted"}, {"bad"}),
    ({"key": "k1"}, {"key"}),
    ({"tenant": "t1"}, {"tenant", "bad"}),
    ({"tenant": "t1", "state": "done"}, {"tenant"}),
    ({"header": ("plan", "gold")}, {"header"}),
    ({"header": ("plan", "iron")}, set()),
    ({"error": "gone missing"}, {"bad"}),
    ({"error": "KeyError"}, {"bad"}),
    ({"error": "ValueError"}, set()),
    ({"enqueued_after": MOMENT + timedelta(seconds=1)}, {"new", "later"}),
    ({"enqueued_after": MOMENT}, ALL),
]


async def test_s12_jobs_are_found_by_what_is_stored_of_them(app, crowd):
    for wanted, names in FOUND:
        assert {crowd[job.id] for job in await everything(app, **wanted)} == names, wanted


async def test_s12_jobs_are_found_page_by_page(app, crowd):
    seen, cursor = [], None
    while True:
        page = await app.find(limit=2, cursor=cursor)
        assert len(page.items) <= 2
        seen += [job.id for job in page.items]
        cursor = page.cursor
        if cursor is None:
            break

    assert sorted(seen) == sorted(crowd)


async def test_s12_all_jobs_are_found_however_many_pages_they_are(app):
    calls = [app.queue("crowd").call("one", {"number": number}) for number in range(PAGE_SIZE + 3)]
    await app.enqueue(*calls[:PAGE_SIZE])
    await app.enqueue(*calls[PAGE_SIZE:], app.queue("crowd").call("other"))

    found = [job.data["number"] async for job in app.jobs(queue="crowd", task="one")]

    assert sorted(found) == [*range(PAGE_SIZE + 3)]
    assert [job.task async for job in app.jobs(state="ready", task="other")] == ["other"]
    assert [job async for job in app.jobs(state="dead")] == []


@pytest.mark.parametrize(
    "wrong", [{"state": "sleeping"}, {"reason": "bored"}, {"enqueued_after": datetime(2024, 1, 1)}]
)
async def test_s12_what_cannot_be_looked_for_is_refused(memory, wrong):
    with pytest.raises(InvalidInput):
        await memory.find(**wrong)
    with pytest.raises(InvalidInput):
        memory.jobs(**wrong)


class Chain:
    """Tasks that call each other, each noting the chain of work it is in."""

    def __init__(self, app: App) -> None:
        self.seen: list[tuple[str, str | None]] = []

        def note(name: str) -> None:
            self.seen.append((name, current().correlation_id))
            current().log.warning("in %s", name)

        @app.task(name="grandchild")
        def grandchild() -> None:
            note("grandchild")

        @app.task(name="child")
        async def child(number: int = 0) -> int:
            note("child")
            await grandchild.enqueue()
            return number

        @app.task(name="parent")
        async def parent() -> None:
            note("parent")
            current().enqueue(child.call(), chain(child.call(1), child), group(child.call(2), child.call(3)))

        self.parent = parent


async def test_s41_one_id_greps_the_whole_chain(app, caplog):
    work = Chain(app)
    with correlated("request-7"), caplog.at_level(logging.DEBUG, "packhorse"):
        await work.parent.enqueue()
        await run(app)

    assert sorted(name for name, _ in work.seen) == ["child"] * 5 + ["grandchild"] * 5 + ["parent"]
    assert {chain for _, chain in work.seen} == {"request-7"}
    jobs = await everything(app)
    assert len(jobs) == len(await everything(app, header=("correlation_id", "request-7"))) == 12
    assert {job.correlation_id for job in jobs} == {"request-7"}
    lines = [record for record in caplog.records if hasattr(record, "job_id")]
    assert {record.correlation_id for record in lines} == {"request-7"}
    assert {record.task for record in lines} >= {"parent", "child", "grandchild"}
    assert {record.event for record in lines if record.name == "packhorse"} >= {"started", "done"}
    assert len([record for record in lines if record.name == "packhorse.job"]) == 11


async def test_s41_a_chain_begins_with_its_first_job_unless_the_caller_names_it(app):
    work = Chain(app)
    first = await work.parent.enqueue()
    named = await work.parent.using(correlation_id="mine").enqueue()
    with correlated("ours"):
        over = await work.parent.using(correlation_id="mine").enqueue()

    assert (await first.info()).correlation_id == first.id
    assert (await named.info()).correlation_id == (await over.info()).correlation_id == "mine"
    await run(app)
    assert {chain for _, chain in work.seen} == {first.id, "mine"}


async def test_s41_retries_stay_in_their_chain(app, clock, caplog):
    seen = []

    @app.task(attempts=2)
    async def flaky() -> None:
        seen.append(current().correlation_id)
        raise ValueError("no")

    with correlated("request-7"):
        await flaky.enqueue()
    await run(app)
    clock.turn(2 * SECOND)
    await run(app)

    assert seen == ["request-7"] * 2
    reported = {record.event: record.correlation_id for record in caplog.records if record.name == "packhorse"}
    assert reported["retrying"] == reported["dead"] == "request-7"


async def test_s12_logs_name_the_job_and_never_its_arguments(app, caplog):
    @app.task(attempts=1)
    async def secretive(password: str) -> None:
        raise ValueError("no")

    with caplog.at_level(logging.DEBUG, "packhorse"):
        job = await secretive.using(tenant="t1").enqueue("hunter2")
        await run(app)

    [line] = [record for record in caplog.records if getattr(record, "event", "") == "dead"]
    assert (line.job_id, line.queue, line.attempt) == (job.id, "default", 1)
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize("headers", [b"[1]", b'"x"', b'{"packhorse": 5, "shop": "north"}'])
async def test_one_job_whose_headers_cannot_be_read_hides_no_other(app, headers):
    @app.task(name="export")
    async def export() -> None: ...

    good = await export.using(headers={"shop": "north"}).enqueue()
    store = await app.store()
    [receipt] = await store.jobs.enqueue([NewJob(task="export", payload=b"{}", headers=headers)])
    bad = app.job(id_text(receipt.id))

    assert good.id in [job.id for job in (await app.find(header=("shop", "north"))).items]
    assert (await bad.info()).chosen_id is None
    assert {(job.id, job.user, job.correlation_id is None) for job in (await app.find()).items} == {
        (good.id, None, False),
        (bad.id, None, not headers.startswith(b"{")),
    }


@pytest.mark.parametrize(
    "headers", [b'{"packhorse": 5}', b'{"packhorse": {"results": 7}}', b'{"packhorse":', b'["packhorse":']
)
async def test_a_job_whose_headers_cannot_be_read_is_dead_as_undecodable_and_the_others_run(app, headers):
    @app.task(name="export", attempts=3)
    async def export() -> None: ...

    store = await app.store()
    receipts = await store.jobs.enqueue(
        [NewJob(task="export"), NewJob(task="export", headers=headers), NewJob(task="export")]
    )
    await run(app)

    found = await store.jobs.get([receipt.id for receipt in receipts])
    assert [job.state for job in found] == ["done", "dead", "done"]
    assert (found[1].reason, found[1].attempt) == ("undecodable", 1)


@pytest.mark.parametrize("headers", [b"{", b"[1]", b""])
async def test_a_job_that_asks_for_headers_that_cannot_be_read_is_dead_as_undecodable(app, headers):
    @app.task(name="export", attempts=3)
    async def export() -> None:
        current().headers["shop"]

    store = await app.store()
    receipts = await store.jobs.enqueue([NewJob(task="export", headers=headers)])
    await run(app)

    [found] = await store.jobs.get([receipts[0].id])
    assert (found.state, found.reason, found.attempt) == ("dead", "undecodable", 1)
