"""What is known of a death, also after the job was replayed and died again."""

import msgspec
import pytest

from packhorse.model.death import Death
from packhorse.model.fingerprint import fingerprint
from packhorse.model.ids import new_id
from packhorse.model.job import Failure, State, StoredJob
from packhorse.model.reason import DeadReason


def failed(at: int, **options) -> Failure:
    return Failure("ValueError", f"no {at}", at=at, **options)


def job(*failures: Failure, state: State = State.DEAD, since: int = 0, **options) -> StoredJob:
    return StoredJob(
        id=new_id(), task="pay", queue="q", payload=b"{}", headers=b"{}", priority=1, enqueued_at=1, since=since,
        state=state, failures=failures, **options,
    )  # fmt: skip


def test_a_death_has_the_failure_of_its_moment():
    earlier, later = failed(5, fingerprint="f5"), failed(9, fingerprint="f9")
    died = job(earlier, later, since=9, reason=DeadReason.FINAL)

    assert (Death(died, 9).failure, Death(died, 9).latest, Death(died, 9).reason) == (later, True, "final")
    assert (Death(died, 5).failure, Death(died, 5).latest, Death(died, 5).reason) == (earlier, False, "exhausted")
    assert Death(died, 9).fingerprint == "f9"


@pytest.mark.parametrize("state", [State.READY, State.DONE])
def test_a_job_that_is_dead_no_more_is_not_the_latest(state):
    assert not Death(job(failed(9), state=state, since=9), 9).latest


def test_a_death_without_a_failure_is_known_by_its_reason():
    died = job(since=9, reason=DeadReason.POISON)
    assert (Death(died, 9).error_type, Death(died, 9).message) == ("poison", "")
    assert Death(died, 9).fingerprint == fingerprint("pay", "poison")
    replayed = msgspec.structs.replace(died, state=State.READY, reason=None)
    assert Death(replayed, 9).fingerprint == fingerprint("pay", "poison")


def test_a_failure_of_another_language_gets_a_fingerprint_here():
    assert Death(job(failed(9), since=9), 9).fingerprint == fingerprint("pay", "ValueError")


def test_where_the_failure_is_no_longer_kept_the_oldest_kept_one_stands_for_it():
    kept = [failed(at, fingerprint=f"f{at}") for at in range(10, 20)]
    assert Death(job(*kept, since=19), 5).fingerprint == "f10"
    assert Death(job(*kept[1:], since=19), 5).error_type == "poison"
