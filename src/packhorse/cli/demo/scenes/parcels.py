"""A worker is killed, without a warning, while it carries parcels."""

import os

from packhorse import Job, current
from packhorse.cli.demo.scene import Check, Scene, Stage
from packhorse.cli.demo.shop import app, takes
from packhorse.model.event import Change

AT_ONCE = 8


@app.task(name="deliver", queue="parcels")
async def deliver(number: int) -> int:
    """Carry a parcel: a long way at first, a short one for whoever takes over. Answers which process arrived."""
    current().progress(1, f"parcel {number} with {os.getpid()}")
    await takes("2s" if current().attempt == 1 else "200ms")
    return os.getpid()


class Kill(Scene):
    """SIGKILL, and somebody else goes on."""

    turn, name, shows = 90, "SIGKILL", "a worker process is killed with parcels on its back; the others take over"

    def __init__(self) -> None:
        self._count = 0
        self._killed = 0
        self._held: list[str] = []

    async def play(self, stage: Stage) -> None:
        """Wait until the one to be killed has some, then kill it."""
        while not self._held:
            for _ in range(AT_ONCE):
                await deliver.enqueue(self._count)
                self._count += 1
            if carried := await self._on_the_road(stage, stage.fleet.pids[0]):
                await self._kill(stage, carried)
        await stage.quiet()

    async def check(self, stage: Stage) -> list[Check]:
        """What it held was taken over, and nothing arrived twice."""
        jobs = await stage.jobs()
        lost = stage.log.times(self._held, Change.LOST)
        by_others = [await stage.app.job(job).result(timeout=20) != self._killed for job in self._held]
        return [
            Check("taken over", bool(lost) and lost >= len(self._held), f"{lost} of {len(self._held)} were taken back"),
            Check("delivered by others", all(by_others), f"held by the dead: {by_others}"),
            stage.once("parcels", jobs, self._count),
        ]

    async def _kill(self, stage: Stage, carried: list[str]) -> None:
        self._killed = await stage.fleet.kill()
        self._held = [job.id for job in await stage.jobs() if job.id in carried and not job.ended]
        stage.audience.tell(f"worker {self._killed} is killed with {len(self._held)} parcels")
        await stage.fleet.hire(1)

    async def _on_the_road(self, stage: Stage, pid: int) -> list[str]:
        """The parcels that this process carries, once all that run have said who carries them."""
        while jobs := [job for job in await stage.jobs() if not job.ended]:
            carriers = {job.id: _carrier(job) for job in jobs if job.status == "running"}
            if carriers and None not in carriers.values():
                return [job for job, carrier in carriers.items() if carrier == pid]
            await takes("30ms")
        return []


def _carrier(job: Job) -> int | None:
    """Which process carries a parcel, by its own word."""
    return None if job.progress is None else int(job.progress.message.split()[-1])
