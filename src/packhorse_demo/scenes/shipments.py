"""A worker is killed while it runs jobs."""

import os

from packhorse import Job, current
from packhorse.model.event import Change
from packhorse_demo.scene import Check, Scene, Stage
from packhorse_demo.shop import app, takes

AT_ONCE = 8


@app.task(name="deliver", queue="shipments")
async def deliver(number: int) -> int:
    """Deliver a shipment: slow at the first attempt, fast when taken over. Return the process id."""
    current().progress(1, f"shipment {number} with {os.getpid()}")
    await takes("2s" if current().attempt == 1 else "200ms")
    return os.getpid()


class Kill(Scene):
    """SIGKILL: other workers take over."""

    turn, name, shows = 90, "SIGKILL", "a worker process is killed while it runs jobs; the others take over"

    def __init__(self) -> None:
        self._count = 0
        self._killed = 0
        self._held: list[str] = []

    async def play(self, stage: Stage) -> None:
        """Wait until one worker runs shipments, then kill it."""
        while not self._held:
            for _ in range(AT_ONCE):
                await deliver.enqueue(self._count)
                self._count += 1
            if running := await self._running_in(stage, stage.workers.pids[0]):
                await self._kill(stage, running)
        await stage.quiet()

    async def check(self, stage: Stage) -> list[Check]:
        """Check that its jobs were taken over and nothing was delivered twice."""
        jobs = await stage.jobs()
        lost = stage.log.times(self._held, Change.LOST)
        by_others = [await stage.app.job(job).result(timeout=20) != self._killed for job in self._held]
        return [
            Check("taken over", bool(lost) and lost >= len(self._held), f"{lost} of {len(self._held)} were found lost"),
            Check("delivered by others", all(by_others), f"by another process: {by_others}"),
            stage.once("shipments", jobs, self._count),
        ]

    async def _kill(self, stage: Stage, running: list[str]) -> None:
        self._killed = await stage.workers.kill()
        self._held = [job.id for job in await stage.jobs() if job.id in running and not job.ended]
        stage.audience.message(f"worker {self._killed} is killed with {len(self._held)} shipments")
        await stage.workers.start(1)

    async def _running_in(self, stage: Stage, pid: int) -> list[str]:
        """Return the jobs that this process runs, once all running jobs have reported their process."""
        while jobs := [job for job in await stage.jobs() if not job.ended]:
            processes = {job.id: _process(job) for job in jobs if job.state == "running"}
            if processes and None not in processes.values():
                return [job for job, process in processes.items() if process == pid]
            await takes("30ms")
        return []


def _process(job: Job) -> int | None:
    """Return the process id that a job reported as its progress."""
    return None if job.progress is None else int(job.progress.message.split()[-1])
