"""Where the demo is played: a SQLite file of its own, or a namespace of its own on somebody's server."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from packhorse import App
from packhorse.cli import exits
from packhorse.cli.frame import Trouble
from packhorse.model.clock import SYSTEM
from packhorse.model.duration import micros
from packhorse.stores.url import shown

NAMESPACE = "packhorse_demo"
PREFIX = "packhorse-demo-"
LEASE = "2s"  # of the workers: short, so that a takeover is seen within seconds
LOOK = 100_000
NAMES = {
    "sqlite": "SQLite",
    "postgres": "PostgreSQL",
    "postgresql": "PostgreSQL",
    "valkey": "Valkey",
    "valkeys": "Valkey",
}


@dataclass(frozen=True, slots=True)
class Place:
    """An address, and a folder for what the workers say."""

    url: str
    folder: Path
    own: bool

    @property
    def scheme(self) -> str:
        """Which store it is."""
        return self.url.partition(":")[0]

    @property
    def name(self) -> str:
        """Which store it is, as people call it."""
        return NAMES.get(self.scheme, "Redis")

    @property
    def environment(self) -> dict[str, str]:
        """How every process of the demo finds it."""
        return {"PACKHORSE_URL": self.url, "PACKHORSE_NAMESPACE": NAMESPACE, "PACKHORSE_MIGRATE": "true"}


@contextmanager
def place(url: str | None, *, keep: bool) -> Iterator[Place]:
    """A place for one show; a file of our own goes away with it, unless it is to be kept."""
    if url is not None and url.endswith(":memory:"):
        raise Trouble(
            "The demo has several processes, which cannot share memory: give the path of a file.", exits.USAGE
        )
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    try:
        yield Place(url or f"sqlite:///{folder / 'shop.db'}", folder, url is None)
    finally:
        if url is not None or not keep:
            shutil.rmtree(folder, ignore_errors=True)


async def clear(app: App, place: Place, gate: Callable[[str], None]) -> None:
    """Make sure that nothing of ours is there, and touch nothing that may be somebody else's."""
    jobs = await held(app)
    if jobs and place.scheme == "sqlite":
        why = "a file has no namespaces, so they may be somebody's: give the path of a new file, or none"
        raise Trouble(f"The file of {shown(place.url)} holds {jobs} jobs; {why}.", exits.USAGE)
    await _alone(app)
    if jobs:
        gate(f"{jobs} jobs of an earlier demo, in the namespace {NAMESPACE}, will be removed")
        await purge(app)


async def held(app: App) -> int:
    """How many jobs are there."""
    counts = await (await app.store()).jobs.count()
    return sum(sum(states.values()) for states in counts.values())


async def purge(app: App) -> None:
    """Remove all jobs of the demo."""
    for queue in await (await app.store()).jobs.count():
        await app.queue(queue).purge()


async def _alone(app: App) -> None:
    """Wait until a worker that was killed is known to be dead; one that lives belongs to another demo."""
    fleet = (await app.store()).fleet
    for _ in range(2 * micros(LEASE) // LOOK):
        if not await fleet.workers():
            return
        await SYSTEM.sleep(LOOK)
    raise Trouble(f"Another demo runs in the namespace {NAMESPACE} of this store: wait for its end, or stop it.")
