"""What an attempt emits while it goes on, until the store has written it."""

import threading
from collections import deque
from collections.abc import Sequence

from packhorse.errors import TooMuchEmitted
from packhorse.model.effect import Effect, bytes_of
from packhorse.model.lease import Lease, Settlement
from packhorse.model.outcome import Held

HELD_MAX_EFFECTS = 100  # that are written together while an attempt goes on
HELD_MAX_BYTES = 1 << 20
UNWRITTEN_MAX_EFFECTS = 10_000  # of an attempt with a transaction
UNWRITTEN_MAX_BYTES = 16 << 20


class EmittedEffects:
    """The effects that one attempt emits, in order; from any thread.

    Those of an attempt with a transaction are kept until they are known to be written: its commit uses the token, so
    whatever the store has not written by then is given along with it. Their number and bytes are bounded.
    """

    def __init__(self, lease: Lease, steps: int, *, kept: bool) -> None:
        self._lease, self._steps, self._kept = lease, steps, kept
        self._turn = threading.Lock()
        self._new: deque[Effect] = deque()
        self._unsent: deque[Settlement] = deque()  # held steps that were made for a commit and not for an exchange
        self._unwritten: dict[int, Settlement] = {}
        self._count = self._size = 0  # of what is kept

    def add(self, effects: Sequence[Effect]) -> None:
        """Take effects in, or refuse them if too many wait beside a transaction."""
        with self._turn:
            if self._kept:
                count, size = self._count + len(effects), self._size + bytes_of(effects)
                if count > UNWRITTEN_MAX_EFFECTS or size > UNWRITTEN_MAX_BYTES:
                    raise TooMuchEmitted(count, UNWRITTEN_MAX_EFFECTS, size, UNWRITTEN_MAX_BYTES)
                self._count, self._size = count, size
            self._new.extend(effects)

    def take(self) -> tuple[Effect, ...]:
        """A bounded part of the effects that were not taken yet."""
        if not self._new:
            return ()
        taken = [self._new.popleft()]
        size = bytes_of(taken)
        while (
            self._new and len(taken) < HELD_MAX_EFFECTS and (size := size + bytes_of((self._new[0],))) <= HELD_MAX_BYTES
        ):
            taken.append(self._new.popleft())
        return tuple(taken)

    def next_step(self) -> Settlement | None:
        """The next held step for an exchange; None if all were taken."""
        with self._turn:
            return self._unsent.popleft() if self._unsent else self._made()

    def unwritten(self) -> list[Settlement]:
        """All held steps that are not known to be written; those that no exchange has taken stay for the next one."""
        with self._turn:
            while (step := self._made()) is not None:
                self._unsent.append(step)
            return list(self._unwritten.values())

    def written(self, step: int) -> None:
        """Forget a held step that the store has written."""
        with self._turn:
            if (settlement := self._unwritten.pop(step, None)) is not None:
                self._count -= len(settlement.effects)
                self._size -= bytes_of(settlement.effects)

    def drop(self) -> None:
        """Forget all: it was written with a commit."""
        with self._turn:
            self._new.clear()
            self._unsent.clear()
            self._unwritten.clear()

    def _made(self) -> Settlement | None:
        effects = self.take()
        if not effects:
            return None
        self._steps += 1
        step = Settlement(self._lease, Held(self._steps), effects)
        if self._kept:
            self._unwritten[self._steps] = step
        return step
