"""What people write about tasks, calls and plans. Never run: mypy and pyright read it and find no error."""

import json
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

from packhorse import (
    App,
    Call,
    Chunk,
    Group,
    Job,
    JobHandle,
    JobState,
    Keep,
    Plan,
    PlanHandle,
    Progress,
    Task,
    Unique,
    chain,
    chord,
    constant,
    current,
    exponential,
    group,
)
from packhorse.jobs.sync import SyncHandle

app = App("sqlite:///:memory:", namespace="orders", attempts=5, backoff=exponential(1), keep_done=100)


@dataclass
class Receipt:
    number: int


# -- tasks: async and plain functions, with and without options


@app.task
async def confirm(order_id: str, email: str, copies: int = 1) -> Receipt:
    return Receipt(len(order_id) + len(email) + copies)


@app.task()
async def fetch(url: str, *, strict: bool = False) -> bytes:
    return url.encode() if strict else b""


@app.task(
    name="pictures:resize",
    queue="pictures",
    aliases=("resize",),
    attempts=4,
    backoff=exponential(1, cap="1h", jitter=0.1),
    timeout=timedelta(seconds=30),
    priority=1,
    keep_done=Keep(count=10, age="24h"),
    keep_dead=50,
    retry_on=(ConnectionError, TimeoutError),
    dead_on=(ValueError,),
    unique="5s",
    run="process",
    lane_on_dead="halt",
)
def resize(width: int, height: int) -> float:
    return width / height


@app.task
def log(line: str) -> None:
    current().log.info(line)


