"""Lanes: a slot is taken when a job becomes ready and handed on when it ends, so claims know nothing of lanes."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import compress

from packhorse.model.job import State
from packhorse.model.reason import WaitReason
from packhorse.stores.sqlite.places import (
    Flag,
    JobFacts,
    PlacedJob,
    WaitEntry,
    leave,
    to_ready,
    to_scheduled,
    to_waiting,
)
from packhorse.stores.sqlite.unit_of_work import SQL, UnitOfWork, as_json

Lane = tuple[str, str]


def admit_due(step: UnitOfWork, placed_jobs: Sequence[tuple[PlacedJob, int]], known: dict[int, JobFacts]) -> None:
    """Let jobs go on before all others: scheduled if their moment is to come, else ready, if need be by their lane."""
    later, ready, asking = [], [], []
    for placed, moment in placed_jobs:
        if moment > step.now:
            later.append((placed, moment))
        elif _asks(placed):
            asking.append((placed, moment))
        else:
            ready.append((placed, moment))
    to_scheduled(step, later)
    if asking:
        let_in = _ask(step, asking, known)
        ready = _merged(ready, let_in, placed_jobs) if ready and let_in else ready or let_in
    to_ready(step, ready)


def admit(step: UnitOfWork, placed_jobs: Sequence[tuple[PlacedJob, int]], known: dict[int, JobFacts]) -> None:
    """Let jobs go on that nothing else holds back, none before one of its lane that has come due and was not moved yet.

    It comes due after that one.
    """
    asked = {placed.queue for placed, moment in placed_jobs if _asks(placed) and moment <= step.now}
    behind = {queue for queue in asked if step.row(SQL.laned_due, queue, step.now)}
    if not behind:
        admit_due(step, placed_jobs, known)
        return
    late = [placed.queue in behind and _asks(placed) for placed, _ in placed_jobs]
    to_scheduled(step, list(compress(placed_jobs, late)))
    admit_due(step, [placed for placed, is_late in zip(placed_jobs, late, strict=True) if not is_late], known)
    step.work = True


def _asks(placed: PlacedJob) -> bool:
    """Whether a job needs a slot that it does not have."""
    return placed.flags & (Flag.LANE | Flag.SLOT) == Flag.LANE


def _merged(
    ready: list[tuple[PlacedJob, int]], let_in: list[tuple[PlacedJob, int]], order: Sequence[tuple[PlacedJob, int]]
) -> list[tuple[PlacedJob, int]]:
    by_seq = {placed.seq: (placed, moment) for placed, moment in (*ready, *let_in)}
    return [by_seq[placed.seq] for placed, _ in order if placed.seq in by_seq]


def _ask(
    step: UnitOfWork, asking: list[tuple[PlacedJob, int]], known: dict[int, JobFacts]
) -> list[tuple[PlacedJob, int]]:
    """Those that found a free slot; the others stand behind their lane."""
    lanes = [(placed.queue, str(known[placed.seq].lane)) for placed, _ in asking]
    held, queued = _standing(step, lanes)
    taken: Counter[Lane] = Counter()
    let_in, behind = [], []
    for lane, (placed, moment) in zip(lanes, asking, strict=True):
        if lane not in queued and held.get(lane, 0) + taken[lane] < known[placed.seq].lane_limit:
            taken[lane] += 1
            let_in.append((placed._replace(flags=placed.flags | Flag.SLOT), moment))
        else:
            queued.add(lane)
            behind.append((placed, WaitEntry(WaitReason.LANE, "", lane[1])))
    if taken:
        step.run(SQL.hold_lanes, as_json([(*lane, slots) for lane, slots in taken.items()]))
    to_waiting(step, behind)
    return let_in


def _standing(step: UnitOfWork, lanes: Iterable[Lane]) -> tuple[dict[Lane, int], set[Lane]]:
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


def hand_on(step: UnitOfWork, freed: Counter[Lane]) -> None:
    """Give freed slots to those who wait longest; one round per slot, all lanes at once."""
    while freed:
        placed_jobs, served = [], set()
        for queue, names in _by_queue(freed).items():
            for index, seq, priority, attempt, lost, flags in step.rows(SQL.next_in_lanes, queue, as_json(names)):
                served.add((queue, names[index]))
                placed_jobs.append(PlacedJob(seq, queue, priority, attempt, lost, flags | Flag.SLOT))
        leave(step, State.WAITING, placed_jobs)
        to_ready(step, [(placed, step.now) for placed in placed_jobs])
        if idle := [(*lane, -slots) for lane, slots in freed.items() if lane not in served]:
            step.run(SQL.hold_lanes, as_json(idle))
            step.run(SQL.empty_lanes, as_json(idle))
        freed = Counter({lane: freed[lane] - 1 for lane in freed if freed[lane] > 1 and lane in served})
