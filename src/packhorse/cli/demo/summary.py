"""What came of a demo: the scenes with their checks, and what the log of the store counted."""

from collections import Counter
from collections.abc import Iterable

import msgspec
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from packhorse.cli.demo.scene import Check
from packhorse.model.event import Change


class Played(msgspec.Struct, frozen=True):
    """One scene that was played to its end, or broke."""

    name: str
    shows: str
    seconds: float
    checks: tuple[Check, ...] = ()
    error: str | None = None

    @property
    def passed(self) -> bool:
        """Whether all that must be true is."""
        return self.error is None and bool(self.checks) and all(check.passed for check in self.checks)

    @property
    def troubles(self) -> list[str]:
        """What is not as it must be."""
        failed = [f"{check.says}: {check.found}" for check in self.checks if not check.passed]
        return [*failed, *([self.error] if self.error else [])]


class Counts(msgspec.Struct, frozen=True):
    """What happened to jobs, as the store wrote it down."""

    enqueued: int = 0
    done: int = 0
    retries: int = 0
    dead: int = 0
    replayed: int = 0
    cancelled: int = 0
    takeovers: int = 0


class Summary(msgspec.Struct, frozen=True):
    """The whole show."""

    store: str
    seconds: float
    scenes: tuple[Played, ...]
    counts: Counts
    missing: tuple[str, ...] = ()  # scenes that should have been played and were not
    in_store: tuple[str, ...] = ()  # what was left there, if something went wrong

    @property
    def passed(self) -> bool:
        """Whether every scene was played and every check holds."""
        return bool(self.scenes) and not self.missing and all(scene.passed for scene in self.scenes)

    def with_store(self, lines: Iterable[str]) -> "Summary":
        """The same, with what is in the store."""
        return msgspec.structs.replace(self, in_store=tuple(lines))

    @property
    def rate(self) -> float:
        """Jobs done in a second, all pauses included."""
        return round(self.counts.done / self.seconds, 1) if self.seconds else 0.0

    def plain(self) -> dict[str, object]:
        """As programs read it."""
        scenes = [
            {"name": scene.name, "passed": scene.passed, **msgspec.structs.asdict(scene)} for scene in self.scenes
        ]
        verdict = {"passed": self.passed, "jobs_per_second": self.rate}
        return {**verdict, **msgspec.structs.asdict(self), "scenes": scenes}


def counted(counts: Counter[Change]) -> Counts:
    """The counts of a logbook in words."""
    return Counts(
        enqueued=counts[Change.ENQUEUED],
        done=counts[Change.DONE],
        retries=counts[Change.AGAIN],
        dead=counts[Change.DEAD],
        replayed=counts[Change.REPLAYED],
        cancelled=counts[Change.CANCELLED],
        takeovers=counts[Change.LOST],
    )


def drawn(summary: Summary) -> RenderableType:
    """As people read it."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for column in ("", "scene", "what must be true, and is", "seconds"):
        table.add_column(column, justify="right" if column == "seconds" else "left")
    for scene in latest(summary.scenes):
        held = "; ".join(check.says for check in scene.checks) if scene.passed else "FAILED"
        table.add_row(tick(scene), scene.name, held, f"{scene.seconds:.1f}")
    counts = summary.counts
    said = (
        f"{counts.done} jobs done in {summary.seconds:.1f} s on {summary.store} ({summary.rate} a second with all pauses): "
        f"{counts.retries} retries, {counts.dead} dead, {counts.replayed} replayed, {counts.cancelled} cancelled, "
        f"{counts.takeovers} taken over from a killed worker."
    )
    return Group(table, Text(said), *_troubles(summary))


def _troubles(summary: Summary) -> Iterable[Text]:
    for scene in summary.scenes:
        for trouble in scene.troubles:
            yield Text(f"FAILED {scene.name}: {trouble}", style="bold red")
    if summary.missing:
        yield Text(f"FAILED not played: {', '.join(summary.missing)}", style="bold red")
    for line in summary.in_store:
        yield Text(line)


def latest(scenes: Iterable[Played]) -> list[Played]:
    """Each scene as it was last played; one that ever failed, as it failed."""
    kept: dict[str, Played] = {}
    for scene in scenes:
        if scene.name not in kept or kept[scene.name].passed:
            kept[scene.name] = scene
    return list(kept.values())


def tick(scene: Played) -> Text:
    """How it went, in one sign."""
    return Text("✓", style="green") if scene.passed else Text("✗", style="bold red")
