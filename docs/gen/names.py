"""Public names that no page of the reference has a place for yet."""

import re
from pathlib import Path

import packhorse
from packhorse import errors

PAGE = Path(__file__).parents[1] / "reference" / "api.md"


def rest() -> str:
    """A section with them; errors have a page of their own."""
    shown = set(re.findall(r"^::: packhorse\.(\w+)$", PAGE.read_text(), re.MULTILINE))
    left = [name for name in packhorse.__all__ if name not in shown and not hasattr(errors, name)]
    return "\n\n".join(("## More", *(f"::: packhorse.{name}" for name in left), "")) if left else ""
