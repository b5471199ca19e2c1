"""The gateway example: one job for one request, an answer or a 202, progress, and tokens while they come."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from httpx import ASGITransport, AsyncClient, Response
from starlette.applications import Starlette

from examples.ai_gateway.api import api
from examples.ai_gateway.model import echo
from examples.ai_gateway.tasks import generation
from packhorse import App
from packhorse.testing import TurnedClock
from tests.conftest import namespace
from tests.examples.asgi import get
from tests.examples.turning import SECOND, work

PATIENT, HASTY = 30, 0.01


class Slow:
    """A model that says one word, and the others when it is asked to."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.asked: list[str] = []
        self.fails = False

    async def __call__(self, text: str) -> AsyncIterator[str]:
        self.asked.append(text)
        first, *others = text.split()
        yield f"{first} "
        await self.go.wait()
        if self.fails:
            self.fails = False
            raise ConnectionError("the model is away")
        for word in others:
            yield f"{word} "


@pytest.fixture
async def live(kind: str, url: str) -> AsyncIterator[App]:
    """An app on the clock of the machine."""
    async with App(url, namespace=namespace(kind)) as made:
        yield made


@pytest.fixture
async def model() -> Slow:
    return Slow()


@asynccontextmanager
async def browser(web: Starlette) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(transport=ASGITransport(web), base_url="http://gateway") as client:
        yield client


async def ask(client: AsyncClient, request: str, text: str = "one two three", user: str = "ann") -> Response:
    return await client.post("/generate", json={"user": user, "text": text}, headers={"x-request-id": request})


async def seen(client: AsyncClient, job: str, **wanted: Any) -> None:
    """Look at a job until it looks like this."""
    async with asyncio.timeout(30):
        while wanted.items() - (await client.get(f"/jobs/{job}")).json().items():
            await asyncio.sleep(0.01)


async def test_an_answer_that_comes_in_time_is_the_answer(live):
    web = api(live, generation(live, echo), wait=PATIENT)
    async with live.worker(), browser(web) as client:
        answer = await ask(client, "r-1")

    assert answer.status_code == 200
    assert answer.json() == {"id": answer.json()["id"], "content": "one two three", "tokens": 3}


async def test_one_that_takes_longer_is_202_with_a_job_that_goes_on(live, model):
    web = api(live, generation(live, model), wait=HASTY)
    async with live.worker(), browser(web) as client:
        answer = await ask(client, "r-1")
        job = answer.json()["id"]
        assert answer.status_code == 202
        assert answer.headers["location"] == f"/jobs/{job}"

        await seen(client, job, state="running", progress=50)
        model.go.set()
        await seen(client, job, state="done", progress=100)

        assert await live.job(job).result() == {"content": "one two three", "tokens": 3}


async def test_the_same_request_id_twice_is_one_job_and_one_answer(live, model):
    model.go.set()
    web = api(live, generation(live, model), wait=PATIENT)
    async with live.worker(), browser(web) as client:
        answers = await asyncio.gather(*(ask(client, "r-1", text) for text in ("a b", "a b", "c d")))
        later = await ask(client, "r-1", "e f")

    assert len({answer.json()["id"] for answer in (*answers, later)}) == 1
    assert len(model.asked) == 1
    assert {answer.json()["content"] for answer in (*answers, later)} == {model.asked[0]}


async def test_the_same_prompt_of_a_user_within_five_seconds_is_one_job(app: App, clock: TurnedClock):
    async with browser(api(app, generation(app, echo), wait=HASTY)) as client:
        first = (await ask(client, "r-1")).json()["id"]
        clock.turn(4_900_000)
        again = (await ask(client, "r-2")).json()["id"]
        other_user = (await ask(client, "r-3", user="bob")).json()["id"]
        clock.turn(200_000)
        late = (await ask(client, "r-4")).json()["id"]

    assert again == first
    assert len({first, other_user, late}) == 3


async def test_a_job_carries_its_user_and_its_request(app: App):
    async with browser(api(app, generation(app, echo), wait=HASTY)) as client:
        job = (await ask(client, "r-1")).json()["id"]

    info = await app.job(job).info()
    assert (info.user, info.correlation_id, info.chosen_id) == ("ann", "r-1", "llm:r-1")


