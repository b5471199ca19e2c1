"""The name of a task routes its jobs: to a task, an alias of one, the handler of a queue; else they wait, uncharged."""

import pytest

from packhorse import App, ConfigError, Job
from packhorse.engine.worker import Settings
from packhorse.errors import DuplicateTask, InvalidName
from packhorse.telemetry.names import EventName
from packhorse.testing import run_until_idle
from tests.engine.factories import EventRecorder
from tests.features.factories import SECOND, run


async def test_s04_a_job_of_an_unknown_task_waits_uncharged_and_is_counted(app):
    job = await app.queue("default").enqueue("unknown", {"a": 1})
    await run(app)

    info = await job.info()
    assert (info.state, info.reason, info.detail, info.attempt) == ("waiting", "unroutable", "unknown", 0)
    assert (await app.queue("default").counts())["waiting"] == 1
    assert [found.id for found in (await app.find(reason="unroutable")).items] == [job.id]


async def test_s04_a_job_of_an_unknown_task_runs_once_a_worker_knows_it(make):
    before, after = make(), make()
    job = await before.queue("default").enqueue("unknown", {"number": 7})
    recorder = EventRecorder(before.telemetry)
    async with before.worker(lease=1):
        await recorder.until(EventName.WAITING)

    @after.task(name="unknown")
    async def known(number: int) -> int:
        return number

    async with after.worker(lease=1):
        assert await job.result(20) == 7
    assert (await job.info()).attempt == 1


async def test_s04_a_worker_that_does_not_know_the_task_leaves_the_job_to_one_that_does(make):
    old, new = make(), make()

    @new.task(name="new")
    async def known() -> str:
        return "done"

    async with old.worker(lease=1), new.worker(lease=1):
        for _ in range(5):
            assert await (await known.enqueue()).result(20) == "done"


async def test_a_task_is_enqueued_by_its_name_with_plain_data(app):
    @app.task(name="send-welcome", queue="email")
    async def send_welcome(user_id: str, copies: int = 1) -> str:
        return user_id * copies

    job = await app.queue("email").enqueue("send-welcome", {"user_id": "abc", "copies": 2}, priority=1, tenant="t1")
    await run(app)

    assert await job.result(1) == "abcabc"
    info = await job.info()
    assert (info.queue, info.priority, info.tenant) == ("email", 1, "t1")


async def test_a_call_by_name_has_the_options_of_any_call(app, clock):
    @app.task(name="later", queue="email")
    async def later() -> str:
        return "now"

    queue = app.queue("email")
    job = await queue.enqueue("later", delay="1h", id="welcome:1")
    again = await queue.enqueue("later", delay="1h", id="welcome:1")
    await run(app)
    assert (again, again.created, await job.state()) == (job, False, "scheduled")
    clock.turn(3600 * SECOND)
    await run(app)
    assert await job.state() == "done"


@pytest.mark.parametrize("way", ["async", "plain"])
async def test_the_handler_of_a_queue_gets_what_no_task_is_there_for(app, way):
    seen, queue = [], app.queue("email")

    def take(job: Job) -> str:
        seen.append((job.task, job.data, job.tenant, job.attempt))
        return f"handled {job.task}"

    async def take_async(job: Job) -> str:
        return take(job)

    queue.handler(take_async if way == "async" else take)

    @app.task(queue="email", name="known")
    async def known() -> str:
        return "by its task"

    odd = await queue.enqueue("odd", {"n": 1}, tenant="t1")
    own = await known.enqueue()
    elsewhere = await app.queue("other").enqueue("odd")
    await run(app)

    assert seen == [("odd", {"n": 1}, "t1", 1)]
    assert (await odd.result(1), await own.result(1)) == ("handled odd", "by its task")
    assert await elsewhere.state() == "waiting"


async def test_a_handler_has_the_retries_of_its_queue_and_of_the_call(app, clock):
    queue = app.queue("email", attempts=2)
    tried = []

    @queue.handler
    async def handle(job: Job) -> None:
        tried.append(job.task)
        raise ValueError("no")

    by_queue = await queue.enqueue("twice")
    by_call = await queue.enqueue("once", attempts=1)
    await run(app)
    clock.turn(2 * SECOND)
    await run(app)

    assert sorted(tried) == ["once", "twice", "twice"]
    assert [await job.state() for job in (by_queue, by_call)] == ["dead", "dead"]


