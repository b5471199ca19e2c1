"""What is set for jobs on the app, the queue, the task and the call: who has the last word, and what if nobody speaks."""

from datetime import timedelta
from typing import Any

import pytest

from packhorse import App, Backoff, InvalidInput, Keep, constant, exponential
from packhorse.engine.attempt import Attempt
from packhorse.engine.policy import Policy
from packhorse.engine.registry import Batching
from packhorse.engine.worker import Settings
from packhorse.errors import PayloadTooLarge
from packhorse.jobs import retrying
from packhorse.model import job, limits
from packhorse.model.job import LEASE_US, REMEMBER_US
from packhorse.stores import file_of
from tests.factories import take
from tests.features.factories import DAY, HOUR, SECOND, run

LEVELS = ("app", "queue", "task", "call")
NAMES = {
    "attempts": (2, 4, 5, 6),
    "backoff": (constant(2), constant(4), constant(5), constant(6)),
    "timeout": ("2s", "4s", "5s", "6s"),
    "priority": (2, 4, 5, 6),
    "keep_done": (Keep(2, "2h"), Keep(4, "4h"), Keep(5, "5h"), Keep(6, "6h")),
    "keep_dead": (Keep(2, "2h"), Keep(4, "4h"), Keep(5, "5h"), Keep(6, "6h")),
}
STORED = {
    "attempts": (2, 4, 5, 6),
    "backoff": NAMES["backoff"],
    "timeout": tuple(seconds * SECOND for seconds in (2, 4, 5, 6)),
    "priority": (2, 4, 5, 6),
    "keep_done": tuple(job.Retention(number, number * HOUR) for number in (2, 4, 5, 6)),
    "keep_dead": tuple(job.Retention(number, number * HOUR) for number in (2, 4, 5, 6)),
}


async def seen_by_a_worker(app: App, queue: str = "email") -> tuple[Policy, int]:
    """The rules under which a worker would run the one job of a queue, and its priority."""
    [lease] = await take(await app.store(), 1, queue)
    entry = app.registry.find(lease.task, lease.queue)
    assert entry is not None
    return Attempt(lease, entry).policy, lease.priority


@pytest.mark.parametrize(
    "speakers", [s for n in range(1, 16) if (s := [x for i, x in enumerate(LEVELS) if n >> i & 1])]
)
@pytest.mark.parametrize("name", NAMES)
async def test_s07_call_over_task_over_queue_over_app(speakers: list[str], name: str):
    given: dict[str, Any] = {level: {name: NAMES[name][LEVELS.index(level)]} for level in speakers}
    async with App("sqlite:///:memory:", **given.get("app", {})) as app:
        app.queue("email", **given.get("queue", {}))

        @app.task(queue="email", run="thread", **given.get("task", {}))
        def send() -> None: ...

        await send.using(**given.get("call", {})).enqueue()
        policy, priority = await seen_by_a_worker(app)

    got = priority if name == "priority" else getattr(policy, name)
    assert got == STORED[name][LEVELS.index(speakers[-1])]


async def test_s07_different_options_come_from_different_levels_on_each_store(make):
    app = make(attempts=7, timeout="2s", priority=3, keep_done=9)
    app.queue("email", timeout="3s", backoff=constant(8), priority=4)

    @app.task(queue="email", backoff=constant(1), priority=5, keep_dead=11)
    async def send() -> None: ...

    await send.using(priority=6, keep_done=Keep(1, "1h")).enqueue()
    policy, priority = await seen_by_a_worker(app)

    assert (policy.attempts, policy.timeout, policy.backoff, priority) == (7, 3 * SECOND, constant(1), 6)
    assert policy.keep_done == job.Retention(1, HOUR)
    assert policy.keep_dead.count == 11


async def test_s07_the_same_task_has_the_rules_of_the_queue_its_job_stands_in(app):
    app.queue("fast", attempts=1)
    app.queue("safe", attempts=9)

    @app.task(name="send")
    async def send() -> None:
        raise ValueError("no")

    once = await send.using(queue="fast").enqueue()
    often = await send.using(queue="safe").enqueue()
    await run(app)

    assert (await once.state(), await often.state()) == ("dead", "scheduled")


async def test_s07_what_is_set_for_a_call_holds_in_a_worker_that_says_otherwise(make, clock):
    producer, consumer = make(clock=clock), make(clock=clock, attempts=9)

    @consumer.task(name="send", attempts=8)
    async def send() -> None:
        raise ValueError("no")

    job = await producer.queue("default").enqueue("send", attempts=1)
    await run(consumer)

    assert (await job.info()).reason == "exhausted"


