"""The end of a job, however it came: kept on a shelf, its unique key freed, its slot handed on, its parent told."""

from collections import Counter

from packhorse.model.effect import Put
from packhorse.model.ids import Token
from packhorse.model.job import Keep, State
from packhorse.model.record import DELIVERED, delivery_key
from packhorse.stores.sqlite.lanes import Lane, admit, hand_on
from packhorse.stores.sqlite.place import Facts, Flag, Spot, facts, leave
from packhorse.stores.sqlite.records import write
from packhorse.stores.sqlite.step import SQL, Step, as_json

DROPPED = "dropped"


class Ends:
    """Ends gathered in one step and written together by ``flush``; a unique key is free at once."""

    def __init__(self, step: Step) -> None:
        self._step = step
        self._rows: list[tuple[object, ...]] = []
        self._tokens: dict[Token, int] = {}
        self._shelves: dict[tuple[str, State, Keep], int] = {}
        self._leaving: list[tuple[int, int, int, str, bytes | None]] = []

    def add(
        self,
        spot: Spot,
        state: State,
        keep: Keep,
        token: Token | None = None,
        *,
        reason: str | None = None,
        result: bytes | None = None,
    ) -> None:
        """A job has left its place and ends like this; the token is that of the lease it ended under."""
        seq, queue, _, attempt, lost, flags = spot
        under = -1 if token is None else self._tokens.setdefault(token, len(self._tokens))
        shelf = self._shelves.get((queue, state, keep)) or self._shelf(queue, state, keep)
        text = None if result is None else result.decode()
        self._rows.append((seq, shelf, self._step.next(), under, attempt, lost, reason, text))
        self._step.count(queue, state, 1)
        if flags:
            self.depart(spot, state, result)

    def depart(self, spot: Spot, word: str, result: bytes | None = None) -> None:
        """What goes with any end, also with being dropped."""
        if spot.flags & (Flag.UNIQUE | Flag.STARTED):
            self._step.run(SQL.free_uniques, as_json([spot.seq]))
        if spot.flags & (Flag.SLOT | Flag.PARENT):
            self._leaving.append((spot.seq, self._step.number + 1, spot.flags, word, result))

    def flush(self) -> None:
        """Write the ends, then hand on slots and tell parents."""
        step = self._step
        if self._rows:
            step.run(SQL.put_ends, step.now, b"".join(self._tokens), as_json(self._rows))
            step.ends = True
            self._rows, self._tokens = [], {}
        if self._leaving:
            leaving, self._leaving = self._leaving, []
            known = facts(step, [seq for seq, *_ in leaving])
            freed: Counter[Lane] = Counter()
            for seq, number, flags, word, result in leaving:
                fact = known[seq]
                if flags & Flag.SLOT:
                    freed[fact.queue, str(fact.lane)] += 1
                if fact.parent is not None:
                    _deliver(step, fact, number, word, result)
            hand_on(step, freed)

    def _shelf(self, queue: str, state: State, keep: Keep) -> int:
        rule = (queue, state, keep.count, keep.age)
        row = self._step.row(SQL.find_shelf, *rule)
        shelf = row[0] if row else int(self._step.run(SQL.add_shelf, *rule).lastrowid or 0)
        self._shelves[queue, state, keep] = shelf
        return shelf


def _deliver(step: Step, child: Facts, number: int, word: str, result: bytes | None) -> None:
    """Leave a child's outcome for its parent, count it if it is new, and let the parent go when it was the last."""
    row = step.row(SQL.living_parent, child.parent, number)
    if row is None or child.parent is None:
        return
    (parent,) = row
    value = word.encode() if result is None else word.encode() + b" " + result
    _, new = write(step, Put(DELIVERED, delivery_key(child.parent, child.id), value))
    if not new:
        return
    (delivered,) = step.row(SQL.deliver, parent)
    waiting = step.row(SQL.pending_parent, parent, delivered)
    if waiting is not None:
        spot = Spot(parent, *waiting)
        known = facts(step, [parent])
        leave(step, State.WAITING, [spot])
        admit(step, [(spot, max(known[parent].due, step.now))], known)
