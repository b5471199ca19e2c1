"""The slots of a worker: what is leased, what runs, what comes next, and how each is stopped.

An attempt of a job that was lost before begins once the store has recorded that: without the record, its loss does not
count. A job whose next loss would be its last runs alone: if it takes the worker down, it takes nobody with it.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from msgspec.structs import replace

from packhorse.engine.attempt import Attempt, Phase
from packhorse.engine.attempt_runner import AttemptRunner
from packhorse.engine.batches import Batches
from packhorse.engine.deadlines import Deadlines
from packhorse.engine.executors.process import ChildPool
from packhorse.engine.held_leases import HeldLeases
from packhorse.engine.judge import Cause
from packhorse.engine.launcher import Launcher
from packhorse.engine.quarantine import Quarantine
from packhorse.engine.registry import Registry, Run
from packhorse.engine.settlement_queue import SettlementQueue
from packhorse.engine.transactions import Transactions
from packhorse.engine.unknown_tasks import AVOID_US, UnknownTasks
from packhorse.model import limits
from packhorse.model.clock import Clock
from packhorse.model.lease import Lease, Settlement, Share
from packhorse.model.outcome import Again, Dead
from packhorse.telemetry.emit import Telemetry
from packhorse.telemetry.names import EventName


class Slots:
    """Runs leases on as many slots as there are, on the loop."""

    def __init__(
        self,
        runner: AttemptRunner,
        registry: Registry,
        queue: SettlementQueue,
        held: HeldLeases,
        *,
        slots: int,
        queue_slots: Mapping[str, int],
        lease: int,
        max_lost: int,
        patience: int,
        clock: Clock,
        deadlines: Deadlines,
        telemetry: Telemetry,
        children: ChildPool | None,
        transactions: Transactions,
        note: Callable[[Attempt, bytes], None],
    ) -> None:
        self.slots = slots
        self._loop = asyncio.get_running_loop()
        self._held, self.held, self._suspects = held, held.attempts, held.suspects
        self._runner, self._registry, self._queue = runner, registry, queue
        self._queue_slots = queue_slots
        self._lease, self._last_chance, self._patience = lease, max_lost - 1, patience
        self._clock, self._deadlines, self._telemetry = clock, deadlines, telemetry
        self._transactions, self._note = transactions, note
        launcher = self._launcher = Launcher(
            runner,
            transactions,
            children,
            threads=slots,
            clock=clock,
            telemetry=telemetry,
            on_end=self._finish_and_refill,
            wake=queue.wake_from_thread,
        )
        self._tasks, self._in_threads = launcher.tasks, launcher.in_threads
        self._pending: deque[Attempt] = deque()
        self._batches = Batches(deadlines, self._add_batch)
        self._unknown_tasks = UnknownTasks(clock)
        self._quarantine = Quarantine(lease, clock=clock, deadlines=deadlines, start=self._start, wake=queue.wake)
        self._stuck: set[Attempt] = set()
        self._draining = False
        self.running_in, self.close, self.take_created = launcher.running_in, launcher.close, launcher.take_created

    # -- room

    @property
    def busy(self) -> int:
        """Slots that are taken, also by what was given up and does not stop."""
        return len(self._tasks) + len(self._in_threads)

    @property
    def pending(self) -> int:
        """Jobs that are leased and have no slot yet."""
        return len(self._pending) + max(0, self.busy - self.slots)

    def room(self, ahead: int) -> int:
        """How many more jobs to lease, so many of them before there is a slot; none beside one that must run alone."""
        if self._quarantine.attempt is not None:
            return 0
        return max(0, self.slots - self.busy - len(self._pending) + ahead)

    def batch_share(self, share: Share) -> Share:
        """The share of a queue whose jobs run together: as many jobs as fit in its slots."""
        batching = self._registry.batching(share.queue)
        if batching is None:
            return share
        collected = self._batches.collected(share.queue)
        count = max(0, min(share.count * batching.size, limits.ITEMS) - collected)
        return replace(share, count=count, limit=max(count, batching.size - collected))  # others' leftovers fill it too

    @property
    def stuck(self) -> int:
        """Slots whose attempts were given up and do not stop."""
        return len(self._stuck)

    def queue_room(self) -> dict[str, int]:
        """How many more jobs each bounded queue may have in this worker."""
        none = dict.fromkeys(self._unknown_tasks.avoided_queues(), 0)
        if not self._queue_slots:
            return none
        held = Counter(attempt.lease.queue for attempt in self.held.values() if not attempt.ended)
        return {queue: max(0, slots - held[queue]) for queue, slots in self._queue_slots.items()} | none

    @property
    def empty(self) -> bool:
        """Whether no lease is held and every thread's end is collected."""
        return not self.held and not self._launcher.finished_in_threads

    # -- in and out

    def accept(self, leases: Sequence[Lease], valid_until: int) -> None:
        """Run these as slots come free."""
        self._launcher.check_listeners()
        for lease in leases:
            entry = None if lease.fault else self._registry.find(lease.task, lease.queue)
            if entry is None:
                self._queue.put(None, Settlement(lease, self._unknown_tasks.outcome(lease)))
                continue
            attempt = Attempt(lease, entry)
            attempt.valid_until, attempt.settle_early = valid_until, self.conclude
            attempt.write_progress, attempt.write_effects = self._note, self._queue.hold
            if lease.id in self.held:  # it was taken back from us and is ours again, by another token
                self.stop(self.held[lease.id], Cause.LOST)
            self.held[lease.id] = attempt
            if lease.lost:
                self._suspects[attempt] = None
            if lease.lost and lease.lost >= self._last_chance:
                if not self._quarantine.enter(attempt):
                    self._return(attempt, self._lease // 10)
            elif lease.lost:  # in no batch, or all of it would be suspect
                self._pending.appendleft(attempt)
            elif entry.batching is not None:
                self._batches.put(attempt)
            else:
                self._pending.append(attempt)
        if self._unknown_tasks.avoided_queues():
            self._deadlines.after(AVOID_US, self._queue.wake)
        if self._quarantine.attempt is not None:
            self.release_unstarted()
        self.start_pending()

    def release_unstarted(self) -> None:
        """Give back, uncharged, what is leased and not begun."""
        for attempt in self.take_unstarted():
            self._in_threads.discard(attempt)
            attempt.started_at = 0
            self._return(attempt, 0)

    def take_unstarted(self) -> list[Attempt]:
        """Take out what is leased and not begun: it will not be run. Called by the keeper too, from its thread."""
        taken = [*self._launcher.take_back(), *self._batches.take_back()]
        while self._pending:
            try:
                taken += self._pending.popleft().with_followers
            except IndexError:  # whoever pops an attempt, the loop or the keeper, has it
                break
        return taken

    def take_suspects(self) -> list[Attempt]:
        """Take out what was lost before and is not recorded as begun. For the keeper, from its thread."""
        return [attempt for attempt in tuple(self._suspects) if self._suspects.pop(attempt, True) is None]

    def returned(self, attempts: Sequence[Attempt]) -> None:
        """Let go of what the keeper has taken out and given back."""
        for attempt in attempts:
            if attempt.phase in (Phase.PENDING, Phase.QUEUED_IN_THREAD):
                attempt.phase = Phase.FINISHED  # else its task is there, and leaves its slot by itself
            self._in_threads.discard(attempt)
            self._quarantine.leave(attempt)
            self._held.release(attempt)
        self._queue.wake()

    def unsettled(self) -> list[Settlement]:
        """Ends that no exchange has taken yet; called by the keeper, from its thread. Deaths wait for their events."""
        unwritten = [
            settlement for _, settlement in tuple(self._launcher.finished_in_threads) if settlement is not None
        ]
        return [*self._queue.waiting, *(one for one in unwritten if not isinstance(one.outcome, Dead))]

    def drain(self) -> None:
        """Begin nothing more, and give back all that is not begun, also what would have run alone."""
        self._draining = True
        self.release_unstarted()
        alone = self._quarantine.attempt
        if alone is not None and alone.phase is Phase.PENDING:
            self._quarantine.leave(alone)
            self._return(alone, 0)

    def _return(self, attempt: Attempt, delay: int) -> None:
        attempt.phase = Phase.FINISHED
        if attempt.try_end():
            self._queue.put(attempt, Settlement(attempt.lease, Again(delay, charged=False)))

    # -- running

    def start_pending(self) -> None:
        """Start pending attempts while there are slots."""
        self._start_pending(self._clock.steady())

    def _start_pending(self, now: int) -> None:
        if self._draining:
            return
        alone = self._quarantine.attempt
        if alone is not None:
            if alone.phase is Phase.PENDING and len(self.held) == 1:
                self._start(alone, now)
            return
        free = self.slots - len(self._tasks) - len(self._in_threads)
        while self._pending:
            try:
                if not (free > 0 or (not self._tasks and self._may_queue(self._pending[0]))):
                    return
                attempt = self._pending.popleft()
            except IndexError:  # the keeper has taken it out
                return
            if now > attempt.valid_until:  # the process stood still: another worker may have it
                for one in attempt.with_followers:
                    self._return(one, 0)
                continue
            self._start(attempt, now)
            free -= 1

    def _may_queue(self, attempt: Attempt) -> bool:
        """Threads fetch their next job themselves while nothing else wants their slots."""
        return attempt.entry.run is Run.THREAD and attempt.policy.timeout is None and not attempt.lease.lost

    def _start(self, attempt: Attempt, now: int) -> None:
        attempt.started_at = now
        for follower in attempt.followers:
            follower.started_at = now
        if attempt.lease.lost and attempt.start_recorded is None:
            self._launcher.as_task(attempt, self._recorded(attempt))
            return
        timeout = attempt.policy.timeout
        if timeout is not None and attempt.entry.run is Run.PROCESS:
            # Once a child is there: its start is not the job's fault.
            attempt.start_timeout = lambda: self._arm(attempt, timeout)
        elif timeout is not None:
            self._arm(attempt, timeout)
        self._launcher.start(attempt)

    async def _recorded(self, attempt: Attempt) -> None:
        ended = await self._runner.record(attempt, self._queue)
        if self._suspects.pop(attempt, True):  # the keeper has taken it out: who is first gives it back
            self._finish_and_refill(attempt, Settlement(attempt.lease, Again(charged=False)))
        elif ended is None and attempt.stop_cause is None:
            del self._tasks[attempt]
            self._start(attempt, self._clock.steady())
        else:
            self._finish_and_refill(attempt, ended)

    def _arm(self, attempt: Attempt, timeout: int) -> None:
        attempt.deadline = self._clock.steady() + timeout
        attempt.timer = self._deadlines.after(timeout, lambda: self.stop(attempt, Cause.TIMEOUT))

    def _finish_and_refill(self, attempt: Attempt, settlement: Settlement | None) -> None:
        self._finish(attempt, settlement)
        if attempt.stop_cause is Cause.SHUTDOWN:
            self._draining = True  # also where the loop ends before anybody stopped the worker
        self._start_pending(attempt.started_at + attempt.duration)  # the next begins as this one ends

    def collect(self) -> None:
        """Let attempts that ended in threads leave their slots."""
        finished_in_threads = self._launcher.finished_in_threads
        while finished_in_threads:
            self._finish(*finished_in_threads.popleft())

    def _finish(self, attempt: Attempt, settlement: Settlement | None) -> None:
        """An attempt came to its end and its slot is free."""
        attempt.phase = Phase.FINISHED
        self._tasks.pop(attempt, None)
        self._in_threads.discard(attempt)
        self._stuck.discard(attempt)
        if attempt is self._quarantine.attempt:
            self._quarantine.leave(attempt)
        if attempt.timer is not None:
            attempt.timer.call_off()
        attempt.duration = self._clock.steady() - attempt.started_at
        if attempt.try_end():
            self._held.settle(attempt, settlement)
        else:  # given up before: its settlement comes too late, but a slot is free
            self._queue.wake()

    def conclude(self, attempt: Attempt, error: BaseException | None) -> None:
        """Settle one of several attempts that run together before the others end."""
        if attempt.try_end():
            self._held.settle(
                attempt, self._runner.done(attempt) if error is None else self._runner.judged(attempt, error)
            )

    def _add_batch(self, leader: Attempt) -> None:
        self._pending.append(leader)
        self.start_pending()

    # -- stopping

    def stop(self, attempt: Attempt, cause: Cause) -> None:
        """Ask an attempt to stop; a lease that is lost overrides every other cause."""
        in_batch = attempt.entry.batching is not None and attempt.phase is not Phase.PENDING
        if in_batch and attempt in self._tasks and cause in (Cause.TIMEOUT, Cause.SHUTDOWN):
            self._stop_call(attempt, cause)  # whatever became of its own job, it leads the call
            return
        if attempt.stop_cause is not None and cause is not Cause.LOST:
            return
        if attempt.ended:
            self._stop_commit(attempt, cause)
            return
        attempt.stop_cause = cause
        if attempt.transaction is not None:
            self._transactions.abandon(attempt)
        match attempt.phase:
            case Phase.PENDING:
                self._drop(attempt)
            case Phase.QUEUED_IN_THREAD:  # its thread will look at the cause before it begins
                self._settle_for(attempt)
            case Phase.STARTING | Phase.PREPARING | Phase.RUNNING | Phase.RUNNING_IN_THREAD if not in_batch:
                self._stop_call(attempt, cause)

    def _stop_commit(self, attempt: Attempt, cause: Cause) -> None:
        """Cancel the commit of an attempt that has ended: that does not go on for ever either."""
        if attempt.transaction is not None and attempt in self._tasks:
            attempt.stop_cause = cause
            self._tasks[attempt].cancel()

    def _stop_call(self, attempt: Attempt, cause: Cause) -> None:
        for one in attempt.with_followers:
            one.stop_cause = one.stop_cause or cause
        if attempt.phase in (Phase.PREPARING, Phase.RUNNING):  # before that, its task looks at the cause by itself
            self._tasks[attempt].cancel()
        self._deadlines.after(self._patience, lambda: self._give_up(attempt))

    def _drop(self, attempt: Attempt) -> None:
        """Stop what has not begun; the first job of a batch hands the lead to the next."""
        self._batches.remove(attempt)
        with suppress(ValueError):  # it is not pending, or the keeper has taken it out
            place = self._pending.index(attempt)
            self._pending.remove(attempt)
            if attempt.followers:
                heir, *others = attempt.followers
                heir.followers, attempt.followers = tuple(others), ()
                self._pending.insert(place, heir)
        self._quarantine.leave(attempt)
        attempt.phase = Phase.FINISHED
        self._settle_for(attempt)
        self.start_pending()

    def _give_up(self, attempt: Attempt) -> None:
        """Settle on behalf of an attempt that does not stop; its slot stays taken until it does.

        A job of a lane is not settled before it stops, so that the next of its lane does not run beside it.
        """
        match attempt.phase:
            case Phase.PENDING | Phase.FINISHED:
                return
            case Phase.QUEUED_IN_THREAD | Phase.RUNNING_IN_THREAD:
                name = EventName.THREAD_STUCK
            case Phase.STARTING | Phase.PREPARING | Phase.RUNNING:
                name = EventName.ATTEMPT_STUCK
                self._tasks[attempt].cancel()
                self._deadlines.after(self._patience, lambda: self._give_up(attempt))
        self._stuck.add(attempt)
        self._telemetry.emit(name, lease=attempt.lease, detail=attempt.stop_cause)
        for one in attempt.with_followers:
            if one.lease.lane is None or one.stop_cause is Cause.LOST:
                self._settle_for(one)

    def _settle_for(self, attempt: Attempt) -> None:
        if attempt.try_end():
            self._held.settle(attempt, self._runner.judged(attempt, asyncio.CancelledError()))

    def stop_all(self) -> None:
        """Ask everything that runs to stop because the worker does."""
        for attempt in {**self.held, **{attempt.lease.id: attempt for attempt in self._tasks}}.values():
            self.stop(attempt, Cause.SHUTDOWN)

    def give_up_all(self) -> None:
        """Settle on behalf of everything that is still held."""
        for attempt in tuple(self.held.values()):
            attempt.stop_cause = attempt.stop_cause or Cause.SHUTDOWN
            self._settle_for(attempt)
