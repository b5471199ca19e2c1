"""Who is measured, on what, with how many jobs, and what each promises for its speed."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Contestant:
    """A job system on a store, in one configuration.

    ``script`` is the module under ``benchmarks/sides``, ``pins`` the environment it runs in. ``jobs`` is the size of the
    backlog: about a second of work, so it differs from side to side; the others are the same for all.
    """

    name: str
    store: str
    script: str
    jobs: int
    ack: str
    result: str
    durability: str
    how: str
    chunk: int = 500
    options: dict[str, Any] = field(default_factory=dict)


FULL, AOF, SYNC = "fsync each commit", "AOF everysec", "fsync each commit"
LEASED, KEPT = "after the job, by lease and token", "kept"


def packhorse(store: str, jobs: int, durability: str) -> Contestant:
    """Packhorse, on one of its stores."""
    how = "async task, concurrency 100, calls of 500 in bulk, events on, defaults"
    return Contestant("packhorse", store, "packhorse", jobs, LEASED, KEPT, durability, how)


def huey(name: str, jobs: int, durability: str, *, fsync: bool) -> Contestant:
    """Huey on SQLite."""
    how = "sync task, 1 thread, polls every 10 ms, no bulk call: a loop"
    return Contestant(
        name,
        "sqlite",
        "huey",
        jobs,
        "none: taken out before it runs",
        "none",
        durability,
        how,
        options={"fsync": fsync},
    )


QUICK = (
    packhorse("sqlite", 24_000, FULL),
    huey("huey", 3_000, FULL, fsync=True),
    huey("huey-no-fsync", 9_000, "synchronous OFF", fsync=False),
    packhorse("redis", 24_000, AOF),
    Contestant("dramatiq", "redis", "dramatiq", 2_500, "after the job", "none", AOF,
               "sync actor, 1 process of 8 threads, no bulk call: a loop"),
    Contestant("saq", "redis", "saq", 2_000, "after the job", "kept 10 minutes", AOF,
               "async task, concurrency 100, no bulk call: 1,000 calls at once", chunk=1_000),
    packhorse("postgres", 20_000, SYNC),
    Contestant("pgqueuer", "postgres", "pgqueuer", 12_000, "after the job, buffered", "a row in its log", SYNC,
               "async entrypoint, batch 500, calls of 1,000 in bulk", chunk=1_000, options={"batch": 500}),
)  # fmt: skip
