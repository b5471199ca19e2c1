"""The demo as it is seen: lines as it goes on, or a live screen on a terminal."""

from collections import deque
from collections.abc import Callable, Mapping

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from packhorse import JobNotFound
from packhorse.cli.demo.scene import Scene
from packhorse.cli.demo.show import Show
from packhorse.cli.demo.summary import Played, latest, tick
from packhorse.model.clock import SYSTEM
from packhorse.model.event import Change
from packhorse.model.job import State
from packhorse.model.queue import Counts

REFRESH = 200_000
WAITS = (State.READY, State.SCHEDULED, State.WAITING)


class Lines:
    """Says what happens line by line."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._text = ""

    def begin(self, scene: Scene) -> None:
        """A scene begins."""
        self._say(f"{scene.name}: {scene.shows}")

    def tell(self, text: str) -> None:
        """Something happened."""
        self._say(f"  {text}")

    def token(self, text: str) -> None:
        """A text comes in pieces; it is said in lines."""
        self._text += text
        if self._text.endswith((". ", "! ")):
            self._say(f"  {self._text.strip()}")
            self._text = ""

    def progress(self, percent: float) -> None:
        """How far a job is."""
        self._say(f"  {percent:.0f} %")

    def end(self, played: Played) -> None:
        """A scene is over."""
        for trouble in played.troubles:
            self._say(f"  FAILED: {trouble}")
        if played.passed:
            self._say(f"  ok, {played.seconds:.1f} s: {'; '.join(check.says for check in played.checks)}")


class Picture:
    """Shows the state of everything at once."""

    def __init__(self) -> None:
        self._scene, self._shows = "", ""
        self._played: deque[Played] = deque(maxlen=100)
        self._news: deque[str] = deque(maxlen=3)
        self._text = ""
        self._percent = 0.0
        self._queues: Mapping[str, Counts] = {}
        self._events: list[tuple[Change, str, str]] = []
        self._known: dict[str, str] = {}
        self._counts = Text()

    def begin(self, scene: Scene) -> None:
        """A scene begins."""
        self._scene, self._shows = scene.name, scene.shows

    def tell(self, text: str) -> None:
        """Something happened."""
        self._news.append(text)

    def token(self, text: str) -> None:
        """A text comes in pieces."""
        self._text = self._text + text if text else ""

    def progress(self, percent: float) -> None:
        """How far a job is."""
        self._percent = percent

    def end(self, played: Played) -> None:
        """A scene is over."""
        self._played.append(played)
        self._news.extend(f"{played.name} FAILED: {trouble}" for trouble in played.troubles)

    async def watch(self, show: Show) -> None:
        """Look at the store again and again."""
        while True:
            await self.look(show)
            await SYSTEM.sleep(REFRESH)

    async def look(self, show: Show) -> None:
        """See what stands in the queues, and what happened last."""
        self._queues = await (await show.app.store()).jobs.count()
        recent = list(show.log.recent)
        self._known = {job: self._known.get(job) or await _task(show, job) for _, job in recent}
        self._events = [(change, job, self._known[job]) for change, job in recent]
        counts = show.log.counts
        self._counts = Text(
            f"{counts[Change.DONE]} done, {counts[Change.AGAIN]} retries, {counts[Change.DEAD]} dead, "
            f"{counts[Change.REPLAYED]} replayed, {counts[Change.LOST]} taken over; workers {show.fleet.pids}"
        )

    def __rich__(self) -> RenderableType:
        scenes = Text("  ").join(Text.assemble(tick(scene), " ", scene.name) for scene in latest(self._played))
        beside = Table.grid(expand=True, padding=(0, 1))
        beside.add_column(ratio=1)
        beside.add_column(ratio=1)
        beside.add_row(self._bars(), self._table())
        now = Text.assemble((self._scene, "bold"), f"  {self._shows}")
        watched = Group(Text(self._text, style="cyan"), ProgressBar(total=100, completed=self._percent))
        return Group(
            Panel(now, title="packhorse demo", subtitle="Ctrl-C ends it", box=box.ROUNDED),
            beside,
            Panel(watched, title="an answer in pieces, a report on its way", box=box.ROUNDED, height=5),
            *(Text(f"  {news}") for news in self._news),
            scenes,
            self._counts,
        )

    def _bars(self) -> Table:
        bars = Table(box=box.SIMPLE_HEAD, expand=True, header_style="bold", pad_edge=False)
        bars.add_column("queue")
        bars.add_column("done", ratio=1)
        for name in ("waits", "runs", "ended"):
            bars.add_column(name, justify="right")
        for queue, states in sorted(self._queues.items()):
            ended = sum(count for state, count in states.items() if state.ended)
            waits, runs = sum(states.get(state, 0) for state in WAITS), states.get(State.RUNNING, 0)
            bar = ProgressBar(total=max(1, ended + waits + runs), completed=ended)
            bars.add_row(queue, bar, str(waits), str(runs), str(ended))
        return bars

    def _table(self) -> Table:
        table = Table(box=box.SIMPLE_HEAD, expand=True, header_style="bold", pad_edge=False)
        for name in ("job", "task", "was"):
            table.add_column(name, no_wrap=True)
        for change, job, task in self._events:
            table.add_row(job[-6:], task, change.name.lower())
        return table


async def _task(show: Show, job: str) -> str:
    try:
        return (await show.app.job(job).info()).task
    except JobNotFound:
        return "-"