async def test_s07_using_adds_to_what_was_given_before(app):
    @app.task
    async def send() -> None: ...

    quiet = send.using(priority=100, headers={"a": 1, "b": 1}, tenant="t1")
    job = await quiet.using(priority=5, headers={"b": 2}, user="u1").enqueue()
    info = await job.info()

    assert (info.priority, info.tenant, info.user) == (5, "t1", "u1")
    assert {name: info.headers[name] for name in ("a", "b")} == {"a": 1, "b": 2}
    assert (await (await quiet.enqueue()).info()).priority == 100


async def test_s07_a_bare_number_to_keep_is_a_count_alone():
    async with App("sqlite:///:memory:") as app:

        @app.task(queue="email", keep_done=7)
        async def send() -> None: ...

        await send.using(keep_dead=Keep(count=7)).enqueue()
        policy, _ = await seen_by_a_worker(app)

    assert policy.keep_done == policy.keep_dead == job.Retention(7, limits.MAX_DURATION_US)


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempts": 0},
        {"attempts": "3"},
        {"backoff": 3},
        {"timeout": 0},
        {"timeout": "soon"},
        {"priority": 10_000},
        {"keep_done": -1},
        {"keep_done": "many"},
        {"keep_dead": Keep(age="-1h")},
    ],
    ids=str,
)
async def test_s07_wrong_options_are_refused_wherever_they_stand(wrong):
    app = App("sqlite:///:memory:")

    @app.task
    async def send() -> None: ...

    for level in (
        lambda: App("sqlite:///:memory:", **wrong),
        lambda: app.queue("email", **wrong),
        lambda: app.task(**wrong),
        lambda: send.using(**wrong),
    ):
        with pytest.raises(InvalidInput):
            level()


async def test_the_defaults_are_those_of_the_table():
    async with App("sqlite:///:memory:") as app:

        @app.task
        async def plain(text: str = "") -> str:
            return text

        await plain.enqueue()
        policy, priority = await seen_by_a_worker(app, "default")
        settings: Settings = app.worker().settings

        assert policy.attempts == 3
        assert policy.backoff == exponential(1, cap="1h", jitter=0.1) == Backoff(SECOND, 2.0, HOUR, 0.1)
        assert policy.timeout is None
        assert priority == 10
        assert policy.keep_done == job.Retention(1000, timedelta(hours=24) // timedelta(microseconds=1))
        assert policy.keep_dead == job.Retention(5000, timedelta(days=7) // timedelta(microseconds=1))
        assert (settings.concurrency, settings.grace, settings.max_lost) == (10, 25 * SECOND, 3)
        assert (settings.lease, LEASE_US, REMEMBER_US) == (30 * SECOND, 30 * SECOND, 7 * DAY)
        assert await every_so_often(app, settings) == {"reap": 10 * SECOND}
        assert (limits.PAYLOAD, limits.RESULT, limits.HEADERS) == (1 << 20, 1 << 20, 16 << 10)
        assert retrying.ATTEMPTS == 3
        assert exponential(2, jitter=0) == retrying.BACKOFF
        with pytest.raises(PayloadTooLarge):
            await plain.enqueue("x" * (1 << 20))
        with pytest.raises(PayloadTooLarge):
            await plain.using(headers={"a": "x" * (16 << 10)}).enqueue()

        @app.queue("batches").batch()
        async def many(batch) -> None: ...

        assert app.registry.batching("batches") == Batching(10, 5 * SECOND)


async def every_so_often(app: App, settings: Settings) -> dict[str, int]:
    """How often a worker takes back leases that ran out; renewals come at a third of a lease as well."""
    from packhorse.engine.caretaker import duties

    store, telemetry = await app.store(), app.telemetry
    listed = duties(store, lambda: None, lease=settings.lease, max_lost=settings.max_lost, telemetry=telemetry)
    return {duty.name: duty.every for duty in listed if duty.name == "reap"}


def test_settings_are_read_from_the_environment(monkeypatch):
    for name, value in (("URL", "sqlite:///:memory:"), ("NAMESPACE", "shop"), ("RELEASE", "7"), ("CONCURRENCY", "3")):
        monkeypatch.setenv(f"PACKHORSE_{name}", value)
    monkeypatch.setenv("PACKHORSE_GRACE", "2s")
    app = App()
    settings: Settings = app.worker().settings

    assert (app.url, app.namespace, app.release) == ("sqlite:///:memory:", "shop", "7")
    assert (settings.concurrency, settings.grace) == (3, 2 * SECOND)
    assert app.worker(concurrency=4, grace=1).settings.concurrency == 4


def test_without_an_address_an_app_lives_in_the_working_directory(monkeypatch, tmp_path):
    monkeypatch.delenv("PACKHORSE_URL", raising=False)
    for name in ("plain", "a?b#c%41"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)

        assert file_of(App().url) == tmp_path / name / "packhorse.db"
    monkeypatch.chdir(tmp_path)
    assert App().url == f"sqlite:///{tmp_path / 'packhorse.db'}"
