"""The summary of a demo: the results of its scenes and the event counts of the store."""

from collections import Counter
from collections.abc import Iterable

import msgspec
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from packhorse.model.event import Change
from packhorse_demo.scene import Check


class SceneResult(msgspec.Struct, frozen=True):
    """The result of one scene."""

    name: str
    shows: str
    seconds: float
    checks: tuple[Check, ...] = ()
    error: str | None = None

    @property
    def passed(self) -> bool:
        """Whether every check holds."""
        return self.error is None and bool(self.checks) and all(check.passed for check in self.checks)

    @property
    def problems(self) -> list[str]:
        """The checks that failed, and the error."""
        failed = [f"{check.says}: {check.found}" for check in self.checks if not check.passed]
        return [*failed, *([self.error] if self.error else [])]


class EventCounts(msgspec.Struct, frozen=True):
    """The number of events by kind, from the log of the store."""

    enqueued: int = 0
    done: int = 0
    retries: int = 0
    dead: int = 0
    replayed: int = 0
    cancelled: int = 0
    takeovers: int = 0


class DemoSummary(msgspec.Struct, frozen=True):
    """The result of the whole demo."""

    store: str
    seconds: float
    scenes: tuple[SceneResult, ...]
    counts: EventCounts
    missing: tuple[str, ...] = ()  # scenes that did not run
    in_store: tuple[str, ...] = ()  # what the store held, if a check failed

    @property
    def passed(self) -> bool:
        """Whether every scene ran and every check holds."""
        return bool(self.scenes) and not self.missing and all(scene.passed for scene in self.scenes)

    def with_store(self, lines: Iterable[str]) -> "DemoSummary":
        """Return a copy with what the store holds."""
        return msgspec.structs.replace(self, in_store=tuple(lines))

    @property
    def rate(self) -> float:
        """Jobs done per second, pauses included."""
        return round(self.counts.done / self.seconds, 1) if self.seconds else 0.0

    def plain(self) -> dict[str, object]:
        """Return the summary as plain data for JSON."""
        scenes = [
            {"name": scene.name, "passed": scene.passed, **msgspec.structs.asdict(scene)} for scene in self.scenes
        ]
        verdict = {"passed": self.passed, "jobs_per_second": self.rate}
        return {**verdict, **msgspec.structs.asdict(self), "scenes": scenes}


def counted(counts: Counter[Change]) -> EventCounts:
    """Name the counts of an event log."""
    return EventCounts(
        enqueued=counts[Change.ENQUEUED],
        done=counts[Change.DONE],
        retries=counts[Change.AGAIN],
        dead=counts[Change.DEAD],
        replayed=counts[Change.REPLAYED],
        cancelled=counts[Change.CANCELLED],
        takeovers=counts[Change.LOST],
    )


def drawn(summary: DemoSummary) -> RenderableType:
    """Format the summary for people."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for column in ("", "scene", "checks that hold", "seconds"):
        table.add_column(column, justify="right" if column == "seconds" else "left")
    for scene in latest(summary.scenes):
        checks = "; ".join(check.says for check in scene.checks) if scene.passed else "FAILED"
        table.add_row(tick(scene), scene.name, checks, f"{scene.seconds:.1f}")
    counts = summary.counts
    line = (
        f"{counts.done} jobs done in {summary.seconds:.1f} s on {summary.store} ({summary.rate} a second, pauses included): "
        f"{counts.retries} retries, {counts.dead} dead, {counts.replayed} replayed, {counts.cancelled} cancelled, "
        f"{counts.takeovers} taken over from a killed worker."
    )
    return Group(table, Text(line), *_problems(summary))


def _problems(summary: DemoSummary) -> Iterable[Text]:
    for scene in summary.scenes:
        for problem in scene.problems:
            yield Text(f"FAILED {scene.name}: {problem}", style="bold red")
    if summary.missing:
        yield Text(f"FAILED not run: {', '.join(summary.missing)}", style="bold red")
    for line in summary.in_store:
        yield Text(line)


def latest(scenes: Iterable[SceneResult]) -> list[SceneResult]:
    """Keep the last result of each scene, or its first failure."""
    kept: dict[str, SceneResult] = {}
    for scene in scenes:
        if scene.name not in kept or kept[scene.name].passed:
            kept[scene.name] = scene
    return list(kept.values())


def tick(scene: SceneResult) -> Text:
    """Return a check mark, or a cross for a failure."""
    return Text("✓", style="green") if scene.passed else Text("✗", style="bold red")
