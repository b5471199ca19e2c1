"""What people read when they say something wrong."""

import functools

import pytest

from packhorse import App, ConfigError, InvalidArguments, InvalidInput, every
from packhorse.errors import InvalidResult
from tests.features.factories import run


async def test_a_plain_function_cannot_run_as_async_and_the_other_way_round(memory):
    with pytest.raises(ConfigError, match="cannot run as async: it is a plain function"):

        @memory.task(run="async")
        def plain() -> None: ...

    with pytest.raises(ConfigError, match="cannot run as thread: an async function needs the event loop"):

        @memory.task(run="thread")
        async def waits() -> None: ...


async def test_an_unknown_option_is_a_type_error_that_names_the_nearest(memory):
    @memory.task
    async def work() -> None: ...

    with pytest.raises(TypeError, match=r"There is no option dely=: did you mean delay\?"):
        work.using(dely=5)
    with pytest.raises(TypeError, match=r"There is no option atempts=: did you mean attempts\?"):
        memory.task(atempts=5)
    with pytest.raises(TypeError, match=r"did you mean timeout\?"):
        memory.queue("mail", timout=5)
    with pytest.raises(TypeError, match=r"did you mean priority\?"):
        App("sqlite:///:memory:", priorty=5)
    with pytest.raises(TypeError, match="There is no option colour=: there are at, attempts, backoff"):
        work.using(colour="red")


async def test_an_unknown_policy_of_a_schedule_is_a_type_error_that_names_the_nearest(memory):
    @memory.task
    async def work() -> None: ...

    with pytest.raises(TypeError, match=r"There is no option overlpa=: did you mean overlap\?"):
        memory.schedule(every("5s"), overlpa="skip")(work)
    with pytest.raises(TypeError, match=r"There is no option jiter=: did you mean jitter\?"):
        await memory.schedules.put("often", every("5s"), work.call(), jiter=5)


async def test_what_is_no_function_or_has_no_name_is_no_task(memory):
    async def work(number: int) -> None: ...

    with pytest.raises(ConfigError, match="'work' is no function: put the decorator on a function"):
        memory.task("work")
    with pytest.raises(ConfigError, match="has no name: give the task one, with name="):
        memory.task(functools.partial(work, 1))


async def test_what_is_no_call_is_not_enqueued(memory):
    @memory.task
    async def work(number: int = 1) -> None: ...

    for wrong, remedy in {
        work: r"give it with its arguments: task\.call",
        work(): r"write work\.call\(…\) instead of work\(…\)",
        (work.call(), work.call()): r"give calls one by one: enqueue\(\*calls\)",
    }.items():
        with pytest.raises(InvalidInput, match=remedy):
            await memory.enqueue(work.call(), wrong)
    assert (await memory.find()).items == ()


@pytest.mark.parametrize("kinds", ["ValueError", ValueError])
@pytest.mark.parametrize("option", ["retry_on", "dead_on"])
async def test_kinds_of_errors_that_are_no_tuple_are_refused(memory, option, kinds):
    with pytest.raises(InvalidInput, match=f"{option} .*ValueError.* is refused: give a tuple of exception classes"):
        memory.task(**{option: kinds})
    with pytest.raises(InvalidInput, match="aliases 'old' is refused: give a tuple of names"):
        memory.task(aliases="old")


async def test_a_method_is_no_task(memory):
    with pytest.raises(ConfigError, match=r"Shop\.send is a method"):

        class Shop:
            @memory.task
            async def send(self, x: int) -> None: ...

    class Till:
        @staticmethod
        @memory.task(name="count")
        async def count(x: int) -> int:
            return x

    assert Till.count.name == "count"


async def test_a_result_that_cannot_be_stored_says_that_it_is_the_result(memory):
    @memory.task(name="odd")
    async def odd() -> object:
        return object()

    job = await odd.enqueue()
    await run(memory)

    [failure] = (await job.info()).failures
    assert failure.type == "packhorse.errors.InvalidResult"
    assert failure.message.startswith("The result of odd() cannot be stored: ")
    assert issubclass(InvalidResult, InvalidArguments)


async def test_waiting_too_long_names_the_job_its_state_and_the_seconds(make):
    app = make()

    @app.task
    async def work() -> None: ...

    job = await work.enqueue()
    with pytest.raises(TimeoutError, match=rf"The job {job.id} did not end within 0\.05 s: it is ready and goes on"):
        await job.result(0.05)
