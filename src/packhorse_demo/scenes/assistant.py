"""Streaming, progress and cancellation."""

from packhorse import JobCancelled, JobHandle, current
from packhorse.model.event import Change
from packhorse_demo.scene import Check, Scene, Stage, equal
from packhorse_demo.shop import app, takes

TEXT = (
    "Good morning, {}! Your order left our house at seven. The road over the hill is dry today, "
    "so the packhorse should be with you before noon."
)
PAGES = 12


@app.task(name="answer", queue="assistant")
async def answer(customer: str) -> str:
    """Stream an answer, as a language model does."""
    text = TEXT.format(customer)
    for word in text.split(" "):
        await takes("35ms")
        current().emit(f"{word} ")
    return text


@app.task(name="report", queue="assistant")
async def report(pages: int) -> int:
    """Write a report and report the progress."""
    for _ in current().track(range(pages)):
        await takes("80ms")
    return pages


@app.task(name="endless", queue="assistant")
async def endless() -> None:
    """Run until cancelled."""
    while True:
        await takes("1h")


class Tokens(Scene):
    """A streamed result."""

    turn, name, shows = 60, "streaming", "an assistant answers word by word, read from another process"

    def __init__(self) -> None:
        self._read, self._whole = "", ""

    async def play(self, stage: Stage) -> None:
        """Read the pieces while the job runs."""
        job = await answer.enqueue("Ada")
        stage.audience.token("")
        async for chunk in job.stream():
            self._read += chunk.data
            stage.audience.token(chunk.data)
        self._whole = await job.result(timeout=20)

    async def check(self, stage: Stage) -> list[Check]:
        """Check that the pieces make up the result."""
        return [
            equal("every word, in order", self._read.strip(), self._whole),
            stage.once("answer", await stage.jobs(), 1),
        ]


class Report(Scene):
    """A job that reports its progress."""

    turn, name, shows = 62, "progress", "a report shows its progress, page by page"

    def __init__(self) -> None:
        self._seen: list[float] = []

    async def play(self, stage: Stage) -> None:
        """Read the progress while the job runs."""
        job = await report.enqueue(PAGES)
        ended = False
        while not ended:
            info = await job.info()
            ended = info.ended
            if info.progress is not None and info.progress.percent not in self._seen:
                self._seen.append(info.progress.percent)
                stage.audience.progress(info.progress.percent)
            await takes("50ms")

    async def check(self, stage: Stage) -> list[Check]:
        """Check that the progress only grew."""
        grew = len(self._seen) > 1 and self._seen == sorted(self._seen)
        return [
            Check("seen growing", grew, f"saw {self._seen}"),
            stage.once("report", await stage.jobs(), 1),
        ]


class Cancelling(Scene):
    """A running job is cancelled."""

    turn, name, shows = 65, "cancel", "a job that would never end is cancelled while it runs"

    def __init__(self) -> None:
        self._before, self._after = "", ""

    async def play(self, stage: Stage) -> None:
        """Cancel the job from another process than the one that runs it."""
        job: JobHandle[None] = await endless.enqueue()
        await stage.log.happened([job.id], Change.CLAIMED)
        self._before = await job.state()
        await job.cancel()
        try:
            await job.result(timeout=20)
        except JobCancelled:
            self._after = await job.state()

    async def check(self, stage: Stage) -> list[Check]:
        """Check that it ran and was cancelled once."""
        [job] = await stage.jobs()
        return [
            equal("from running to cancelled", [self._before, self._after], ["running", "cancelled"]),
            equal("cancelled once", stage.log.times([job.id], Change.CANCELLED), 1),
        ]
