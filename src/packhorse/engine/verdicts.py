"""What the store said of settlements: let go of leases, tell what happened, find the one that a store refuses."""

import asyncio
from collections.abc import Sequence
from typing import assert_never

from packhorse.engine.attempt import Attempts
from packhorse.engine.context import Context
from packhorse.engine.crew import Crew
from packhorse.engine.judge import Cause
from packhorse.engine.settler import Ended, Settler
from packhorse.errors import OutcomeUnknown, RecordConflict, StoreUnavailable
from packhorse.model.lease import Verdict
from packhorse.model.outcome import Again, Cancelled, Dead, Done, End, Held, Wait
from packhorse.stores.contract import Store
from packhorse.telemetry.emit import Telemetry
from packhorse.telemetry.names import Name


class Verdicts:
    """Hears verdicts in the order of their settlements."""

    def __init__(self, store: Store, crew: Crew, attempts: Attempts, settler: Settler, telemetry: Telemetry) -> None:
        self._store, self._crew, self._attempts = store, crew, attempts
        self._settler, self._telemetry = settler, telemetry
        self._spoilt: dict[Context, Exception] = {}

    def heard(self, batch: Sequence[Ended], verdicts: Sequence[Verdict]) -> None:
        """Let go of what is settled and of what is no longer ours."""
        asked: dict[Name, bool] = {}  # once a call, not once a job
        for ended, verdict in zip(batch, verdicts, strict=True):
            outcome = ended.settlement.outcome
            if isinstance(outcome, Held):
                if verdict is Verdict.LOST and ended.ctx is not None:
                    self._crew.stop(ended.ctx, Cause.LOST)
                if verdict is Verdict.CONFLICT:
                    self._failed(ended, RecordConflict())
                elif (recorded := _awaited(ended)) is not None:
                    recorded.set_result(None)
                continue
            if verdict is Verdict.CONFLICT:
                self._failed(ended, RecordConflict())
                continue
            if ended.ctx is not None:
                self._crew.settled(ended.ctx)
                if self._spoilt:
                    self._spoilt.pop(ended.ctx, None)
            name = Name.LEASE_LOST if verdict is Verdict.LOST else _name(outcome)
            if name not in asked:
                asked[name] = self._telemetry.wants(name)
            if asked[name]:
                self._tell(name, ended, outcome)

    async def apart(self, batch: Sequence[Ended]) -> None:
        """Settle what the store refused as a whole, in ever smaller parts: one bad settlement harms no other."""
        if not batch:
            return
        batch = self.checked(batch)
        try:
            answer = await self._store.jobs.exchange([ended.settlement for ended in batch])
        except (StoreUnavailable, OutcomeUnknown):
            for ended in batch:
                self._settler.put(ended.ctx, ended.settlement)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is about one of these
            if len(batch) == 1:
                self._failed(batch[0], error)
            else:
                half = len(batch) // 2
                await self.apart(batch[:half])
                await self.apart(batch[half:])
        else:
            self.heard(batch, answer.verdicts)

    def checked(self, batch: Sequence[Ended]) -> Sequence[Ended]:
        """The same, but attempts that ended well and whose pieces were refused before have failed."""
        return [self._unless_spoilt(ended) for ended in batch] if self._spoilt else batch

    def _unless_spoilt(self, ended: Ended) -> Ended:
        error = self._spoilt.get(ended.ctx) if ended.ctx is not None else None
        if error is None or ended.ctx is None or not isinstance(ended.settlement.outcome, Done):
            return ended
        return Ended(self._attempts.judged(ended.ctx, error) or ended.settlement, ended.ctx)

    def _failed(self, ended: Ended, error: Exception) -> None:
        """The store will not have this settlement: the attempt failed; if it will not have that either, let it go."""
        ctx = ended.ctx
        self._telemetry.emit(Name.SETTLEMENT_REFUSED, lease=ended.settlement.lease, error=error)
        if ctx is None:
            return
        if isinstance(ended.settlement.outcome, Held):
            if (recorded := _awaited(ended)) is not None:
                recorded.set_exception(error)
            else:
                self._spoilt[ctx] = error
            return
        settlement = None if ctx.refused else self._attempts.judged(ctx, error)
        ctx.refused = True
        if settlement is None:
            self._crew.settled(ctx)
        else:
            self._settler.put(ctx, settlement)

    def _tell(self, name: Name, ended: Ended, outcome: End) -> None:
        lease = ended.settlement.lease
        if name is Name.LEASE_LOST:
            self._telemetry.emit(name, lease=lease)
        else:
            took = ended.ctx.took if ended.ctx is not None and ended.ctx.begun else None
            self._telemetry.emit(name, lease=lease, duration=took, **_fields(outcome))


def _awaited(ended: Ended) -> "asyncio.Future[None] | None":
    """What an attempt waits for that begins once it is recorded."""
    recorded = None if ended.ctx is None else ended.ctx.recorded
    return None if recorded is None or recorded.done() else recorded


def _name(outcome: End) -> Name:
    match outcome:
        case Done():
            return Name.DONE
        case Again():
            back = not outcome.charged and outcome.error is None and not outcome.delay
            return Name.HANDED_BACK if back else Name.AGAIN
        case Wait():
            return Name.WAITING
        case Dead():
            return Name.DEAD
        case Cancelled():
            return Name.CANCELLED
        case never:
            assert_never(never)


def _fields(outcome: End) -> dict[str, object]:
    match outcome:
        case Again(delay=delay, error=error):
            return {"delay": delay, "error": error}
        case Wait(reason=reason):
            return {"reason": reason}
        case Dead(reason=reason, error=error):
            return {"reason": reason, "error": error}
        case Cancelled(error=error):
            return {} if error is None else {"error": error}
        case Done():
            return {}
        case never:
            assert_never(never)
