"""Tables of the documentation, to be held against the code."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
_CELL = re.compile(r"(?<!\\)\|")


def rows(page: str, first: str | None = None) -> Iterator[list[str]]:
    """The rows of a page's tables, without their heads; only of tables whose head begins with a word, if one is given."""
    head: list[str] | None = None
    for line in (DOCS / page).read_text().splitlines():
        if not line.startswith("|"):
            head = None
            continue
        cells = [cell.strip() for cell in _CELL.split(line.strip().strip("|"))]
        if head is None:
            head = cells
        elif not set("".join(cells)) <= set("-: ") and first in (None, head[0]):
            yield cells


def word(cell: str) -> str:
    """A cell without its marks."""
    return cell.strip("`*")


def facts(page: str, first: str | None = None) -> dict[str, str]:
    """First and second cells of rows."""
    return {word(row[0]): row[1] for row in rows(page, first)}
