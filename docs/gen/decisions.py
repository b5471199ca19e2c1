"""The list of decisions, from their titles and states."""

from pathlib import Path

FOLDER = Path(__file__).parents[1] / "adr"


def table() -> str:
    """Number, title and state of each."""
    rows = []
    for path in sorted(FOLDER.glob("[0-9]*.md")):
        lines = path.read_text().splitlines()
        state = next(line.removeprefix("Status: ") for line in lines if line.startswith("Status: "))
        number, _, title = lines[0].removeprefix("# ").partition(". ")
        rows.append(f"| {number} | [{title}]({path.name}) | {state} |")
    return "\n".join(("| | decision | state |", "|---|---|---|", *rows, ""))
