"""The page of a whole run."""
from pathlib import Path
from typing import Any
from benchmarks.environments import ROOT
FOLDER = ROOT / "docs" / "performance"
def circumstances() -> dict[str, Any]:
    return {}
def write(lines: list[dict[str, Any]], folder: Path) -> None:
    pass
