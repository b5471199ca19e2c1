"""Shares by weights, and how much to lease ahead."""

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packhorse.engine.shares import PREFETCH_MAX_MEAN_US, Prefetch, Shares
from packhorse.errors import InvalidName, InvalidOption
from packhorse.model.lease import Lease, Share

WEIGHTS = {"critical": 6, "default": 3, "low": 1}
MANY = 1_000_000

queues = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 12), min_size=1, max_size=6)
bounds = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 20))


def lease(queue: str) -> Lease:
    return Lease(
        id=bytes(16), token=bytes(16), until=0, task="work", queue=queue, payload=b"{}", headers=b"{}", priority=10,
        attempt=1, lost=0, enqueued_at=0,
    )  # fmt: skip


def filled(shares: tuple[Share, ...], there: Mapping[str, int]) -> Counter[str]:
    """What a store gives: each share, then what was left of others, in the order asked, up to their most."""
    got = Counter({share.queue: min(share.count, there[share.queue]) for share in shares})
    left = sum(share.count for share in shares) - got.total()
    for share in shares:
        most = there[share.queue] if share.limit is None else min(share.limit, there[share.queue])
        extra = min(left, most - got[share.queue])
        got[share.queue] += extra
        left -= extra
    return got


def picked(
    shares: Shares, there: Mapping[str, int], picks: int, *, room: int = 1, most: Mapping[str, int] | None = None
) -> Counter[str]:
    """Ask again and again until so many were picked."""
    total: Counter[str] = Counter()
    while total.total() < picks:
        asked = shares.divide(room, most or {})
        got = filled(asked, there)
        shares.record_claim(asked, [lease(queue) for queue in got.elements()])
        total += got
    return total


@pytest.mark.parametrize("room", [1, 3, 10, 100])
def test_weights_hold_within_five_per_cent_over_a_thousand_picks(room):
    total = picked(Shares(WEIGHTS), dict.fromkeys(WEIGHTS, MANY), 1000, room=room)

    assert total["critical"] == pytest.approx(600, abs=30)
    assert total["default"] == pytest.approx(300, abs=15)
    assert total["low"] == pytest.approx(100, abs=5)


@pytest.mark.parametrize("room", [1, 3, 10, 100])
def test_the_part_of_an_empty_queue_goes_to_the_others_by_their_weights(room):
    total = picked(Shares(WEIGHTS), {"critical": 0, "default": MANY, "low": MANY}, 1000, room=room)

    assert total["default"] == pytest.approx(750, abs=37)
    assert total["low"] == pytest.approx(250, abs=37)


@pytest.mark.parametrize("room", [1, 3, 10, 100])
def test_the_part_of_a_queue_that_may_have_no_more_goes_to_the_others_by_their_weights(room):
    total = picked(Shares(WEIGHTS), dict.fromkeys(WEIGHTS, MANY), 1000, room=room, most={"critical": 0})

    assert total["critical"] == 0
    assert total["default"] == pytest.approx(750, abs=37)
    assert total["low"] == pytest.approx(250, abs=12)


def test_a_queue_that_was_empty_for_long_is_owed_nothing():
    shares = Shares({"a": 1, "b": 1})
    picked(shares, {"a": 0, "b": MANY}, 1000)

    assert picked(shares, {"a": MANY, "b": MANY}, 100)["a"] == pytest.approx(50, abs=2)


def test_a_queue_that_was_held_up_for_long_is_owed_nothing():
    shares = Shares({"a": 1, "b": 1})
    picked(shares, {"a": MANY, "b": MANY}, 1000, room=10, most={"a": 1})

    assert picked(shares, {"a": MANY, "b": MANY}, 100)["a"] == pytest.approx(50, abs=3)


def test_a_queue_with_one_slot_takes_no_more_than_its_part():
    total = picked(Shares({"a": 1, "b": 9}), {"a": MANY, "b": MANY}, 1000, most={"a": 1})

    assert total["a"] == pytest.approx(100, abs=5)


def test_what_a_queue_did_not_get_is_carried_over():
    shares = Shares({"a": 9, "b": 1})

    assert [picked(shares, {"a": MANY, "b": MANY}, 1).most_common(1)[0][0] for _ in range(20)].count("b") == 2


