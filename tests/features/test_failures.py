"""What a failure knows of its attempt: fingerprint, function, duration, worker, release."""

import pytest

from packhorse import ConfigError, constant
from tests.features.factories import run


class Refused(Exception):
    def __init__(self, provider: str) -> None:
        super().__init__(f"refused by {provider}")
        self.provider = provider


def charge(number: int) -> None:
    raise Refused(f"bank-{number}")


async def test_s20_a_failure_knows_worker_release_duration_and_fingerprint(memory, clock):
    @memory.task(name="pay", attempts=2, backoff=constant(0))
    async def pay(number: int) -> None:
        clock.turn(2_000_000)
        charge(number)

    first, second = await pay.enqueue(1), await pay.enqueue(2)
    await run(memory, name="w-1", release="7.1")
    failures = [*(await first.info()).failures, *(await second.info()).failures]

    assert {failure.worker for failure in failures} == {"w-1"}
    assert {failure.release for failure in failures} == {"7.1"}
    assert {failure.frame for failure in failures} == {f"{__name__}.charge"}
    assert all(failure.duration >= 2_000_000 for failure in failures)
    assert len({failure.fingerprint for failure in failures}) == 1
    assert len(failures) == 4


async def test_s20_a_death_has_the_moment_of_its_last_failure(app):
    @app.task(name="pay", attempts=1)
    async def pay() -> None:
        charge(1)

    job = await pay.enqueue()
    await run(app)

    info = await job.info()
    assert info.failures[-1].at == info.stored.since


async def test_a_failure_without_its_traceback_keeps_its_details(app):
    @app.task(name="pay", attempts=1)
    async def pay() -> None:
        charge(1)

    job = await pay.enqueue()
    await run(app, name="w-1")

    [found] = await app.client.get([app.client.job_id(job.id)], bodies=False)
    [failure] = found.failures
    assert (failure.traceback, failure.worker, failure.frame) == ("", "w-1", f"{__name__}.charge")
    assert failure.fingerprint


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("bank", "bank"),
        (lambda error: error.provider, "bank-5"),
        (lambda _: "x" * 65, 16),
        (lambda _: None, 16),
        (lambda _: 5, 16),
        (lambda error: error.unknown, 16),
    ],
    ids=["text", "function", "too long", "none", "no text", "fails"],
)
async def test_a_task_may_choose_its_fingerprint(memory, given, expected):
    @memory.task(name="pay", attempts=1, fingerprint=given)
    async def pay() -> None:
        charge(5)

    job = await pay.enqueue()
    await run(memory)

    [failure] = (await job.info()).failures
    assert failure.fingerprint == expected if isinstance(expected, str) else len(failure.fingerprint) == expected


@pytest.mark.parametrize("given", ["", 5])
def test_a_fingerprint_that_is_neither_text_nor_a_function_is_refused(memory, given):
    with pytest.raises(ConfigError, match="function of the exception"):
        memory.task(name="pay", fingerprint=given)(charge)
