"""Every tick of every schedule is exactly one job, while the workers that fire them are killed.

``PACKHORSE_TICKING=60`` is the full length in seconds; ``PACKHORSE_SEED`` repeats the kills of a run.
"""

import asyncio
import os
import random
import signal
import sys
from collections import Counter
from datetime import datetime, timedelta

from packhorse import App, every
from tests.features.making import Place, everything, until

SECONDS = int(os.environ.get("PACKHORSE_TICKING", "8"))
SCHEDULES = 20
LEASE = 2_000_000


async def test_i8_each_tick_is_one_job_and_none_is_missing_while_workers_are_killed(live: App, place: Place):
    seed = int(os.environ.get("PACKHORSE_SEED", random.randrange(1 << 30)))
    call = live.queue("ticks").call("tick", keep_done=1_000_000)
    for number in range(SCHEDULES):
        await live.schedules.put(f"s{number}", every("1s"), call, overlap="allow")
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
        begin, end = min(ticks), max(ticks)
        expected = [begin + timedelta(seconds=n) for n in range((end - begin) // timedelta(seconds=1) + 1)]
        assert Counter(ticks) == Counter(expected), f"{name}, PACKHORSE_SEED={seed}"
