"""Why a job is not running, in one sentence."""

import pytest
from msgspec.structs import replace

from packhorse.jobs.explain import explain, length
from packhorse.jobs.job import Job
from packhorse.model import job
from packhorse.model.job import State, failure
from packhorse.model.queue import QueueStats
from packhorse.model.reason import DeadReason, WaitReason
from packhorse.model.worker import WorkerInfo
from tests.factories import DAY, HOUR, MINUTE, SECOND, WORKER

NOW = 1_800_000_000 * SECOND
OX = WorkerInfo(id=WORKER, name="ox", queues=("default",))


def why(state: State, since: int = NOW, **known: object) -> str:
    """What is explained of a job while a worker named ox serves its queue."""
    workers = known.pop("workers", [OX])
    queue = QueueStats("default", bool(known.pop("paused", False)), {State.READY: 4}, None, None)
    stored = job.StoredJob(
        id=bytes(16), task="work", queue="default", payload=b"{}", headers=b"{}", priority=10, enqueued_at=0, state=state,
        since=since, **known,  # type: ignore[arg-type]
    )  # fmt: skip
    return explain(Job(stored), queue, workers, NOW)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("explained", "words"),
    [
        (why(State.SCHEDULED, NOW + 90 * MINUTE), "it is due in 1h30m"),
        (
            why(State.SCHEDULED, NOW + HOUR, attempt=2, failures=(failure("E"),)),
            "failed 2 times and is tried again in 1h0m",
        ),
        (why(State.SCHEDULED, NOW - 1), "Its moment has come"),
        (why(State.READY), "waits for its turn: 4 ready in the queue default, 1 workers"),
        (why(State.READY, paused=True), "packhorse queues resume default"),
        (why(State.READY, workers=[]), "packhorse worker -q default"),
        (
            why(State.RUNNING, NOW - 90 * SECOND, until=NOW + MINUTE, worker=WORKER),
            "It has been running for 1m30s on ox; its lease runs out at 2027-01-15 08:01:00 UTC",
        ),
        (
            why(State.RUNNING, until=NOW + MINUTE, worker=bytes(16)),
            "not alive any more: it is taken back when its lease",
        ),
        (why(State.RUNNING, until=NOW - 1, worker=bytes(16)), "it is taken back by any worker"),
        (why(State.RUNNING, NOW - MINUTE, until=NOW + 1, worker=WORKER, cancelling=True), "1m0s and was asked to stop"),
        (why(State.WAITING, reason=WaitReason.CHILDREN, children=3, delivered=1), "waits for 2 of 3 jobs before it"),
        (why(State.WAITING, reason=WaitReason.LANE, lane="ann"), "packhorse jobs ls --key ann"),
        (why(State.WAITING, reason=WaitReason.UNROUTABLE), "knows the task work"),
        (why(State.WAITING, reason=WaitReason.INTERVENTION, detail="broke"), "waits for a person to look"),
        (why(State.WAITING, reason=WaitReason.SIGNAL, detail="approval"), "It waits: signal. approval"),
        (why(State.DONE), "It was done at 2027-01-15 08:00:00 UTC."),
        (why(State.CANCELLED), "packhorse jobs replay 00000000-0000-0000-0000-000000000000"),
        (
            why(State.CANCELLED, failures=(replace(failure("Cancel", "nobody wants it"), at=NOW),)),
            "It was cancelled at 2027-01-15 08:00:00 UTC (nobody wants it)",
        ),
        (why(State.CANCELLED, failures=(failure("E", "before"),)), "It was cancelled at 2027-01-15 08:00:00 UTC: "),
        (why(State.DEAD, reason=DeadReason.FINAL, failures=(failure("E", "x"),)), "It is dead as final (E: x)"),
        (why(State.DEAD, reason=DeadReason.POISON, detail="lost 3 times"), "It is dead as poison (lost 3 times)"),
    ],
)
def test_every_standing_is_explained(explained: str, words: str):
    assert words in explained


@pytest.mark.parametrize(
    ("micros", "text"),
    [(-5, "0s"), (0, "0s"), (59 * SECOND, "59s"), (61 * SECOND, "1m1s"), (HOUR, "1h0m"), (3 * DAY + 5, "3d0h")],
)
def test_a_duration_is_shown_in_its_two_largest_parts(micros: int, text: str):
    assert length(micros) == text
