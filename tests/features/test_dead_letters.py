"""Handlers of dead letters: once per death, whoever wrote it, with a policy of their own."""

import pytest

from packhorse import ConfigError, DeadLetter, constant, current
from packhorse.dead_letters.consumer import CURSORS
from packhorse.engine.worker import Settings
from packhorse.errors import DuplicateTask
from packhorse.model.ids import parse_id
from packhorse.testing import run_until_idle
from tests.factories import DEAD, SECOND, Held, end, new, put_in, take

HEADERS = {"order": "o-1"}


class Shop:
    """A task that always fails, and the letters that a handler got."""

    def __init__(self, app, **options) -> None:
        self.letters: list[DeadLetter] = []
        self.app = app

        @app.task(name="pay", queue="money", attempts=2, backoff=constant(0))
        async def pay(order: str) -> None:
            raise ConnectionError(f"no answer for {order}")

        @app.dead_letters(**options)
        async def review(letter: DeadLetter) -> None:
            self.letters.append(letter)

        self.pay, self.review = pay, review

    async def run(self) -> list[DeadLetter]:
        await run_until_idle(self.app)
        return self.letters


async def test_s20_a_letter_has_all_that_is_known_of_the_job(make, clock):
    shop = Shop(make(clock=clock, release="7.1"))
    job = await shop.pay.using(tenant="t-1", headers=HEADERS, correlation_id="c-1").enqueue("o-1")
    [letter] = await shop.run()
    info = await job.info()

    assert (letter.job_id, letter.task, letter.queue, letter.tenant) == (job.id, "pay", "money", "t-1")
    assert (letter.arguments, letter.payload) == ({"order": "o-1"}, b'{"order":"o-1"}')
    assert (letter.headers["order"], letter.correlation_id) == ("o-1", "c-1")
    assert (letter.reason, letter.error_type) == ("exhausted", "ConnectionError")
    assert letter.error_message == "no answer for o-1"
    assert [each.number for each in letter.attempts] == [1, 2] == list(range(1, letter.attempt + 1))
    assert {each.error_type for each in letter.attempts} == {"ConnectionError"}
    assert all(each.worker for each in letter.attempts)
    assert letter.first_failed_at <= letter.last_failed_at == letter.died_at == info.ended_at
    assert letter.fingerprint == info.failures[-1].fingerprint
    assert "site-packages" not in letter.trimmed_traceback
    assert "packhorse/engine" in letter.traceback
    assert "packhorse/engine" not in letter.trimmed_traceback
    assert "in pay" in letter.trimmed_traceback


async def test_s21_a_handler_gets_each_death_once(app):
    shop = Shop(app)
    jobs = [await shop.pay.enqueue(str(number)) for number in range(60)]
    await shop.run()
    await shop.run()

    assert sorted(letter.job_id for letter in shop.letters) == sorted(job.id for job in jobs)


async def test_s21_a_job_that_is_replayed_and_dies_again_makes_another_letter(app, clock):
    shop = Shop(app)
    job = await shop.pay.enqueue("o-1")
    await shop.run()
    clock.turn(SECOND)
    assert await job.replay()
    await shop.run()

    first, second = shop.letters
    assert first.job_id == second.job_id
    assert first.died_at < second.died_at


@pytest.mark.parametrize("change", ["replay", "drop"])
async def test_s21_a_letter_whose_job_is_dead_no_more_is_not_handled(app, change):
    shop = Shop(app)
    job = await shop.pay.enqueue("o-1")
    store = await app.store()
    [lease] = await take(store, 1, "money")
    await end(store, lease, DEAD)
    for duty in app.system.duties(store):
        await duty.run()
    assert (await store.jobs.count())["packhorse.system"]["ready"] == 1

    await getattr(store.jobs, change)([parse_id(job.id)])
    await run_until_idle(store, app.system.registry, Settings(queues={"packhorse.system": 1}))

    assert shop.letters == []
    assert (await store.jobs.count())["packhorse.system"]["done"] == 1


