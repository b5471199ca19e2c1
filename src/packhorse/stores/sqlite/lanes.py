"""Lanes: a slot is taken when a job becomes ready and handed on when it ends, so claims know nothing of lanes."""

from collections import Counter
from collections.abc import Sequence

from packhorse.model.job import State
from packhorse.model.reason import WaitReason
from packhorse.stores.sqlite.place import Facts, Flag, Parked, Spot, leave, to_due, to_ready, to_waits
from packhorse.stores.sqlite.step import SQL, Step, as_json

Lane = tuple[str, str]


def admit(step: Step, spots: Sequence[tuple[Spot, int]], known: dict[int, Facts]) -> None:
    """Let jobs go on that nothing else holds back: scheduled if their moment is to come, else ready, if need be by their lane."""
    later, ready, asking = [], [], []
    for spot, moment in spots:
        if moment > step.now:
            later.append((spot, moment))
        elif spot.flags & Flag.LANE and not spot.flags & Flag.SLOT:
            asking.append((spot, moment))
        else:
            ready.append((spot, moment))
    to_due(step, later)
    if asking:
        ready = _merged(ready, _ask(step, asking, known), spots)
    to_ready(step, ready)


def _merged(
    ready: list[tuple[Spot, int]], let_in: list[tuple[Spot, int]], order: Sequence[tuple[Spot, int]]
) -> list[tuple[Spot, int]]:
    by_seq = {spot.seq: (spot, moment) for spot, moment in (*ready, *let_in)}
    return [by_seq[spot.seq] for spot, _ in order if spot.seq in by_seq]


def _ask(step: Step, asking: list[tuple[Spot, int]], known: dict[int, Facts]) -> list[tuple[Spot, int]]:
    """Those that found a free slot; the others stand behind their lane."""
    lanes = list({(spot.queue, str(known[spot.seq].lane)): None for spot, _ in asking})
    held = dict.fromkeys(lanes, 0)
    for index, slots in step.rows(SQL.lanes_held, as_json(lanes)):
        held[lanes[index]] = slots
    queued = {lane for lane in lanes if held[lane] and step.row(SQL.lane_waits, *lane)}
    taken: Counter[Lane] = Counter()
    let_in, behind = [], []
    for spot, moment in asking:
        lane = (spot.queue, str(known[spot.seq].lane))
        if lane not in queued and held[lane] + taken[lane] < known[spot.seq].lane_limit:
            taken[lane] += 1
            let_in.append((spot._replace(flags=spot.flags | Flag.SLOT), moment))
        else:
            queued.add(lane)
            behind.append((spot, Parked(WaitReason.LANE, lane=lane[1])))
    if taken:
        step.run(SQL.hold_lanes, as_json([(*lane, slots) for lane, slots in taken.items()]))
    to_waits(step, behind)
    return let_in


def hand_on(step: Step, freed: Counter[Lane]) -> None:
    """Give freed slots to those who wait longest; one round per slot, all lanes at once."""
    while freed:
        lanes = list(freed)
        heads = step.rows(SQL.next_in_lanes, as_json(lanes))
        served = {lanes[row[0]] for row in heads}
        spots = [Spot(*row)._replace(flags=row[5] | Flag.SLOT) for _, *row in heads]
        leave(step, State.WAITING, spots)
        to_ready(step, [(spot, step.now) for spot in spots])
        if idle := [(*lane, -freed[lane]) for lane in lanes if lane not in served]:
            step.run(SQL.hold_lanes, as_json(idle))
            step.run(SQL.empty_lanes, as_json(idle))
        freed = Counter({lane: freed[lane] - 1 for lane in served if freed[lane] > 1})