def test_a_queue_may_have_more_slots_than_one_ask_carries():
    [share] = Shares({"a": 1}).divide(500, {"a": 9000})

    assert (share.count, share.limit) == (500, 500)


def test_nothing_is_asked_where_nothing_is_free():
    assert Shares({"a": 1, "b": 2}).divide(5, {"a": 0, "b": 0}) == ()
    assert Shares({"a": 1}).divide(0, {}) == ()


@given(queues, bounds, st.integers(0, 500))
def test_shares_use_all_the_room_and_respect_every_bound(weights, most, room):
    shares = Shares(weights).divide(room, most)

    free = sum(min(most.get(queue, room), room) for queue in weights)
    assert sum(share.count for share in shares) == min(room, free)
    for share in shares:
        assert 0 <= share.count <= most.get(share.queue, room)
        assert share.limit is None or share.count <= share.limit <= most[share.queue]


@settings(max_examples=40)
@given(queues, st.lists(st.tuples(st.integers(1, 30), st.sets(st.sampled_from("abcdef"))), max_size=30))
def test_weights_hold_in_the_long_run_whatever_happened_before(weights, past):
    shares = Shares(weights)
    for room, empty in past:
        there = {queue: 0 if queue in empty else MANY for queue in weights}
        asked = shares.divide(room, {})
        shares.record_claim(asked, [lease(queue) for queue in filled(asked, there).elements()])
    picks = 20 * sum(weights.values())

    total = picked(shares, dict.fromkeys(weights, MANY), picks, room=7)

    for queue, weight in weights.items():
        assert total[queue] == pytest.approx(20 * weight, abs=len(weights) * 31 + 8)


@settings(max_examples=40)
@given(queues)
def test_no_queue_starves(weights):
    shares, there = Shares(weights), dict.fromkeys(weights, MANY)
    rounds = 2 * sum(weights.values())

    assert set(picked(shares, there, rounds)) == set(weights)


@pytest.mark.parametrize("weights", [{}, {"a": 0}, {"a": -1}, {"a": True}, {"a": 1.5}])
def test_wrong_weights_are_refused(weights):
    with pytest.raises(InvalidOption):
        Shares(weights)


def test_a_queue_without_a_name_is_refused():
    with pytest.raises(InvalidName):
        Shares({"": 1})


def test_nothing_is_leased_ahead_before_jobs_are_known_to_be_short():
    assert Prefetch().count == 0


def test_as_many_as_end_in_two_rounds_are_leased_ahead_while_jobs_are_short():
    ahead = Prefetch()
    for _ in range(10):
        ahead.record_durations([PREFETCH_MAX_MEAN_US // 10] * 20)

    assert ahead.count == 40


def test_one_short_job_proves_little():
    ahead = Prefetch()
    ahead.record_durations([0])

    assert ahead.count == 0


def test_nothing_is_leased_ahead_once_jobs_take_longer():
    ahead = Prefetch()
    ahead.record_durations([PREFETCH_MAX_MEAN_US // 10] * 20)
    ahead.record_durations([PREFETCH_MAX_MEAN_US * 50] * 20)

    assert ahead.count == 0


def test_a_round_in_which_nothing_ended_changes_nothing():
    ahead = Prefetch()
    ahead.record_durations([0] * 20)
    ahead.record_durations([])

    assert ahead.count == 40


def test_what_was_learnt_of_short_jobs_can_be_forgotten():
    ahead = Prefetch()
    ahead.record_durations([0] * 20)
    ahead.reset()

    assert ahead.count == 0


def test_four_picks_of_one_go_round_as_in_the_example():
    shares = Shares({"a": 3, "b": 1})

    order = []
    for _ in range(4):
        planned = shares.divide(1, {})
        [queue] = [share.queue for share in planned if share.count]
        shares.record_claim(planned, [lease(queue)])
        order.append(queue)

    assert order == ["a", "a", "b", "a"]
    assert shares.divide(4, {}) == (Share("a", 3), Share("b", 1))
