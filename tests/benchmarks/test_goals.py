"""A goal is judged by the medians of both sides, against the best peer, alike for rates and latencies."""

import pytest

from benchmarks.figures import Figure
from benchmarks.goals import ANY, BOUNDS, GOALS, STORES, Bound, Goal, judge, kept
from benchmarks.metrics import METRICS


def figure(side: str, *values: float, metric: str = "process", cpu: tuple[float, ...] = ()) -> Figure:
    return Figure(side, "redis", metric, dict(enumerate(values)), dict(enumerate(cpu)))


def verdict(goal: Goal, *figures: Figure):
    judged = judge(goal, figures)
    assert judged is not None
    return judged


def test_the_medians_are_compared_so_one_bad_round_changes_nothing():
    judged = verdict(
        Goal("process", "redis", 15, ("dramatiq",)),
        figure("packhorse", 3000, 10, 3100),
        figure("dramatiq", 200, 190, 1),
    )

    assert judged.ratio == 3000 / 190
    assert judged.met


def test_the_rounds_show_how_far_single_ratios_lie_apart():
    judged = verdict(
        Goal("process", "redis", 2, ("saq",)), figure("packhorse", 100, 200, 300), figure("saq", 100, 50, 60)
    )

    assert (judged.low, judged.ratio, judged.high) == (1, 200 / 60, 5)


@pytest.mark.parametrize(("ours", "met"), [(94, False), (95, True), (200, True)])
def test_a_goal_is_met_when_its_ratio_is_reached(ours, met):
    assert verdict(Goal("process", "redis", 0.95, ANY), figure("packhorse", ours), figure("saq", 100)).met is met


def test_of_rates_the_highest_peer_counts():
    judged = verdict(
        Goal("process", "redis", 1, ANY), figure("packhorse", 10), figure("saq", 20), figure("dramatiq", 40)
    )

    assert (judged.peer, judged.ratio, judged.met) == ("dramatiq", 0.25, False)


def test_of_latencies_the_lowest_peer_counts_and_less_is_ahead():
    times = [figure(side, value, metric="p50") for side, value in (("packhorse", 1), ("saq", 2), ("dramatiq", 4))]

    judged = verdict(Goal("p50", "redis", 1, ANY), *times)

    assert (judged.peer, judged.ratio, judged.met) == ("saq", 2, True)


def test_a_named_peer_is_the_only_one_held_against():
    judged = verdict(
        Goal("process", "redis", 1, ("saq",)), figure("packhorse", 10), figure("saq", 5), figure("dramatiq", 40)
    )

    assert (judged.peer, judged.ratio) == ("saq", 2)


def test_processor_time_is_compared_a_job():
    judged = verdict(
        Goal("process", "redis", 1, ("saq",)),
        figure("packhorse", 10, 10, 10, cpu=(1, 2, 9)),
        figure("saq", 10, 10, 10, cpu=(8, 7, 6)),
    )

    assert judged.cpu == 3.5


@pytest.mark.parametrize("there", [("packhorse",), ("saq",), ()])
def test_a_goal_without_both_sides_was_not_measured(there):
    assert judge(Goal("process", "redis", 1, ("saq",)), [figure(side, 10) for side in there]) is None


def test_only_rounds_that_both_sides_have_are_compared():
    peer = Figure("saq", "redis", "process", {1: 10, 2: 20})

    judged = verdict(Goal("process", "redis", 1, ANY), figure("packhorse", 1000, 30, 40), peer)

    assert (judged.rounds, judged.ratio, judged.low, judged.high) == (2, 35 / 15, 2, 3)
    assert judge(Goal("process", "redis", 1, ANY), [figure("packhorse", 1000), peer]) is None


def test_figures_of_other_stores_and_metrics_do_not_count():
    others = [Figure("saq", "postgres", "process", {0: 1}), figure("saq", 1, metric="bulk")]

    assert judge(Goal("process", "redis", 1, ANY), [figure("packhorse", 10), *others]) is None


def test_every_goal_speaks_of_a_metric_and_a_store_that_have_names():
    assert {goal.metric for goal in (*GOALS, *BOUNDS)} <= set(METRICS)
    assert {goal.store for goal in (*GOALS, *BOUNDS)} == set(STORES)


def test_a_store_that_syncs_less_is_held_against_the_peers_of_its_kind():
    ours = [Figure("packhorse", store, "process", {1: rate}) for store, rate in (("sqlite", 10), ("sqlite-normal", 30))]
    peer = Figure("huey-no-fsync", "sqlite", "process", {1: 10})

    assert verdict(Goal("process", "sqlite-normal", 3, ("huey-no-fsync",)), *ours, peer).ratio == 3
    assert verdict(Goal("process", "sqlite", 3, ("huey-no-fsync",)), *ours, peer).ratio == 1


@pytest.mark.parametrize(
    ("metric", "wanted", "value", "holds"),
    [("idle", 0.01, 0.009, True), ("idle", 0.01, 0.02, False), ("gain", 1.3, 1.4, True), ("gain", 1.3, 1.2, False)],
)
def test_a_bound_is_an_upper_one_where_less_is_better(metric, wanted, value, holds):
    found = kept(Bound(metric, "redis", wanted), [figure("packhorse", value, metric=metric)])

    assert found is not None
    assert found[1] is holds


def test_a_bound_without_a_figure_was_not_measured():
    assert kept(Bound("idle", "redis", 1), [figure("saq", 1, metric="idle")]) is None
