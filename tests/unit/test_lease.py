"""Asking for work and settling it: what contradicts itself is refused."""

import pytest

from packhorse.errors import InvalidId, InvalidName, InvalidOption, InvalidTime, TooManyEffects
from packhorse.model import limits
from packhorse.model.effect import Publish
from packhorse.model.lease import ClaimRequest, Lease, Settlement, Share
from packhorse.model.outcome import Done
from tests.factories import WORKER


def test_an_ask_wants_the_sum_of_its_shares():
    assert ClaimRequest(WORKER, (Share("a", 2), Share("b", 3, limit=5))).total == 5
    assert ClaimRequest(WORKER, ()).total == 0


def test_every_ask_has_a_token_of_its_own():
    assert ClaimRequest(WORKER, ()).token != ClaimRequest(WORKER, ()).token


def test_a_share_counts_and_bounds():
    for wrong in ({"count": -1}, {"count": 501}, {"count": 2, "limit": 1}, {"count": 2, "limit": 501}):
        with pytest.raises(InvalidOption):
            Share("a", **wrong)
    with pytest.raises(InvalidName):
        Share("", 1)


def test_an_ask_names_each_queue_once():
    with pytest.raises(InvalidOption, match="once"):
        ClaimRequest(WORKER, (Share("a", 1), Share("a", 2)))


def test_an_ask_wants_no_more_than_a_call_may_carry():
    assert ClaimRequest(WORKER, (Share("a", 250), Share("b", 250))).total == 500
    with pytest.raises(InvalidOption):
        ClaimRequest(WORKER, (Share("a", 250), Share("b", 251)))


def test_an_ask_has_a_worker_a_token_and_a_lease():
    with pytest.raises(InvalidId):
        ClaimRequest(b"me", ())
    with pytest.raises(InvalidId):
        ClaimRequest(WORKER, (), token=b"")
    for lease in (0, 999, limits.MAX_DURATION_US + 1):
        with pytest.raises(InvalidTime):
            ClaimRequest(WORKER, (), lease=lease)


def test_a_settlement_writes_no_more_effects_than_the_cap():
    lease = Lease(
        id=WORKER,
        token=WORKER,
        until=1,
        task="t",
        queue="q",
        payload=b"",
        headers=b"",
        priority=0,
        attempt=1,
        lost=0,
        enqueued_at=0,
    )
    effect = Publish("s", b"1")
    assert len(Settlement(lease, Done(), (effect,) * limits.EFFECTS).effects) == limits.EFFECTS
    with pytest.raises(TooManyEffects):
        Settlement(lease, Done(), (effect,) * (limits.EFFECTS + 1))