def numbered(event: str) -> str:
    """An event whose id says only which piece it is, not of which try."""
    return re.sub(r"^id: \d+\.", "id: ", event)


async def seen_until(app: App, job: str, number: int) -> str:
    """The id of the event of this piece."""
    reading = app.job(job).stream()
    for _ in range(number):
        chunk = await anext(reading)
    return f"{chunk.after.fence}.{chunk.after.number}"


async def test_tokens_come_while_the_job_runs_and_the_stream_ends_with_it(live, model):
    web = api(live, generation(live, model), wait=HASTY)
    async with live.worker(), browser(web) as client:
        job = (await ask(client, "r-1")).json()["id"]
        async with get(web, f"/jobs/{job}/stream") as answer:
            events = answer.events()

            assert numbered(await anext(events)) == 'id: 1\nevent: token\ndata: "one "'
            assert await live.job(job).state() == "running"
            model.go.set()
            rest = [numbered(event) async for event in events]

    assert answer.status == 200
    assert rest == [
        'id: 2\nevent: token\ndata: "two "',
        'id: 3\nevent: token\ndata: "three "',
        'event: done\ndata: {"content":"one two three","tokens":3}',
    ]


async def test_a_reader_that_comes_back_gets_what_it_missed(live, model):
    model.go.set()
    web = api(live, generation(live, model), wait=PATIENT)
    async with live.worker(), browser(web) as client:
        job = (await ask(client, "r-1")).json()["id"]
        async with get(web, f"/jobs/{job}/stream", {"Last-Event-ID": await seen_until(live, job, 2)}) as answer:
            events = [event async for event in answer.events()]

    assert [numbered(event).splitlines()[0] for event in events] == ["id: 3", "event: done"]


async def test_a_new_try_tells_the_reader_to_begin_anew(app: App, clock: TurnedClock, model):
    web = api(app, generation(app, model), wait=HASTY)
    model.fails = True
    model.go.set()
    async with browser(web) as client:
        job = (await ask(client, "r-1", "one two")).json()["id"]
    await work(app, clock, "ai")
    last = await seen_until(app, job, 1)
    clock.turn(3 * SECOND)
    await work(app, clock, "ai")

    async with get(web, f"/jobs/{job}/stream", {"Last-Event-ID": last}) as answer:
        events = [numbered(event).splitlines() async for event in answer.events()]

    assert [lines[0] for lines in events] == ["event: again", "id: 1", "id: 2", "event: done"]


async def test_a_job_is_called_off_while_the_model_is_at_it(live, model):
    web = api(live, generation(live, model), wait=HASTY)
    async with live.worker(lease="1s"), browser(web) as client:
        job = (await ask(client, "r-1")).json()["id"]
        await seen(client, job, state="running")
        async with get(web, f"/jobs/{job}/stream") as answer:
            assert (await client.delete(f"/jobs/{job}")).status_code == 202
            last = [event async for event in answer.events()][-1]

    assert last.startswith("event: failed")
    assert await live.job(job).state() == "cancelled"


async def test_a_prompt_that_fails_for_good_is_502(live):
    async def broken(_text: str) -> AsyncIterator[str]:
        raise Refused
        yield ""

    class Refused(Exception):
        status = 400

    web = api(live, generation(live, broken), wait=PATIENT)
    async with live.worker(), browser(web) as client:
        assert (await ask(client, "r-1")).status_code == 502


async def test_what_is_not_there_or_makes_no_sense_is_refused(app: App):
    async with browser(api(app, generation(app, echo), wait=HASTY)) as client:
        nobody = "00000000-0000-7000-8000-000000000000"

        assert (await client.get(f"/jobs/{nobody}")).status_code == 404
        assert (await client.get(f"/jobs/{nobody}/stream")).status_code == 404
        assert (await client.get("/jobs/what")).status_code == 404
        assert (await client.post("/generate", content="{}")).status_code == 400


async def test_counts_tell_how_many_stand_where(app: App, clock: TurnedClock):
    async with browser(api(app, generation(app, echo), wait=HASTY)) as client:
        await ask(client, "r-1", "one")
        await work(app, clock, "ai")
        await ask(client, "r-2", "two")

        counts = (await client.get("/counts")).json()

    assert {state: count for state, count in counts.items() if count} == {"ready": 1, "done": 1}
