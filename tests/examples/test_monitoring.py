"""The monitoring example: signed alerts at 1,001 ready and 101 dead jobs, and counts that survive a kill of the counter."""

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from examples.monitoring.alerts import DEAD_MAX, READY_MAX, watch
from examples.monitoring.counters import JobCounters, count_events
from examples.monitoring.receiver import AlertServer
from packhorse import App, Webhook
from packhorse.model.clock import SYSTEM
from packhorse.testing import TurnedClock, run_until_idle
from tests.conftest import kinds, namespace
from tests.examples.turning import SECOND

ROOT = Path(__file__).parents[2]
SECRET = "whsec_c2VjcmV0LW9mLXRoZS10ZXN0LWFuZC1sb25n"
COUNTER = """
import asyncio, sys
from pathlib import Path
from examples.monitoring.counters import JobCounters, count_events
from packhorse import App
asyncio.run(count_events(App(sys.argv[1], namespace=sys.argv[2]), JobCounters(Path(sys.argv[3]))))
"""


@pytest.fixture(params=[kind for kind in kinds() if kind in ("sqlite", "redis", "postgres")])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def clock() -> TurnedClock:
    """Begins now: the receiver refuses what was signed long ago."""
    return TurnedClock(SYSTEM.now())


@pytest.fixture
def server() -> Iterator[AlertServer]:
    with AlertServer(SECRET, port=0) as made:
        serving = threading.Thread(target=made.serve_forever)
        serving.start()
        yield made
        made.shutdown()
        serving.join()


def webhook(server: AlertServer) -> Webhook:
    port = server.server_address[1]
    return Webhook(
        f"http://localhost:{port}/", secret=SECRET, http=True, ports=[port], allow=["127.0.0.0/8", "::1/128"]
    )


async def fill(app: App, count: int) -> None:
    for first in range(0, count, 500):
        await app.enqueue(*[app.queue("email").call("send-email", {}) for _ in range(min(500, count - first))])


async def look(app: App, clock: TurnedClock) -> None:
    """Let time pass and watch as a worker does, without running the jobs of the queue."""
    clock.turn(31 * SECOND)
    await app.alerts.evaluate()
    await run_until_idle(app)


async def test_alerts_fire_above_the_limit_and_are_resolved_at_it(
    app: App, clock: TurnedClock, server: AlertServer, kind: str
):
    watch(app, webhook(server), ["email"])
    await app.alerts.declare()
    await app.queue("email").pause()
    await fill(app, READY_MAX)
    await look(app, clock)
    assert [alert.rule for alert in server.taken.values() if alert.type == "backlog"] == []

    await fill(app, 1)
    await look(app, clock)
    await look(app, clock)
    [fired] = [alert for alert in server.taken.values() if alert.type == "backlog"]
    assert (fired.rule, fired.phase, fired.count, fired.queue) == ("backlog:email", "fired", READY_MAX + 1, "email")

    [job] = (await app.find(queue="email", state="ready", limit=1)).items
    assert await app.job(job.id).cancel() == "cancelled"
    await look(app, clock)
    assert [alert.phase for alert in server.taken.values() if alert.type == "backlog"] == ["fired", "resolved"]
    assert DEAD_MAX == 100


def test_the_receiver_refuses_what_is_not_signed(server: AlertServer):
    url = f"http://127.0.0.1:{server.server_address[1]}/"
    assert httpx.post(url, content=b"{}").status_code == 401
    assert server.taken == {}


async def test_each_event_counts_once_although_the_counter_is_killed(kind: str, url: str, tmp_path: Path):
    file = tmp_path / "counters.json"
    app = App(url, namespace=namespace(kind))

    @app.task(name="send-email", queue="email", attempts=1)
    async def send_email(number: int) -> None:
        if number % 10 == 0:
            raise ValueError("no")

    async with app:
        for part in range(3):
            command = [sys.executable, "-c", COUNTER, url, namespace(kind), str(file)]
            counter = subprocess.Popen(command, cwd=ROOT)
            await app.enqueue(*[send_email.call(number) for number in range(100)])
            await run_until_idle(app)
            seen = part
            async with asyncio.timeout(30):
                while seen == part:  # it has counted something of this part
                    await asyncio.sleep(0.01)
                    text = file.read_text() if file.exists() else "{}"
                    seen += sum(json.loads(text).get("counts", {}).values()) > part * 200
            counter.kill()
            counter.wait()
        counters = JobCounters(file)
        await count_events(app, counters, follow=False)

    assert counters.missed == 0
    assert counters.counts == {"email enqueued": 300, "email done": 270, "email dead": 30}
