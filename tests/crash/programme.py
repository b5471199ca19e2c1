"""The scenarios and their sizes, and how one is played: by ``make crash`` in large, by the tests in small."""

import random
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import servers
from tests.conftest import address, namespace, wipe
from tests.crash.effects import write_through_crashes, write_through_kills
from tests.crash.family import TooSlow, ask
from tests.crash.kills import kill_workers_and_producers
from tests.crash.outages import kill_server
from tests.crash.outside import kill_from_outside
from tests.crash.poison import poison_workers
from tests.crash.scene import Scene
from tests.crash.stops import roll, stop_in_time, stop_too_late, stop_twice
from tests.crash.tally import Tally
from tests.crash.torn import kill_in_transaction
from tests.crash.zombies import stop_workers

STORES = ("sqlite", "redis", "valkey", "postgres")
REDIS = ("redis", "valkey")
ALWAYS = ("--appendonly", "yes", "--appendfsync", "always")
EVERYSEC = ("--appendonly", "yes", "--appendfsync", "everysec")
COMMITTED = ("fsync=off", "synchronous_commit=on")  # the system lives on: what is written is safe
MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class Scenario:
    """Something bad that happens.

    ``size`` holds the numbers of a small run, ``tested`` those of the tests where they are smaller still, ``server`` the
    settings of one to be killed.
    """

    name: str
    title: str
    play: Callable[..., None]
    size: dict[str, int] = field(default_factory=dict)
    stores: tuple[str, ...] = STORES
    server: tuple[str, ...] = ()
    tested: dict[str, int] = field(default_factory=dict)


SCENARIOS = (
    Scenario(
        "kills", "workers, producers killed", kill_workers_and_producers, {"kills": 300, "jobs": 20_000},
        tested={"kills": 60, "jobs": 4000},
    ),
    Scenario("zombies", "workers stopped and resumed", stop_workers, {"zombies": 20}, tested={"zombies": 10}),
    Scenario("always", "server killed, AOF always", kill_server, {"kills": 10}, REDIS, ALWAYS, {"kills": 4}),
    Scenario("everysec", "server killed, AOF everysec", kill_server, {"kills": 10}, REDIS, EVERYSEC, {"kills": 4}),
    Scenario(
        "immediate", "server stopped immediately", kill_server, {"kills": 10}, ("postgres",), COMMITTED, {"kills": 4}
    ),
    Scenario(
        "effects", "writers killed", write_through_kills, {"kills": 40, "jobs": 800}, ("sqlite", "postgres"),
        tested={"kills": 20, "jobs": 400},
    ),
    Scenario(
        "crashes", "server stopped under writers", write_through_crashes, {"kills": 4}, ("postgres",), COMMITTED,
        {"kills": 2},
    ),
    Scenario(
        "torn", "killed inside a transaction", kill_in_transaction, {"kills": 50}, ("sqlite",), tested={"kills": 20}
    ),
    Scenario("poison", "a poison job", poison_workers, {"poison": 1, "good": 1000, "linger": 30}),
    Scenario("poisons", "three poison jobs", poison_workers, {"poison": 3, "good": 1000, "linger": 0}),
    Scenario("outside", "workers killed from outside", kill_from_outside, {"kills": 40, "jobs": 200}),
    Scenario("term", "SIGTERM, jobs end in grace", stop_in_time),
    Scenario("late", "SIGTERM, jobs outlast grace", stop_too_late),
    Scenario("twice", "SIGTERM twice", stop_twice),
    Scenario("rolling", "rolling restart", roll, {"stops": 5}),
)  # fmt: skip


def scenarios(store: str) -> tuple[Scenario, ...]:
    """The scenarios that are for a store."""
    return tuple(scenario for scenario in SCENARIOS if store in scenario.stores)


def play(scenario: Scenario, kind: str, seed: int, size: dict[str, int], slack: float = 0.0) -> Tally:
    """Play one scenario on a store of this kind, whose server runs; whatever goes wrong is in the tally."""
    tally, begun = Tally(scenario.title), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="packhorse-crash-") as folder:
        try:
            with _served(scenario, kind, Path(folder)) as (url, more):
                scene = Scene(kind, url, namespace(kind), Path(folder), slack)
                ask(scene.prepare)
                scenario.play(scene, tally, random.Random(seed), **size, **more)
        except (TooSlow, RuntimeError) as error:
            tally.faults.append(f"{type(error).__name__}: {error}")
    tally.seconds = time.monotonic() - begun
    return tally


@contextmanager
def _served(scenario: Scenario, kind: str, folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Where the scenario is played: in a place of ours, emptied, or on a server of its own that may be killed."""
    if not scenario.server:
        url = address(kind, folder)
        ask(lambda: wipe(kind, url, namespace(kind)))
        yield url, {}
    elif scenario.server is EVERYSEC and MEMORY.is_dir():
        # While a slow fsync goes on, this setting puts off even the write: a killed server would lose what it had acknowledged.
        with (
            tempfile.TemporaryDirectory(prefix="packhorse-crash-", dir=MEMORY) as memory,
            servers.running(kind, *scenario.server, "--dir", memory) as server,
        ):
            yield server.url, {"server": server}
    else:
        with servers.running(kind, *scenario.server) as server:
            yield server.url, {"server": server}
