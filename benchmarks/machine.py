"""What a machine is made of, in words that do not name it. Where the system does not tell, nothing is reported."""

from contextlib import suppress
from pathlib import Path
from typing import Any


def described(temporary: str, checkout: Path) -> dict[str, Any]:
    """The processor, the memory, and the file systems of servers (temporary files) and of SQLite (the checkout)."""
    known = {
        "processor": _field("/proc/cpuinfo", "model name"),
        "memory": _memory(_field("/proc/meminfo", "MemTotal")),
        "files": f"servers on {_kind(Path(temporary))}, SQLite on {_kind(checkout)}",
    }
    return {name: value for name, value in known.items() if value}


def _field(path: str, name: str) -> str | None:
    with suppress(OSError):
        for line in Path(path).read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() == name:
                return value.strip()
    return None


def _memory(kilobytes: str | None) -> str | None:
    return kilobytes and f"{int(kilobytes.split()[0]) / 2**20:.0f} GiB"


def _kind(path: Path) -> str:
    """The type of the file system that a path lies on."""
    best = ("", "an unknown file system")
    with suppress(OSError):
        for line in Path("/proc/mounts").read_text().splitlines():
            _, place, kind, *_ = line.split()
            if path.resolve().is_relative_to(place) and len(place) >= len(best[0]):
                best = (place, kind)
    return best[1]
