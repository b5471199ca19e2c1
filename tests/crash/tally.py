"""What a scenario has shown, as a row of the table."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

HEAD = ("scenario", "kills", "jobs", "lost", "doubled", "stuck", "zombies fenced", "seconds")


@dataclass
class Tally:
    """The numbers of one scenario; ``faults`` says in words what is wrong, ``notes`` what was measured on the way."""

    scenario: str
    kills: int = 0
    jobs: int = 0
    lost: int = 0
    doubled: int = 0
    stuck: int = 0
    fenced: int | None = None
    seconds: float = 0.0
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, answer: dict[str, Any]) -> None:
        """Take in what an audit has found."""
        self.jobs += answer["jobs"]
        self.lost += answer["lost"]
        self.doubled += answer["doubled"]
        self.stuck += answer["stuck"]
        self.faults += answer["faults"]

    def expect(self, holds: object, otherwise: str) -> None:
        """Note a fault unless something holds."""
        if not holds:
            self.faults.append(otherwise)

    @property
    def wrong(self) -> list[str]:
        """All that must not be."""
        counted = [f"{getattr(self, word)} {word}" for word in ("lost", "doubled", "stuck") if getattr(self, word)]
        return [*counted, *dict.fromkeys(self.faults)]

    @property
    def row(self) -> tuple[str, ...]:
        """The cells of the table."""
        fenced = "" if self.fenced is None else f"{self.fenced:,}"
        numbers = (self.kills, self.jobs, self.lost, self.doubled, self.stuck)
        return (self.scenario, *(f"{number:,}" for number in numbers), fenced, f"{self.seconds:.1f}")


def table(tallies: Sequence[Tally]) -> str:
    """The rows under their heads, numbers to the right."""
    rows = [HEAD, *(tally.row for tally in tallies)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    lines = [
        " | ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width) for column, (cell, width) in enumerate(pairs)
        )
        for pairs in ([*zip(row, widths, strict=True)] for row in rows)
    ]
    lines.insert(1, "-+-".join("-" * width for width in widths))
    return "\n".join(lines)
