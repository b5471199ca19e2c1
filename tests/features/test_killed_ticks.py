"""Every tick of every schedule is exactly one job, while the workers that fire them are killed.

``PACKHORSE_TEST_LONG=1`` is the full length; ``PACKHORSE_SEED`` repeats the kills of a run.
"""

import asyncio
import os
import random
import signal
import sys
from datetime import UTC, datetime, timedelta

from packhorse import App, every
from tests.features.factories import SECOND, Place, everything, until

LONG = bool(os.environ.get("PACKHORSE_TEST_LONG"))
SECONDS = 60 if LONG else 5
AHEAD = timedelta(seconds=3)  # the workers are there by then
SCHEDULES = 20
LEASE = 2_000_000


async def test_i8_each_tick_is_one_job_and_none_is_missing_while_workers_are_killed(live: App, place: Place):
    seed = int(os.environ.get("PACKHORSE_SEED", random.randrange(1 << 30)))
    call = live.queue("ticks").call("tick", keep_done=1_000_000)
    now = datetime.fromtimestamp(await (await live.store()).ping() // SECOND, UTC)
    expected = [now + AHEAD + timedelta(seconds=n) for n in range(SECONDS)]
    for number in range(SCHEDULES):
        await live.schedules.put(f"s{number}", every("1s"), call, overlap="allow", start=expected[0], end=expected[-1])
    killing = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.features.killing", "ticks", str(LEASE), str(seed), env=place.environment
    )
    try:
        enough = SCHEDULES * SECONDS

        async def fired() -> bool:
            await asyncio.sleep(0.2)
            assert killing.returncode is None
            return sum((await live.queue("ticks").counts()).values()) >= enough

        await until(fired, 60 + 2 * SECONDS)
    finally:
        killing.send_signal(signal.SIGTERM)
        await killing.wait()

    made: dict[str, list[datetime]] = {}
    for job in await everything(live, queue="ticks", limit=1000):
        made.setdefault(job.headers["schedule"], []).append(datetime.fromisoformat(job.headers["tick"]))
    assert len(made) == SCHEDULES, f"PACKHORSE_SEED={seed}"
    for name, ticks in made.items():
        assert sorted(ticks) == expected, f"{name}, PACKHORSE_SEED={seed}"
