"""Lanes: a slot is taken when a job becomes ready and handed on when it ends, so claims know nothing of lanes."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import compress

from packhorse.model.job import State
from packhorse.model.reason import WaitReason
from packhorse.stores.sqlite.place import Facts, Flag, Parked, Spot, leave, to_due, to_ready, to_waits
from packhorse.stores.sqlite.step import SQL, Step, as_json

Lane = tuple[str, str]


def admit_due(step: Step, spots: Sequence[tuple[Spot, int]], known: dict[int, Facts]) -> None:
    """Let jobs go on before all others: scheduled if their moment is to come, else ready, if need be by their lane."""
    later, ready, asking = [], [], []
    for spot, moment in spots:
        if moment > step.now:
            later.append((spot, moment))
        elif _asks(spot):
            asking.append((spot, moment))
        else:
            ready.append((spot, moment))
    to_due(step, later)
    if asking:
        let_in = _ask(step, asking, known)
        ready = _merged(ready, let_in, spots) if ready and let_in else ready or let_in
    to_ready(step, ready)


def admit(step: Step, spots: Sequence[tuple[Spot, int]], known: dict[int, Facts]) -> None:
    """Let jobs go on that nothing else holds back, none before one of its lane that has come due and was not moved yet.

    It comes due after that one.
    """
    asked = {spot.queue for spot, moment in spots if _asks(spot) and moment <= step.now}
    behind = {queue for queue in asked if step.row(SQL.laned_due, queue, step.now)}
    if not behind:
        admit_due(step, spots, known)
        return
    late = [spot.queue in behind and _asks(spot) for spot, _ in spots]
    to_due(step, list(compress(spots, late)))
    admit_due(step, [spot for spot, is_late in zip(spots, late, strict=True) if not is_late], known)
    step.work = True


def _asks(spot: Spot) -> bool:
    """Whether a job needs a slot that it does not have."""
    return spot.flags & (Flag.LANE | Flag.SLOT) == Flag.LANE


def _merged(
    ready: list[tuple[Spot, int]], let_in: list[tuple[Spot, int]], order: Sequence[tuple[Spot, int]]
) -> list[tuple[Spot, int]]:
    by_seq = {spot.seq: (spot, moment) for spot, moment in (*ready, *let_in)}
    return [by_seq[spot.seq] for spot, _ in order if spot.seq in by_seq]


def _ask(step: Step, asking: list[tuple[Spot, int]], known: dict[int, Facts]) -> list[tuple[Spot, int]]:
    """Those that found a free slot; the others stand behind their lane."""
    lanes = [(spot.queue, str(known[spot.seq].lane)) for spot, _ in asking]
    held, queued = _standing(step, lanes)
    taken: Counter[Lane] = Counter()
    let_in, behind = [], []
    for lane, (spot, moment) in zip(lanes, asking, strict=True):
        if lane not in queued and held.get(lane, 0) + taken[lane] < known[spot.seq].lane_limit:
            taken[lane] += 1
            let_in.append((spot._replace(flags=spot.flags | Flag.SLOT), moment))
        else:
            queued.add(lane)
            behind.append((spot, Parked(WaitReason.LANE, "", lane[1])))
    if taken:
        step.run(SQL.hold_lanes, as_json([(*lane, slots) for lane, slots in taken.items()]))
    to_waits(step, behind)
    return let_in


def _standing(step: Step, lanes: Iterable[Lane]) -> tuple[dict[Lane, int], set[Lane]]:
    """The slots that are held of lanes, and the lanes behind which somebody waits."""
    held, queued = {}, set()
    for queue, names in _by_queue(lanes).items():
        for index, slots, waits in step.rows(SQL.lanes_held, queue, as_json(names)):
            held[queue, names[index]] = slots
            if waits:
                queued.add((queue, names[index]))
    return held, queued


def _by_queue(lanes: Iterable[Lane]) -> dict[str, list[str]]:
    """The names of lanes, each once: a list of texts is read in half the time of a list of pairs."""
    names: dict[str, list[str]] = {}
    for queue, lane in dict.fromkeys(lanes):
        names.setdefault(queue, []).append(lane)
    return names


def hand_on(step: Step, freed: Counter[Lane]) -> None:
    """Give freed slots to those who wait longest; one round per slot, all lanes at once."""
    while freed:
        spots, served = [], set()
        for queue, names in _by_queue(freed).items():
            for index, seq, priority, attempt, lost, flags in step.rows(SQL.next_in_lanes, queue, as_json(names)):
                served.add((queue, names[index]))
                spots.append(Spot(seq, queue, priority, attempt, lost, flags | Flag.SLOT))
        leave(step, State.WAITING, spots)
        to_ready(step, [(spot, step.now) for spot in spots])
        if idle := [(*lane, -slots) for lane, slots in freed.items() if lane not in served]:
            step.run(SQL.hold_lanes, as_json(idle))
            step.run(SQL.empty_lanes, as_json(idle))
        freed = Counter({lane: freed[lane] - 1 for lane in freed if freed[lane] > 1 and lane in served})