async def test_s21_deaths_by_other_languages_and_poison_make_letters_too(app, clock):
    shop = Shop(app)
    store = await app.store()
    await put_in(store, new("written-elsewhere", queue="other"))
    [lease] = await take(store, 1, "other")
    await end(store, lease, DEAD)
    await put_in(store, new("crashes", queue="other"))
    for _ in range(4):
        for lease in await take(store, 1, "other"):
            await end(store, lease, Held(1))
        clock.turn(3600 * SECOND)
        await store.jobs.reap(10)
    letters = {letter.task: letter for letter in await shop.run()}

    assert set(letters) == {"written-elsewhere", "crashes"}
    assert (letters["crashes"].reason, letters["crashes"].error_type) == ("poison", "poison")
    assert letters["crashes"].attempts == ()
    assert letters["written-elsewhere"].error_type == "Broken"
    assert all(letter.fingerprint for letter in letters.values())


async def test_s21_the_failure_of_a_handler_is_retried_and_makes_no_letter(app, clock):
    calls = []

    @app.task(attempts=1)
    async def fails() -> None:
        raise ValueError("x")

    @app.dead_letters(attempts=2, backoff=constant("5m"))
    async def broken(letter: DeadLetter) -> None:
        calls.append(current().attempt)
        raise ConnectionError("no mail server")

    job = await fails.enqueue()
    await run_until_idle(app)
    assert calls == [1]
    clock.turn(300 * SECOND)
    await run_until_idle(app)
    await run_until_idle(app)

    assert calls == [1, 2]
    assert (await job.info()).state == "dead"
    dead = [each async for each in app.jobs(state="dead")]
    assert sorted(each.queue for each in dead) == ["default", "packhorse.system"]


async def test_s21_handlers_of_a_queue_get_its_letters_only_and_may_be_plain_functions(memory):
    letters: list[str] = []

    @memory.task(attempts=1, queue="a")
    async def one() -> None:
        raise ValueError("x")

    @memory.task(attempts=1, queue="b")
    async def two() -> None:
        raise ValueError("x")

    @memory.dead_letters("a", name="plain")
    def plain(letter: DeadLetter) -> None:
        letters.append(f"plain {letter.task.rpartition('.')[2]}")

    @memory.dead_letters(name="all")
    async def every(letter: DeadLetter) -> None:
        letters.append(f"all {letter.task.rpartition('.')[2]}")

    await one.enqueue()
    await two.enqueue()
    await run_until_idle(memory)

    assert sorted(letters) == ["all one", "all two", "plain one"]


async def test_s21_a_handler_gets_the_dead_jobs_that_are_there_when_it_is_declared_first(make, clock):
    before = Shop(make(clock=clock))
    before.app.dead_letters._consumers.clear()
    await before.pay.enqueue("o-1")
    await run_until_idle(await before.app.store(), before.app.registry, clock=clock)

    after = Shop(make(clock=clock))
    assert [letter.arguments for letter in await after.run()] == [{"order": "o-1"}]


async def test_s41_the_letter_of_a_job_belongs_to_its_chain_of_work(memory):
    seen = []

    @memory.task(attempts=1)
    async def fails() -> None:
        raise ValueError("x")

    @memory.dead_letters()
    async def review(letter: DeadLetter) -> None:
        seen.append(current().correlation_id)

    await fails.using(correlation_id="request-7").enqueue()
    await run_until_idle(memory)
    assert seen == ["request-7"]


async def test_without_a_handler_nothing_looks_for_deaths(memory):
    assert memory.system.duties(await memory.store()) == []
    assert not memory.system.required
    assert (await (await memory.store()).records.find(CURSORS)).items == ()


async def test_a_decorator_without_parentheses_and_two_handlers_of_one_name_are_refused(memory):
    with pytest.raises(ConfigError, match="parentheses"):
        memory.dead_letters(print)
    memory.dead_letters(name="one")(print)
    with pytest.raises(DuplicateTask):
        memory.dead_letters(name="one")(print)
