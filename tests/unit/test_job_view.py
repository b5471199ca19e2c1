"""A job as users see it: its public state, and the moments of each state."""

from datetime import UTC, datetime

import pytest

from packhorse import Job, JobState
from packhorse.model.job import State, StoredJob
from tests.factories import SECOND

MOMENTS = ("due_at", "ready_at", "started_at", "lease_expires_at", "waiting_since", "ended_at")
THEN = datetime(2027, 1, 15, 8, tzinfo=UTC)
LATER = datetime(2027, 1, 15, 9, tzinfo=UTC)


def test_the_public_states_are_those_of_the_store_and_unknown():
    assert [*JobState] == [*State, "unknown"]


@pytest.mark.parametrize(
    ("state", "known"),
    [
        (State.SCHEDULED, {"due_at": THEN}),
        (State.READY, {"ready_at": THEN}),
        (State.RUNNING, {"started_at": THEN, "lease_expires_at": LATER}),
        (State.WAITING, {"waiting_since": THEN}),
        (State.DONE, {"ended_at": THEN}),
        (State.DEAD, {"ended_at": THEN}),
        (State.CANCELLED, {"ended_at": THEN}),
    ],
)
def test_each_state_has_its_moments_and_no_other(state: State, known: dict[str, datetime]):
    since, until = (round(moment.timestamp()) * SECOND for moment in (THEN, LATER))
    stored = StoredJob(
        id=bytes(16), task="work", queue="default", payload=b"{}", headers=b"{}", priority=10, enqueued_at=0, state=state,
        since=since, until=until,
    )  # fmt: skip

    found = Job(stored)

    assert {name: getattr(found, name) for name in MOMENTS} == {**dict.fromkeys(MOMENTS), **known}
