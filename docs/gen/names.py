"""List public names that the reference does not show elsewhere."""

import re
from pathlib import Path

import packhorse
from packhorse import errors

PAGE = Path(__file__).parents[1] / "reference" / "api.md"


def rest() -> str:
    """Return a section with these names; errors have their own page."""
    shown = set(re.findall(r"^::: packhorse\.(\w+)$", PAGE.read_text(), re.MULTILINE))
    left = [name for name in packhorse.__all__ if name not in shown and not hasattr(errors, name)]
    return "\n\n".join(("## More", *(f"::: packhorse.{name}" for name in left), "")) if left else ""
