"""Jobs of a queue handled several at a time, each with a verdict, a lease and a count of tries of its own."""

import asyncio
import signal

import pytest

from packhorse import App, Batch, ConfigError, Message, group
from packhorse.errors import InvalidInput
from tests.features.factories import SECOND, everything, run, until

TYPES = ("export_data", "send_notification", "sync_external")


class Mail:
    """A queue whose batches are noted, and handled by whatever the test says."""

    def __init__(self, app: App, size: int = 10, wait: float = 0, **given) -> None:
        self.app, self.queue = app, app.queue("mail", **given)
        self.seen: list[list[tuple[str, int, int]]] = []
        self.then = lambda batch: None
        self.queue.batch(size=size, wait=wait)(self.handle)

    async def handle(self, batch: Batch) -> None:
        self.seen.append([(message.task, message.data["number"], message.attempt) for message in batch])
        self.then(batch)

    async def fill(self, count: int) -> dict[int, str]:
        """Enqueue so many messages of three types; answers number by id."""
        calls = [self.queue.call(TYPES[number % 3], {"number": number}) for number in range(count)]
        return {number: job.id for number, job in enumerate(await self.app.enqueue(*calls))}

    async def states(self) -> dict[int, tuple[str, int]]:
        return {job.data["number"]: (job.state.value, job.attempt) for job in await everything(self.app, queue="mail")}

    def numbers(self) -> list[list[int]]:
        return [[number for _, number, _ in batch] for batch in self.seen]


async def test_s11_verdicts_stand_and_the_rest_is_retried_when_the_handler_raises(app, clock):
    mail = Mail(app)

    def verdicts(batch: Batch) -> None:
        if len(mail.seen) > 1:
            return
        for message in batch[:3]:
            message.retry("20s")
        batch[3].dead("not for us")
        for message in batch[4:7]:
            message.done()
        raise ValueError("in the middle of it")

    mail.then = verdicts
    await mail.fill(10)
    await run(app)

    assert {task for task, _, _ in mail.seen[0]} == set(TYPES)
    again, dead, done = ("scheduled", 1), ("dead", 1), ("done", 1)
    assert await mail.states() == dict(enumerate([again] * 3 + [dead] + [done] * 3 + [again] * 3))

    clock.turn(SECOND)  # by the backoff
    await run(app)
    assert mail.seen[1:] == [[(TYPES[number % 3], number, 2) for number in (7, 8, 9)]]

    clock.turn(18_999_999)
    await run(app)
    assert len(mail.seen) == 2
    clock.turn(1)  # twenty seconds after the verdict
    await run(app)
    assert mail.seen[2:] == [[(TYPES[number % 3], number, 2) for number in (0, 1, 2)]]
    assert {state for state, _ in (await mail.states()).values()} == {"done", "dead"}

    [letter] = await everything(app, queue="mail", state="dead")
    assert (letter.data["number"], letter.reason, letter.failures[-1].message) == (3, "final", "not for us")


async def test_s11_messages_without_a_verdict_are_done_when_the_handler_returns(app):
    mail = Mail(app)
    await mail.fill(10)
    await run(app)

    assert mail.numbers() == [list(range(10))]
    assert set((await mail.states()).values()) == {("done", 1)}


async def test_s11_the_first_verdict_counts(app):
    mail = Mail(app)

    def both(batch: Batch) -> None:
        batch[0].done()
        batch[0].dead("too late")
        batch[1].dead("at once")
        batch[1].done()
        assert batch[0].settled
        assert not batch[2].settled

    mail.then = both
    await mail.fill(3)
    await run(app)

    assert [state for state, _ in (await mail.states()).values()].count("dead") == 1
    assert (await mail.states())[1] == ("dead", 1)


async def test_s11_retries_count_for_each_message_until_they_are_used_up(app, clock):
    mail = Mail(app, attempts=2)
    mail.then = lambda batch: [message.retry() for message in batch if message.data["number"] == 0]
    await mail.fill(2)
    await run(app)
    assert await mail.states() == {0: ("scheduled", 1), 1: ("done", 1)}
    clock.turn(SECOND)
    await run(app)

    assert await mail.states() == {0: ("dead", 2), 1: ("done", 1)}
    [letter] = await everything(app, queue="mail", state="dead")
    assert letter.reason == "exhausted"


