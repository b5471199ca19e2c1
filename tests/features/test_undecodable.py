"""A job whose payload or headers were damaged is dead as undecodable, whatever runs it, and costs no other job."""

from collections.abc import Iterable
from typing import Any

import pytest
from msgspec import structs

from packhorse import App, Batch, Job, chain
from packhorse.jobs.children import COLLECT
from packhorse.model.ids import id_text
from packhorse.model.job import NewJob
from tests.features.factories import run

DAMAGED = pytest.mark.parametrize(
    "damaged",
    [{"payload": b"[1]"}, {"payload": b'"text"'}, {"payload": b"{"}, {"headers": b'{"packhorse": 5}'}],
    ids=["an array", "a text", "no JSON", "headers"],
)


async def three(app: App, damaged: dict[str, Any], place: int = 1) -> list[Job]:
    """Run three jobs of the queue ``mail``, one of them damaged; what became of them."""
    jobs = [NewJob(task="send", queue="mail", payload=b'{"number": %d}' % number) for number in range(3)]
    jobs[place] = NewJob(task="send", queue="mail", **damaged)
    receipts = await app.client.send(jobs)
    await run(app, "mail")
    return [await app.job(id_text(receipt.id)).info() for receipt in receipts]


def ends(jobs: Iterable[Job]) -> list[tuple[str, str | None]]:
    return [(job.state.value, job.reason) for job in jobs]


@DAMAGED
@pytest.mark.parametrize("place", [0, 1], ids=["first", "second"])
async def test_a_damaged_message_is_left_out_of_its_batch(app, damaged, place):
    seen: list[int] = []

    @app.queue("mail").batch(size=3, wait=0)
    async def handle(batch: Batch) -> None:
        seen.extend(message.data["number"] for message in batch)

    found = ends(await three(app, damaged, place))

    assert found.pop(place) == ("dead", "undecodable")
    assert found == [("done", None)] * 2
    assert seen == [number for number in range(3) if number != place]


async def test_a_batch_of_damaged_messages_is_not_handled(app):
    calls: list[Batch] = []

    @app.queue("mail").batch(size=3, wait=0)
    async def handle(batch: Batch) -> None:
        calls.append(batch)

    receipts = await app.client.send([NewJob(task="send", queue="mail", payload=b"[1]") for _ in range(3)])
    await run(app, "mail")

    assert ends([await app.job(id_text(receipt.id)).info() for receipt in receipts]) == [("dead", "undecodable")] * 3
    assert calls == []


@DAMAGED
@pytest.mark.parametrize("way", ["async", "plain"])
async def test_a_damaged_job_does_not_reach_the_handler_of_its_queue(app, damaged, way):
    seen: list[int] = []

    def take(job: Job) -> None:
        seen.append(job.data["number"])

    async def take_async(job: Job) -> None:
        take(job)

    app.queue("mail").handler(take_async if way == "async" else take)

    assert ends(await three(app, damaged)) == [("done", None), ("dead", "undecodable"), ("done", None)]
    assert sorted(seen) == [0, 2]


async def test_a_damaged_step_of_a_chain_is_dead_when_it_is_to_be_given_the_result_before_it(app):
    @app.task(name="count")
    async def count(number: int) -> int:
        return number + 1

    jobs = list(chain(count.call(1), count).jobs())
    damaged = [structs.replace(job, payload=b"[1]") if job.children else job for job in jobs]
    await app.client.send(damaged)
    await run(app)

    assert sorted(ends((await app.find()).items)) == [("dead", "undecodable"), ("done", None)]


@pytest.mark.parametrize("payload", [b"{", b"[1]", b'{"jobs": 7}'])
async def test_a_damaged_gathering_job_is_dead_as_undecodable(app, payload):
    [receipt] = await app.client.send([NewJob(task=COLLECT, payload=payload)])
    await run(app)

    [stored] = await app.client.get([receipt.id])
    assert (stored.state, stored.reason) == ("dead", "undecodable")