async def test_a_second_handler_of_a_queue_is_refused(app):
    @app.queue("email").handler
    async def first(job: Job) -> None: ...

    with pytest.raises(ConfigError, match="email"):
        app.queue("email").handler(first)


async def test_jobs_queued_under_an_old_name_run_after_a_rename(make, clock):
    before, after = make(clock=clock), make(clock=clock)

    @before.task(name="old-name")
    async def work(number: int) -> int:
        return number

    job = await work.enqueue(7)

    @after.task(name="new-name", aliases=("old-name", "older-name"))
    async def renamed(number: int) -> int:
        return number

    fresh = await renamed.enqueue(8)
    await run(after)

    assert (await job.result(1), await fresh.result(1)) == (7, 8)
    assert ((await job.info()).task, (await fresh.info()).task) == ("old-name", "new-name")


def test_two_functions_under_one_name_are_refused():
    app = App("sqlite:///:memory:")

    @app.task(name="work", aliases=("job",))
    async def one() -> None: ...

    for name, aliases in (("work", ()), ("job", ()), ("other", ("work",))):
        with pytest.raises(DuplicateTask):

            @app.task(name=name, aliases=aliases)
            async def two() -> None: ...


def test_a_task_without_a_name_is_called_as_its_function():
    app = App("sqlite:///:memory:")

    @app.task
    async def work() -> None: ...

    assert work.name == f"{__name__}.test_a_task_without_a_name_is_called_as_its_function.<locals>.work"


def test_names_that_no_store_may_hold_are_refused():
    app = App("sqlite:///:memory:")
    for wrong in ("", "a\nb", "x" * 256):
        with pytest.raises(InvalidName):
            app.queue(wrong)
        with pytest.raises(InvalidName):
            app.queue("email").call(wrong)
    with pytest.raises(InvalidName):
        app.task(name="a\0b")(test_names_that_no_store_may_hold_are_refused)


def test_a_generator_or_a_wrong_way_to_run_is_refused():
    app = App("sqlite:///:memory:")

    def pieces():
        yield 1

    async def on_loop() -> None: ...

    for function, options in ((pieces, {}), (on_loop, {"run": "thread"}), (on_loop, {"run": "elsewhere"})):
        with pytest.raises(ConfigError):
            app.task(**options)(function)


async def test_s04_names_made_from_data_are_not_remembered(memory):
    @memory.queue("hooks").handler
    async def hook(job: Job) -> None: ...

    @memory.task(name="known")
    async def known() -> None: ...

    for number in range(1000):
        assert memory.registry.find(f"customer/{number}/changed", "hooks") is not None
        assert memory.registry.find(f"customer/{number}/changed") is None
    assert memory.registry.find("known") is memory.registry.find("known")

    assert len(memory.registry._found) == 1


async def test_s04_run_until_idle_runs_every_queue_that_the_app_names(memory, clock):
    ran: list[str] = []

    @memory.task(queue="mail")
    async def note(what: str) -> None:
        ran.append(what)

    @memory.queue("hooks").handler
    async def hook(job: Job) -> None:
        ran.append(job.task)

    await memory.queue("slow").enqueue(note.name, {"what": "by name"})
    await memory.queue("hooks").enqueue("handled")
    await note.enqueue("of the task")
    await note.using(queue="default").enqueue("default")
    await run_until_idle(await memory.store(), memory.registry, clock=clock)

    assert sorted(ran) == ["by name", "default", "handled", "of the task"]


async def test_s04_run_until_idle_runs_jobs_that_a_call_sent_elsewhere_and_those_that_they_enqueue(memory, clock):
    ran = []

    @memory.task(name="work")
    async def work(queue: str, then: str | None = None) -> None:
        ran.append(queue)
        if then is not None:
            await work.using(queue=then).enqueue(then)

    await work.using(queue="elsewhere").enqueue("elsewhere", "further")
    await run_until_idle(await memory.store(), memory.registry, clock=clock)
    assert ran == ["elsewhere", "further"]

    await work.using(queue="other").enqueue("other")
    await run_until_idle(await memory.store(), memory.registry, Settings(queues={"default": 1}), clock=clock)
    assert ran == ["elsewhere", "further"]
