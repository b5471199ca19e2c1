"""Alerts of living workers: several of them, on the clock of the machine."""

import asyncio
import os

from packhorse import AnyDead
from tests.features.alerting import Inbox

STORM = 1000 if os.environ.get("PACKHORSE_TEST_LONG") else 60


async def test_a_storm_of_failures_over_three_living_workers_is_sent_once(make):
    inboxes, apps = [Inbox() for _ in range(3)], [make() for _ in range(3)]
    for app, inbox in zip(apps, inboxes, strict=True):
        app.alerts(to=[inbox], rules=[AnyDead()])

        @app.task(name="export_data", attempts=1)
        async def export_data() -> None:
            raise ConnectionError("the warehouse is away")

        await app.alerts.declare()
    for begin in range(0, STORM, 500):
        await apps[0].enqueue(*(apps[0].queue("default").call("export_data") for _ in range(min(500, STORM - begin))))
    async with apps[0].worker(), apps[1].worker(), apps[2].worker(), asyncio.timeout(60):
        while (
            not any(inbox.alerts for inbox in inboxes) or sum(one.count for one in await apps[0].alerts.find()) < STORM
        ):
            await asyncio.sleep(0.05)
    alerts = [alert for inbox in inboxes for alert in inbox.alerts]
    assert [(alert.phase, alert.task, alert.attempts) for alert in alerts] == [("fired", "export_data", 1)]
    [status] = await apps[0].alerts.find()
    assert (status.state, status.count) == ("firing", STORM)