async def test_s11_a_batch_is_what_came_within_the_wait(live):
    mail, come = Mail(live, size=3, wait=0.3), asyncio.Event()
    mail.then = lambda batch: come.set()
    jobs = await mail.fill(7)
    async with live.worker("mail"):
        for job in jobs.values():
            await live.job(job).result(20)
        assert sorted(map(len, mail.seen)) == [1, 3, 3]
        assert sorted(number for batch in mail.numbers() for number in batch) == list(range(7))


async def test_s11_a_worker_leases_as_many_as_a_batch_takes_whatever_its_slots(live):
    mail = Mail(live, size=10, wait=5)
    jobs = await mail.fill(20)
    async with live.worker("mail", concurrency=1):
        for job in jobs.values():
            await live.job(job).result(20)

    assert [len(batch) for batch in mail.seen] == [10, 10]


async def test_s11_a_stopping_worker_hands_back_what_it_collected(live, make):
    mail = Mail(live, size=10, wait=30)
    jobs = await mail.fill(4)
    async with live.worker("mail", grace=0):

        async def leased() -> bool:
            return {state for state, _ in (await mail.states()).values()} == {"running"}

        await until(leased)

    assert len(jobs) == 4
    assert set((await mail.states()).values()) == {("ready", 0)}
    assert mail.seen == []


async def test_s11_a_message_that_was_called_off_says_so_and_the_others_go_on(live):
    queue, running, reported = live.queue("mail"), asyncio.Event(), []

    @queue.batch(size=2, wait=5)
    async def handle(batch: Batch) -> None:
        running.set()
        while not any(message.cancelled for message in batch):
            await asyncio.sleep(0.01)
        reported.extend(message.cancelled for message in batch)
        for message in batch:
            if message.cancelled:
                message.retry()

    first, second = await live.enqueue(queue.call("a"), queue.call("b"))
    async with live.worker("mail", lease=1):
        await running.wait()
        await first.cancel()
        await second.result(20)

    assert reported == [True, False]
    assert (await first.state(), await second.state()) == ("cancelled", "done")


async def test_s11_a_kill_in_mid_batch_redelivers_only_what_had_no_verdict(live, place, workers):
    mail = Mail(live, size=10, wait=0.2)
    jobs = await mail.fill(10)
    worker = await workers.start(queues="mail", lease=1)
    await place.until("half")

    async def written() -> bool:
        return (await mail.queue.counts())["done"] == 4

    await until(written)
    worker.send_signal(signal.SIGKILL)
    async with live.worker("mail", lease=1):
        for job in jobs.values():
            await live.job(job).result(20)

    [half] = place.lines("half")
    assert half[1] == "10"
    assert sorted(number for batch in mail.numbers() for number in batch) == sorted(map(int, half[6:]))
    assert set((await mail.states()).values()) == {("done", 1), ("done", 2)}


async def test_s11_messages_of_a_batch_queue_can_be_a_group(app):
    mail = Mail(app)
    job = await group(*(mail.queue.call("send", {"number": number}) for number in range(3))).enqueue()
    await run(app)

    assert mail.numbers() == [[0, 1, 2]]  # and nothing that is not the user's
    assert await job.result(1) == [None, None, None]


async def test_s11_a_second_batch_handler_and_a_plain_one_are_refused(memory):
    app, mail = memory, Mail(memory)
    with pytest.raises(ConfigError):
        mail.queue.batch()(mail.handle)

    def plain(batch: Batch) -> None: ...

    with pytest.raises(ConfigError, match="async"):
        app.queue("other").batch()(plain)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        app.queue("other").batch(size=0)(mail.handle)


async def test_s11_a_batch_is_a_sequence_of_messages(app):
    mail, kept = Mail(app), []
    mail.then = kept.extend
    await mail.fill(3)
    await run(app)

    message: Message = kept[2]
    assert (message.task, message.data, message.job.queue) == ("sync_external", {"number": 2}, "mail")