@app.task(run="thread")
def load(text: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(text)
    return loaded


async def tasks_are_still_functions() -> None:
    waiting: Coroutine[Any, Any, Receipt] = confirm("o-1", "a@b.c")
    assert_type(await waiting, Receipt)
    assert_type(await confirm("o-1", email="a@b.c", copies=2), Receipt)
    assert_type(await fetch("http://a", strict=True), bytes)
    assert_type(resize(1, height=2), float)
    assert_type(load("{}"), dict[str, Any])
    log("called")


async def arguments_and_results_keep_their_types() -> None:
    job = await confirm.enqueue("o-1", email="a@b.c")
    assert_type(job, JobHandle[Receipt])
    assert_type(await job.result(), Receipt)
    assert_type(await job.result(timeout="30s"), Receipt)
    assert_type((await job.result(30)).number, int)
    assert_type(await (await resize.enqueue(1, 2)).result(timedelta(minutes=1)), float)
    assert_type(await (await fetch.enqueue("http://a", strict=True)).result(), bytes)
    assert_type(await log.enqueue("here"), JobHandle[None])


async def handles_tell_about_their_job(job: JobHandle[Receipt]) -> None:
    assert_type(job.id, str)
    assert_type(job.created, bool)
    assert_type(await job.state(), JobState)
    assert_type(await job.cancel(), JobState)
    assert_type(await job.promote(), bool)
    assert_type(await job.progress(), Progress | None)
    assert_type(await job.info(), Job)
    async for chunk in job.stream():
        assert_type(chunk, Chunk)
    anything: list[JobHandle[object]] = [job]
    assert_type(await anything[0].result(), object)


async def a_task_knows_the_type_of_its_jobs() -> None:
    assert_type(confirm.job("order:1"), JobHandle[Receipt])
    assert_type(await confirm.job("order:1").result(), Receipt)
    assert_type(app.job("order:1"), JobHandle[Any])


async def a_call_that_waits_has_the_type_of_its_result() -> None:
    assert_type(await confirm.enqueue_and_wait("o-1", email="a@b.c"), Receipt)
    assert_type(await resize.using(priority=1).enqueue_and_wait(1, 2), float)


# -- options of one call


async def options_of_a_call() -> None:
    job = await confirm.using(
        queue="email",
        id="order:1",
        delay="1h",
        key="tenant-1",
        tenant="t1",
        user="u1",
        correlation_id="request-1",
        unique=Unique(key="order:1", within="5s"),
        headers={"source": "shop"},
        attempts=5,
        backoff=constant(2),
        timeout=1.5,
        priority=1,
        keep_done=100,
        keep_dead=Keep(age=timedelta(days=7)),
    ).enqueue("o-1", "a@b.c")
    assert_type(job, JobHandle[Receipt])
    assert_type(await confirm.using(at=datetime.now(UTC)).using(priority=5).enqueue("o-1", "a@b.c"), JobHandle[Receipt])
    assert_type(confirm.using(unique=timedelta(seconds=5)).call("o-1", "a@b.c"), Call[Receipt])
    await log.using(unique=Unique(until="started")).enqueue("here")
    await log.using(unique=Unique(until="finished")).enqueue("here")


# -- calls


async def calls_are_typed_and_go_together() -> None:
    one = confirm.call("o-1", email="a@b.c")
    assert_type(one, Call[Receipt])
    assert_type(one.using(delay=timedelta(hours=1), priority=2), Call[Receipt])
    await app.enqueue(one)
    await app.enqueue(one, resize.call(1, 2), log.using(queue="logs").call("here"))
    await app.enqueue(chain(resize.call(1, 2), half), group(one, one), chord(group(one), count), log.call("there"))
    for job in await app.enqueue(*[log.call(str(number)) for number in range(3)]):
        assert_type(job.id, str)
    calls: list[Call[object]] = [one, resize.call(1, 2)]
    await app.enqueue(*calls)


async def within_a_transaction(connection: object, session: Sequence[str]) -> None:
    one = confirm.using(within=connection).call("o-1", "a@b.c")
    assert_type(await confirm.using(within=connection, delay="1h").enqueue("o-1", "a@b.c"), JobHandle[Receipt])
    assert_type(await app.enqueue(one, resize.call(1, 2), within=session), tuple[JobHandle[Receipt], JobHandle[float]])
    assert_type(await chain(resize.call(1, 2), half).enqueue(within=connection), PlanHandle[int])
    assert_type(await app.queue("mail").enqueue("send", {"to": "a@b.c"}, within=connection), JobHandle[Any])
    assert_type(confirm.using(within=connection).sync.enqueue("o-1", "a@b.c"), SyncHandle[Receipt])
    assert_type(chain(resize.call(1, 2), half).sync.enqueue(within=connection), SyncHandle[int])
    assert_type(app.sync.enqueue(one, within=connection), tuple[SyncHandle[Receipt]])


# -- plans


@app.task
async def half(value: float) -> int:
    return int(value // 2)


@app.task
def text(value: int, *, base: int = 10, prefix: str = "") -> str:
    return f"{prefix}{value}{base}"


@app.task
async def count(things: Sequence[object]) -> int:
    return len(things)


@app.task
async def total(values: list[float], scale: float = 1) -> float:
    return sum(values) * scale


@app.task
def some(values: list[float | None]) -> int:
    return sum(value is not None for value in values)


@app.task
def either(value: float | None) -> int | None:
    return None if value is None else int(value)


async def chains_hand_on_what_the_next_one_takes() -> None:
    assert_type(chain(resize.call(1, 2), half), Plan[int])
    assert_type(chain(resize.call(1, 2), half, text), Plan[str])
    assert_type(chain(resize.call(1, 2), half, text, count), Plan[int])
    assert_type(chain(resize.call(1, 2), half, text, count, text), Plan[str])
    assert_type(
        chain(resize.call(1, 2), half.using(delay="5s"), text.using(queue="texts"), on_failure="fail"), Plan[str]
    )
    assert_type(chain(resize.call(1, 2), either, on_failure="none"), Plan[int | None])
    assert_type(chain(resize.call(1, 2), either, either, on_failure="none"), Plan[int | None])
    assert_type(chain(resize.call(1, 2), either, either, either, on_failure="none"), Plan[int | None])
    assert_type(chain(resize.call(1, 2), either, either, either, either, on_failure="none"), Plan[int | None])
    assert_type(chain(text.call(1), count, text, count, text, count), Plan[Any])
    handle = await chain(resize.call(1, 2), half, text).enqueue()
    assert_type(handle, PlanHandle[str])
    assert_type(await handle.result(timeout=10), str)
    assert_type(await handle.cancel(), JobState)
    rest: list[Task[..., Any]] = [half, text]
    dynamic: Plan[Any] = chain(resize.call(1, 2), *rest)
    await dynamic.enqueue()


async def groups_give_a_list_and_chords_what_comes_of_it() -> None:
    sizes = group(resize.call(1, 2), resize.using(priority=1).call(3, 4))
    assert_type(sizes, Group[float])
    assert_type(await sizes.enqueue(), PlanHandle[list[float]])
    assert_type(await (await sizes.enqueue()).result(), list[float])
    assert_type(group(*[half.call(number) for number in range(10)]), Group[int])
    assert_type(group(half.call(1), half.call(2), on_failure="skip"), Group[int])
    assert_type(group(half.call(1), half.call(2), on_failure="none"), Group[int | None])
    mixed: Group[int | str] = group(half.call(1), text.call(2))
    assert_type(await (await mixed.enqueue()).result(), list[int | str])

    assert_type(chord(sizes, total), Plan[float])
    assert_type(chord(sizes, total.using(queue="sums")), Plan[float])
    assert_type(chord(sizes, count), Plan[int])
    assert_type(chord(group(resize.call(1, 2), on_failure="none"), some), Plan[int])
    assert_type(chord(mixed, count), Plan[int])
    assert_type(await (await chord(sizes, total).enqueue()).result(), float)


async def plans_stand_in_plans() -> None:
    halves = group(half.call(1), half.call(2))
    assert_type(group(chord(halves, count), half.call(2)), Group[int])
    assert_type(group(halves, halves), Group[list[int]])
    assert_type(chain(halves, count), Plan[int])
    assert_type(chain(chord(halves, count), half), Plan[int])
    assert_type(chain(half.call(1), group(half, half)), Plan[list[int]])
    assert_type(chain(half.call(1), group(half, half), count), Plan[int])
    assert_type(chain(half.call(1), chord(group(half, half), count), half), Plan[int])


# -- the same without an event loop


def blocking_code_has_the_same_types() -> None:
    job = confirm.sync.enqueue("o-1", email="a@b.c")
    assert_type(job, SyncHandle[Receipt])
    assert_type(job.id, str)
    assert_type(job.created, bool)
    assert_type(job.result(timeout="30s"), Receipt)
    assert_type(job.state(), JobState)
    assert_type(job.cancel(), JobState)
    assert_type(job.promote(), bool)
    assert_type(job.progress(), Progress | None)
    assert_type(job.info(), Job)
    for chunk in job.stream():
        assert_type(chunk, Chunk)
    assert_type(resize.sync.enqueue(1, 2).result(), float)
    assert_type(log.using(delay="1h").sync.enqueue("later"), SyncHandle[None])
    assert_type(chain(resize.call(1, 2), half).sync.enqueue().result(), int)
    assert_type(group(half.call(1), half.call(2)).sync.enqueue().result(timeout=5), list[int])
    with app.sync as blocking:
        blocking.enqueue(confirm.call("o-1", "a@b.c"), chain(resize.call(1, 2), half))
        assert_type(resize.sync.job("0190b0d0-0000-7000-8000-000000000000"), SyncHandle[float])
        assert_type(blocking.job("0190b0d0-0000-7000-8000-000000000000"), SyncHandle[Any])
        assert_type(blocking.enqueue(resize.call(1, 2)), tuple[SyncHandle[float]])
        assert_type(resize.using(delay=1).sync.enqueue_and_wait(1, 2), float)
        for each in blocking.jobs(state="dead", enqueued_after=None):
            assert_type(each, Job)
        for found in blocking.find(queue="email", limit=10).items:
            assert_type(found, Job)
        assert_type(blocking.queue("email").enqueue("send-welcome", {"user_id": "abc"}, delay="1h"), SyncHandle[Any])
        assert_type(blocking.queue("email").counts(), dict[str, int])
        blocking.queue("email").pause()


# -- people's own functions over tasks


async def twice(task: Task[[str], object], argument: str) -> None:
    await task.enqueue(argument)
    await task.using(delay=1).enqueue(argument)


async def a_task_is_good_where_a_task_of_something_wider_is_asked_for() -> None:
    await twice(log, "here")
    await twice(load, "{}")
