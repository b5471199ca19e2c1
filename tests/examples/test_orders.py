"""The order example: answers at once, tries at the moments it says, sends one e-mail, leaves a letter to be replayed."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from httpx import ASGITransport, AsyncClient

from examples.orders.api import api
from examples.orders.mail import Mailbox
from examples.orders.support import Tickets, support
from examples.orders.tasks import confirmation
from packhorse import Alert, App
from packhorse.testing import TurnedClock, run_until_idle
from tests.conftest import kinds, namespace
from tests.examples.turning import SECOND, work

ROOT = Path(__file__).parents[2]
ORDER = {"email": "ann@example.org", "item": "saddle"}


class Provider:
    """A mail provider with bad days: it may refuse, or send and then fail to say so."""

    def __init__(self, mailbox: Mailbox, clock: TurnedClock) -> None:
        self._mailbox, self._clock = mailbox, clock
        self.refuses = self.forgets_to_answer = False
        self.asked: list[int] = []

    def send(self, key: str, email: str, words: str) -> None:
        self.asked.append(self._clock.now())
        if self.refuses:
            raise ConnectionError("the provider is away")
        self._mailbox.send(key, email, words)
        if self.forgets_to_answer:
            raise TimeoutError("no answer")


@pytest.fixture
def mailbox(tmp_path: Path) -> Mailbox:
    return Mailbox(tmp_path / "mail.db")


@pytest.fixture
def provider(mailbox: Mailbox, clock: TurnedClock) -> Provider:
    return Provider(mailbox, clock)


@pytest.fixture
async def client(app: App, provider: Provider) -> AsyncIterator[AsyncClient]:
    web = api(app, confirmation(app, provider.send))
    async with AsyncClient(transport=ASGITransport(web), base_url="http://shop") as made:
        yield made


async def order(client: AsyncClient) -> dict[str, str]:
    answer = await client.post("/orders", json=ORDER)
    assert answer.status_code == 201
    return dict(answer.json())


async def exhaust(app: App, clock: TurnedClock) -> None:
    """Let all four tries of what is there happen."""
    for seconds in (0, 1, 2, 4):
        clock.turn(seconds * SECOND)
        await work(app, clock, "email")


async def test_an_order_is_answered_with_201_while_no_worker_is_there(client, app, mailbox):
    created = await order(client)

    assert (await client.get(f"/orders/{created['id']}")).json() == {"item": "saddle", "confirmation": "ready"}
    assert await app.job(created["confirmation"]).state() == "ready"
    assert mailbox.sent() == []


async def test_a_worker_sends_the_confirmation(client, app, clock, mailbox):
    created = await order(client)

    await work(app, clock, "email")

    assert mailbox.sent() == [("ann@example.org", f"We have your order {created['id']}.")]
    receipt = {"order_id": created["id"], "email": "ann@example.org", "attempt": 1}
    assert await app.job(created["confirmation"]).result(timeout=30) == receipt


async def test_four_tries_are_1_2_and_4_seconds_apart(client, app, clock, provider):
    provider.refuses = True
    created = await order(client)
    begin = clock.now()

    await work(app, clock, "email")
    for tries, seconds in enumerate((1, 2, 4), 1):
        clock.turn(seconds * SECOND - 1)
        await work(app, clock, "email")
        assert len(provider.asked) == tries  # not a microsecond early
        clock.turn(1)
        await work(app, clock, "email")

    assert [moment - begin for moment in provider.asked] == [0, 1 * SECOND, 3 * SECOND, 7 * SECOND]
    assert await app.job(created["confirmation"]).state() == "dead"


async def test_a_confirmation_that_runs_twice_sends_one_mail(client, app, clock, provider, mailbox):
    provider.forgets_to_answer = True
    created = await order(client)
    await work(app, clock, "email")
    provider.forgets_to_answer = False
    clock.turn(SECOND)
    await work(app, clock, "email")

    assert len(provider.asked) == 2
    assert len(mailbox.sent()) == 1
    assert (await app.job(created["confirmation"]).result(timeout=30))["attempt"] == 2


async def test_a_dead_letter_tells_what_was_to_be_done_and_what_went_wrong(client, app, clock, provider):
    provider.refuses = True
    created = await order(client)
    await exhaust(app, clock)

    answer = (await client.get("/admin/dead")).json()

    [letter] = answer["letters"]
    assert letter.pop("group") == (await app.dead.get(created["confirmation"])).fingerprint
    assert letter.pop("failed_at") == "2023-11-14T22:13:27+00:00"
    assert letter == {
        "id": created["confirmation"],
        "task": "email:order-confirmation",
        "data": {"order_id": created["id"], "email": "ann@example.org"},
        "attempts": 4,
        "reason": "exhausted",
        "error": "the provider is away",
    }
    assert answer["more"] is False


async def test_a_replayed_letter_has_all_its_tries_again(client, app, clock, provider, mailbox):
    provider.refuses = True
    created = await order(client)
    await exhaust(app, clock)

    answer = await client.post(f"/admin/jobs/{created['confirmation']}/replay")
    assert (answer.status_code, answer.json()) == (202, {"id": created["confirmation"], "state": "ready"})
    await work(app, clock, "email")
    provider.refuses = False
    clock.turn(SECOND)  # after the first try of the new four
    await work(app, clock, "email")

    assert len(mailbox.sent()) == 1
    assert (await app.job(created["confirmation"]).result(timeout=30))["attempt"] == 2
    assert (await client.get("/admin/dead")).json()["letters"] == []


async def test_all_letters_of_one_cause_are_replayed_in_the_name_of_the_one_who_asks(client, app, clock, provider):
    provider.refuses = True
    for _ in range(3):
        await order(client)
    await exhaust(app, clock)
    [group] = {letter["group"] for letter in (await client.get("/admin/dead")).json()["letters"]}

    answer = await client.post(f"/admin/groups/{group}/replay", headers={"x-user": "ann@example.org"})

    assert (answer.status_code, answer.json()) == (202, {"replayed": 3, "job": None})
    assert {entry.who for entry in await app.audit.entries()} == {"ann@example.org"}


async def test_a_confirmation_that_dies_opens_one_ticket_and_fires_one_alert(client, app, clock, provider, tmp_path):
    tickets, alerts = Tickets(tmp_path / "tickets.db"), list[Alert]()

    async def page(alert: Alert) -> None:
        alerts.append(alert)

    support(app, tickets, page)
    await app.alerts.declare()
    provider.refuses = True
    for _ in range(2):
        await order(client)
    for seconds in (0, 1, 2, 4):
        clock.turn(seconds * SECOND)
        await run_until_idle(app)

    assert tickets.all() == [("ann@example.org", "email:order-confirmation: the provider is away")] * 2
    assert [alert.message for alert in alerts if alert.phase == "fired"] == [
        "Task email:order-confirmation failed after 4 attempts, and 1 more"
    ]


async def test_only_dead_letters_are_replayed(client):
    created = await order(client)

    assert (await client.post(f"/admin/jobs/{created['confirmation']}/replay")).status_code == 409
    assert (await client.post("/admin/jobs/nothing/replay")).status_code == 404


@pytest.mark.parametrize("body", ['{"item": "saddle"}', '{"email": 3, "item": "saddle"}', "no json"])
async def test_an_order_that_makes_no_sense_is_refused_and_starts_nothing(client, app, body):
    answer = await client.post("/orders", content=body)

    assert answer.status_code == 400
    assert (await app.find()).items == ()


@pytest.mark.parametrize("kind", [kind for kind in kinds() if kind != "memory"])
async def test_a_worker_process_sends_what_the_api_enqueued(kind: str, url: str, tmp_path: Path):
    settings = {"PACKHORSE_URL": url, "PACKHORSE_NAMESPACE": namespace(kind), "PYTHONPATH": str(ROOT)}
    app = App(url, namespace=namespace(kind))
    web = api(app, confirmation(app, refused))
    async with app, AsyncClient(transport=ASGITransport(web), base_url="http://shop") as client:
        created = await order(client)
        worker = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "examples.orders.shop", cwd=tmp_path, env={**os.environ, **settings}
        )
        try:
            receipt = await app.job(created["confirmation"]).result(timeout=60)
        finally:
            worker.terminate()
            code = await worker.wait()

    assert receipt == {"order_id": created["id"], "email": "ann@example.org", "attempt": 1}
    assert Mailbox(tmp_path / "mail.db").sent() == [("ann@example.org", f"We have your order {created['id']}.")]
    assert code == 0


def refused(_key: str, _email: str, _words: str) -> None:
    raise AssertionError("this process has no worker")
