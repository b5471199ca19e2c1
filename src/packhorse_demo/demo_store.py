"""The store of the demo: a temporary SQLite file, or its own namespace on a server."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from packhorse import App
from packhorse.cli import exit_codes
from packhorse.cli.command import CliError
from packhorse.model.clock import SYSTEM
from packhorse.model.duration import micros
from packhorse.stores.url import shown

NAMESPACE = "packhorse_demo"
PREFIX = "packhorse-demo-"
LEASE = "2s"  # of the workers: short, so that a takeover shows within seconds
POLL_EVERY_US = 100_000
NAMES = {
    "sqlite": "SQLite",
    "postgres": "PostgreSQL",
    "postgresql": "PostgreSQL",
    "valkey": "Valkey",
    "valkeys": "Valkey",
}


@dataclass(frozen=True, slots=True)
class DemoStore:
    """An address, and a folder for the output of the workers."""

    url: str
    folder: Path
    own: bool

    @property
    def scheme(self) -> str:
        """The scheme of the address."""
        return self.url.partition(":")[0]

    @property
    def name(self) -> str:
        """The name of the kind of store."""
        return NAMES.get(self.scheme, "Redis")

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which every process of the demo finds the store."""
        return {"PACKHORSE_URL": self.url, "PACKHORSE_NAMESPACE": NAMESPACE, "PACKHORSE_MIGRATE": "true"}


@contextmanager
def demo_store(url: str | None, *, keep: bool) -> Iterator[DemoStore]:
    """Provide a store for one run; remove the temporary file afterwards, unless ``keep``."""
    if url is not None and url.endswith(":memory:"):
        raise CliError(
            "The demo has several processes, which cannot share a store in memory: give the path of a file.",
            exit_codes.USAGE,
        )
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    try:
        yield DemoStore(url or f"sqlite:///{folder / 'shop.db'}", folder, url is None)
    finally:
        if url is not None or not keep:
            shutil.rmtree(folder, ignore_errors=True)


async def clear(app: App, store: DemoStore, confirm: Callable[[str], None]) -> None:
    """Remove the jobs of an earlier demo after asking; refuse a store that holds other jobs."""
    jobs = await count_jobs(app)
    if jobs and store.scheme == "sqlite":
        why = "a file has no namespaces, so these may be your own jobs: give the path of a new file, or no --url"
        raise CliError(f"The file of {shown(store.url)} holds {jobs} jobs; {why}.", exit_codes.USAGE)
    await _wait_for_other_demo(app)
    if jobs:
        confirm(f"{jobs} jobs of an earlier demo, in the namespace {NAMESPACE}, will be removed")
        await purge(app)


async def count_jobs(app: App) -> int:
    """Count the jobs in the store."""
    counts = await (await app.store()).jobs.count()
    return sum(sum(states.values()) for states in counts.values())


async def purge(app: App) -> None:
    """Remove all jobs of the demo."""
    for queue in await (await app.store()).jobs.count():
        await app.queue(queue).purge()


async def _wait_for_other_demo(app: App) -> None:
    """Wait until the heartbeats of killed workers expire; a worker that stays belongs to another demo."""
    fleet = (await app.store()).fleet
    for _ in range(2 * micros(LEASE) // POLL_EVERY_US):
        if not await fleet.workers():
            return
        await SYSTEM.sleep(POLL_EVERY_US)
    raise CliError(f"Another demo runs in the namespace {NAMESPACE} of this store: wait until it ends, or stop it.")
