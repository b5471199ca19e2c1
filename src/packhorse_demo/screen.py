"""Show the demo: line by line, or as a live view on a terminal."""

from collections import deque
from collections.abc import Callable, Mapping

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from packhorse import JobNotFound
from packhorse.model.clock import SYSTEM
from packhorse.model.event import Change
from packhorse.model.job import State
from packhorse.model.queue import Counts
from packhorse_demo.player import Player
from packhorse_demo.scene import Scene
from packhorse_demo.summary import SceneResult, latest, tick

REFRESH_EVERY_US = 200_000
WAITS = (State.READY, State.SCHEDULED, State.WAITING)


class TextView:
    """Prints what happens line by line."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._text = ""

    def begin(self, scene: Scene) -> None:
        """Show that a scene begins."""
        self._say(f"{scene.name}: {scene.shows}")

    def message(self, text: str) -> None:
        """Show a message."""
        self._say(f"  {text}")

    def token(self, text: str) -> None:
        """Collect the pieces of a streamed text and print whole sentences."""
        self._text += text
        if self._text.endswith((". ", "! ")):
            self._say(f"  {self._text.strip()}")
            self._text = ""

    def progress(self, percent: float) -> None:
        """Show the progress of a job."""
        self._say(f"  {percent:.0f} %")

    def end(self, result: SceneResult) -> None:
        """Show the result of a scene."""
        for problem in result.problems:
            self._say(f"  FAILED: {problem}")
        if result.passed:
            self._say(f"  ok, {result.seconds:.1f} s: {'; '.join(check.says for check in result.checks)}")


class LiveView:
    """Shows queues, events, scenes and counts at once."""

    def __init__(self) -> None:
        self._scene, self._shows = "", ""
        self._results: deque[SceneResult] = deque(maxlen=100)
        self._news: deque[str] = deque(maxlen=3)
        self._text = ""
        self._percent = 0.0
        self._queues: Mapping[str, Counts] = {}
        self._events: list[tuple[Change, str, str]] = []
        self._known: dict[str, str] = {}
        self._counts = Text()

    def begin(self, scene: Scene) -> None:
        """Show that a scene begins."""
        self._scene, self._shows = scene.name, scene.shows

    def message(self, text: str) -> None:
        """Show a message."""
        self._news.append(text)

    def token(self, text: str) -> None:
        """Add a piece of a streamed text."""
        self._text = self._text + text if text else ""

    def progress(self, percent: float) -> None:
        """Show the progress of a job."""
        self._percent = percent

    def end(self, result: SceneResult) -> None:
        """Show the result of a scene."""
        self._results.append(result)
        self._news.extend(f"{result.name} FAILED: {problem}" for problem in result.problems)

    async def watch(self, player: Player) -> None:
        """Refresh the view until cancelled."""
        while True:
            await self.refresh(player)
            await SYSTEM.sleep(REFRESH_EVERY_US)

    async def refresh(self, player: Player) -> None:
        """Read the queues and the latest events."""
        self._queues = await (await player.app.store()).jobs.count()
        recent = list(player.log.recent)
        self._known = {job: self._known.get(job) or await _task(player, job) for _, job in recent}
        self._events = [(change, job, self._known[job]) for change, job in recent]
        counts = player.log.counts
        self._counts = Text(
            f"{counts[Change.DONE]} done, {counts[Change.AGAIN]} retries, {counts[Change.DEAD]} dead, "
            f"{counts[Change.REPLAYED]} replayed, {counts[Change.LOST]} taken over; workers {player.workers.pids}"
        )

    def __rich__(self) -> RenderableType:
        scenes = Text("  ").join(Text.assemble(tick(scene), " ", scene.name) for scene in latest(self._results))
        beside = Table.grid(expand=True, padding=(0, 1))
        beside.add_column(ratio=1)
        beside.add_column(ratio=1)
        beside.add_row(self._bars(), self._table())
        now = Text.assemble((self._scene, "bold"), f"  {self._shows}")
        watched = Group(Text(self._text, style="cyan"), ProgressBar(total=100, completed=self._percent))
        return Group(
            Panel(now, title="packhorse demo", subtitle="Ctrl-C stops it", box=box.ROUNDED),
            beside,
            Panel(watched, title="a streamed answer and a report in progress", box=box.ROUNDED, height=5),
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


async def _task(player: Player, job: str) -> str:
    try:
        return (await player.app.job(job).info()).task
    except JobNotFound:
        return "-"
