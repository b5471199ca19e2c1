"""Who is measured, on what, with how many jobs, and what each promises for its speed."""

from dataclasses import dataclass, field
from typing import Any

from benchmarks import exercises


@dataclass(frozen=True, slots=True)
class Contestant:
    """A job system on a store, in one configuration.

    ``script`` is the module under ``benchmarks/sides``, ``pins`` the environment it runs in, if it has another name. ``jobs``
    is the size of the backlog: about a second of work, so it differs from side to side; the others are the same for all.
    ``does`` names the exercises beyond those of all that the side has something for. ``least`` is the size of the backlog
    where a goal names one; ``needs`` what it cannot do without.
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
    pins: str = ""
    does: tuple[str, ...] = ()
    least: int = 0
    needs: str = ""

    @property
    def environment(self) -> str:
        """The name of its environment."""
        return self.pins or self.script


FULL, NORMAL, AOF, SYNC = "fsync each commit", "fsync at checkpoints", "AOF everysec", "fsync each commit"
LEASED, KEPT = "after the job, by lease and token", "kept"
AFTER, BEFORE = "after the job", "none: taken out before it runs"

ANY = ("two", "io", "bulk", "half", "idle", "bytes")
ASYNC = (*ANY, "together")
MANY = 300_000  # of PostgreSQL: dead rows pile up, and the rate falls with them
OURS = tuple(exercise.name for exercise in (*exercises.MORE, *exercises.OPTIONS))


def packhorse(store: str, jobs: int, durability: str) -> Contestant:
    """Packhorse, on one of its stores."""
    how = "async task, concurrency 100, calls of 500 in bulk, events on, defaults"
    # NORMAL is there for one goal, and Redis has no transaction of the caller's.
    does = () if store == "sqlite-normal" else tuple(name for name in OURS if (store, name) != ("redis", "transaction"))
    least = MANY if store == "postgres" else 0
    return Contestant("packhorse", store, "packhorse", jobs, LEASED, KEPT, durability, how, does=does, least=least)


def huey(name: str, store: str, jobs: int, durability: str, *, fsync: bool = False) -> Contestant:
    """Huey on SQLite or Redis."""
    polls = "polls every 10 ms, " if store == "sqlite" else ""
    how = f"sync task, 1 thread, {polls}no bulk call: a loop"
    together = ("together",) if store == "sqlite" else ()  # a loop, but nobody there has more
    options, does = {"fsync": fsync}, (*ANY, "thread", "cpu", *together)
    return Contestant(name, store, "huey", jobs, BEFORE, "none", durability, how, options=options, does=does)


def taskiq(name: str, ack: str, result: str, *, stream: bool) -> Contestant:
    """taskiq on Redis."""
    how = "async task, 1 process, 100 at once and ahead, no bulk call: 100 calls at once"
    options, does = {"stream": stream}, ANY if stream else ASYNC
    return Contestant(name, "redis", "taskiq", 1_500, ack, result, AOF, how, 1_000, options, does=does)


def pgqueuer(name: str, batch: int, least: int = 0) -> Contestant:
    """pgqueuer on PostgreSQL."""
    how = f"async entrypoint, batch {batch}, calls of 1,000 in bulk"
    options, does = {"batch": batch}, (*ASYNC, "thread")
    ack, result = "after the job, buffered", "a row in its log"
    return Contestant(
        name, "postgres", "pgqueuer", 12_000, ack, result, SYNC, how, 1_000, options, does=does, least=least
    )


DRAMATIQ = Contestant("dramatiq", "redis", "dramatiq", 2_500, AFTER, "none", AOF,
                      "sync actor, 1 process of 8 threads, no bulk call: a loop", does=(*ANY, "thread", "cpu"))  # fmt: skip
SAQ = Contestant("saq", "redis", "saq", 2_000, AFTER, "kept 10 minutes", AOF,
                 "async task, concurrency 100, no bulk call: 1,000 calls at once", 1_000, does=(*ASYNC, "thread"))  # fmt: skip

QUICK = (
    packhorse("sqlite", 24_000, FULL),
    huey("huey", "sqlite", 3_000, FULL, fsync=True),
    packhorse("sqlite-normal", 24_000, NORMAL),
    huey("huey-no-fsync", "sqlite", 9_000, "synchronous OFF"),
    packhorse("redis", 24_000, AOF),
    DRAMATIQ,
    SAQ,
    packhorse("postgres", 20_000, SYNC),
    pgqueuer("pgqueuer", 500, MANY),
)

ALL = (
    *QUICK,
    Contestant("bullmq-node", "redis", "bullmq_node", 8_000, AFTER, KEPT, AOF,
               "Node, concurrency 100, calls of 1,000 in bulk, events on", 1_000, does=ASYNC),
    Contestant("bullmq-python", "redis", "bullmq", 1_200, AFTER, KEPT, AOF,
               "async processor, concurrency 20, calls of 1,000 in bulk, events on", 1_000, does=ASYNC),
    taskiq("taskiq-list", BEFORE, "none", stream=False),
    taskiq("taskiq-stream", AFTER, "kept 10 minutes", stream=True),
    huey("huey-redis", "redis", 1_500, AOF),
    Contestant("arq", "redis", "arq", 1_000, AFTER, "kept an hour", AOF,
               "async task, concurrency 100, polls every 10 ms, no bulk call: 200 calls at once", 1_000, does=ASYNC),
    Contestant("streaq", "redis", "streaq", 1_000, AFTER, "kept 5 minutes", AOF,
               "async task, concurrency 100, calls of 1,000 in bulk", 1_000, does=ASYNC, needs="Redis 7 or Valkey"),
    Contestant("celery", "redis", "celery", 1_000, "before the job", "none", AOF,
               "sync task, solo pool, no bulk call: a loop", does=(*ANY, "thread", "cpu")),
    Contestant("rq", "redis", "rq", 300, AFTER, "kept 500 s", AOF,
               "sync task, worker that does not fork, calls of 1,000 in bulk", 1_000, does=("two", "bulk", "half", "idle", "bytes")),
    pgqueuer("pgqueuer-100", 100),
    Contestant("chancy", "postgres", "chancy", 2_500, AFTER, KEPT, SYNC,
               "async job, concurrency 100, calls of 1,000 in bulk", 1_000, does=(*ASYNC, "thread", "cpu")),
    Contestant("procrastinate", "postgres", "procrastinate", 300, AFTER, "the row is kept, no result", SYNC,
               "async task, concurrency 100, calls of 1,000 in bulk", 1_000, does=ASYNC),
    Contestant("dbos", "postgres", "dbos", 300, AFTER, KEPT, SYNC,
               "async workflow, 100 at once, polls every 0.1 s, no bulk call: 100 calls at once", 1_000, does=ASYNC),
)  # fmt: skip

LIMITS = tuple(
    Contestant("limit", store, "limits", 0, "", "", durability, "no job system", pins="packhorse")
    for store, durability in (("sqlite", FULL), ("sqlite-normal", NORMAL), ("redis", AOF), ("postgres", SYNC))
)
