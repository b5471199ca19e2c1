"""The slots of a worker: what is leased, what runs, what comes next, and how each is stopped.

An attempt of a job that was lost before begins once the store has recorded that: without the record, its loss does not
count. A job whose next loss would be its last runs alone: if it takes the worker down, it takes nobody with it.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence

from packhorse.engine.attempt import Attempts
from packhorse.engine.batches import Batches
from packhorse.engine.context import Context
from packhorse.engine.deadlines import Deadlines
from packhorse.engine.executors.process import Children
from packhorse.engine.judge import Cause
from packhorse.engine.launcher import Launcher
from packhorse.engine.quarantine import Quarantine
from packhorse.engine.registry import Registry, Run
from packhorse.engine.settler import Settler
from packhorse.engine.strangers import MOMENT, Strangers
from packhorse.engine.transactions import Transactions
from packhorse.model import caps
from packhorse.model.clock import Clock
from packhorse.model.ids import JobId
from packhorse.model.lease import Lease, Settlement, Share
from packhorse.model.outcome import Again, Dead
from packhorse.telemetry.emit import Telemetry
from packhorse.telemetry.names import Name


class Crew:
    """Runs leases on as many slots as there are, on the loop."""

    def __init__(
        self,
        attempts: Attempts,
        registry: Registry,
        settler: Settler,
        *,
        slots: int,
        queue_slots: Mapping[str, int],
        lease: int,
        max_lost: int,
        patience: int,
        clock: Clock,
        deadlines: Deadlines,
        telemetry: Telemetry,
        children: Children | None,
        transactions: Transactions,
        note: Callable[[Context, bytes], None],
    ) -> None:
        self.slots = slots
        self._loop = asyncio.get_running_loop()
        self.held: dict[JobId, Context] = {}
        self._attempts, self._registry, self._settler = attempts, registry, settler
        self._queue_slots = queue_slots
        self._lease, self._last_chance, self._patience = lease, max_lost - 1, patience
        self._clock, self._deadlines, self._telemetry = clock, deadlines, telemetry
        self._transactions, self._note = transactions, note
        launcher = self._launcher = Launcher(
            attempts,
            transactions,
            children,
            threads=slots,
            clock=clock,
            telemetry=telemetry,
            left=self._left,
            wake=settler.wake_from_thread,
        )
        self._tasks, self._threaded = launcher.tasks, launcher.threaded
        self._hand: deque[Context] = deque()
        self._batches = Batches(deadlines, self._whole)
        self._strangers = Strangers(clock)
        self._quarantine = Quarantine(lease, clock=clock, deadlines=deadlines, start=self._start, wake=settler.wake)
        self._stuck: set[Context] = set()
        self._draining = False
        self.running_in, self.close, self.take_created = launcher.running_in, launcher.close, launcher.take_created

    # -- room

    @property
    def busy(self) -> int:
        """Slots that are taken, also by what was given up and does not stop."""
        return len(self._tasks) + len(self._threaded)

    @property
    def in_hand(self) -> int:
        """Jobs that are leased and have no slot yet."""
        return len(self._hand) + max(0, self.busy - self.slots)

    def room(self, ahead: int) -> int:
        """How many more jobs to lease, so many of them before there is a slot; none beside one that must run alone."""
        if self._quarantine.ctx is not None:
            return 0
        return max(0, self.slots - self.busy - len(self._hand) + ahead)

    def widened(self, share: Share) -> Share:
        """The share of a queue whose jobs run together: as many jobs as fit in its slots."""
        batching = self._registry.batching(share.queue)
        if batching is None:
            return share
        collected = self._batches.collected(share.queue)
        count = max(0, min(share.count * batching.size, caps.ITEMS) - collected)
        return Share(share.queue, count, max(count, batching.size - collected))  # also what others leave fills a batch

    @property
    def stuck(self) -> int:
        """Slots whose attempts were given up and do not stop."""
        return len(self._stuck)

    def most(self) -> dict[str, int]:
        """How many more jobs each bounded queue may have in this worker."""
        none = dict.fromkeys(self._strangers.shunned(), 0)
        if not self._queue_slots:
            return none
        held = Counter(ctx.lease.queue for ctx in self.held.values() if not ctx.ended)
        return {queue: max(0, slots - held[queue]) for queue, slots in self._queue_slots.items()} | none

    @property
    def empty(self) -> bool:
        """Whether no lease is held and every thread's end is collected."""
        return not self.held and not self._launcher.gone

    # -- in and out

    def take(self, leases: Sequence[Lease], valid_until: int) -> None:
        """Run these as slots come free."""
        self._launcher.look_who_listens()
        for lease in leases:
            entry = None if lease.fault else self._registry.find(lease.task, lease.queue)
            if entry is None:
                self._settler.put(None, Settlement(lease, self._strangers.outcome(lease)))
                continue
            ctx = Context(lease, entry)
            ctx.valid_until, ctx.note, ctx.hold = valid_until, self._note, self._settler.hold
            ctx.concluded = self.conclude
            if lease.id in self.held:  # it was taken back from us and is ours again, by another token
                self.stop(self.held[lease.id], Cause.LOST)
            self.held[lease.id] = ctx
            if lease.lost and lease.lost >= self._last_chance:
                if not self._quarantine.enter(ctx):
                    self._return(ctx, self._lease // 10)
            elif lease.lost:  # in no batch, or all of it would be suspect
                self._hand.appendleft(ctx)
            elif entry.batching is not None:
                self._batches.put(ctx)
            else:
                self._hand.append(ctx)
        if self._strangers.shunned():
            self._deadlines.after(MOMENT, self._settler.wake)
        if self._quarantine.ctx is not None:
            self.hand_back()
        self.fill()

    def settled(self, ctx: Context) -> None:
        """An attempt has its verdict, or needs none: let go of its lease."""
        if self.held.get(ctx.lease.id) is ctx:
            del self.held[ctx.lease.id]
            if self._quarantine.ctx is not None:
                self.fill()

    def hand_back(self) -> None:
        """Give back, uncharged, what is leased and not begun."""
        for ctx in self.take_unstarted():
            self._threaded.discard(ctx)
            ctx.begun = 0
            self._return(ctx, 0)

    def take_unstarted(self) -> list[Context]:
        """Take out what is leased and not begun: it will not be run. Called by the keeper too, from its thread."""
        taken = [*self._launcher.take_back(), *self._batches.take_back()]
        while self._hand:
            try:
                taken += self._hand.popleft().together
            except IndexError:  # whoever pops an attempt, the loop or the keeper, has it
                break
        return taken

    def returned(self, ctxs: Sequence[Context]) -> None:
        """Let go of what the keeper has taken out and given back."""
        for ctx in ctxs:
            self._threaded.discard(ctx)
            self.settled(ctx)
        self._settler.wake()

    def unsettled(self) -> list[Settlement]:
        """Ends that no exchange has taken yet; called by the keeper, from its thread. Deaths wait for what is told of them."""
        in_threads = [settlement for _, settlement in tuple(self._launcher.gone) if settlement is not None]
        return [*self._settler.waiting, *(one for one in in_threads if not isinstance(one.outcome, Dead))]

    def drain(self) -> None:
        """Begin nothing more, and give back all that is not begun, also what would have run alone."""
        self._draining = True
        self.hand_back()
        alone = self._quarantine.ctx
        if alone is not None and not alone.begun:
            self._quarantine.leave(alone)
            self._return(alone, 0)

    def _return(self, ctx: Context, delay: int) -> None:
        if ctx.end():
            self._settler.put(ctx, Settlement(ctx.lease, Again(delay, charged=False)))

    # -- running

    def fill(self) -> None:
        """Start what is in hand while there are slots."""
        self._fill(self._clock.steady())

    def _fill(self, now: int) -> None:
        if self._draining:
            return
        alone = self._quarantine.ctx
        if alone is not None:
            if not alone.begun and len(self.held) == 1:
                self._start(alone, now)
            return
        free = self.slots - len(self._tasks) - len(self._threaded)
        while self._hand:
            try:
                if not (free > 0 or (not self._tasks and self._may_queue(self._hand[0]))):
                    return
                ctx = self._hand.popleft()
            except IndexError:  # the keeper has taken it out
                return
            if now > ctx.valid_until:  # the process stood still: another worker may have it
                for one in ctx.together:
                    self._return(one, 0)
                continue
            self._start(ctx, now)
            free -= 1

    def _may_queue(self, ctx: Context) -> bool:
        """Threads fetch their next job themselves while nothing else wants their slots."""
        return ctx.entry.run is Run.THREAD and ctx.policy.timeout is None and not ctx.lease.lost

    def _start(self, ctx: Context, now: int) -> None:
        ctx.begun = now
        for rider in ctx.riders:
            rider.begun = now
        if ctx.lease.lost and ctx.recorded is None:
            self._launcher.as_task(ctx, self._recorded(ctx))
            return
        timeout = ctx.policy.timeout
        if timeout is not None and ctx.entry.run is Run.PROCESS:
            ctx.arm = lambda: self._arm(ctx, timeout)  # once a child is there: its start is not the job's fault
        elif timeout is not None:
            self._arm(ctx, timeout)
        self._launcher.start(ctx)

    async def _recorded(self, ctx: Context) -> None:
        ended = await self._attempts.record(ctx, self._settler)
        if ended is None and ctx.stopped is None:
            del self._tasks[ctx]
            self._start(ctx, self._clock.steady())
        else:
            self._left(ctx, ended)

    def _arm(self, ctx: Context, timeout: int) -> None:
        ctx.deadline = self._clock.steady() + timeout
        ctx.timer = self._deadlines.after(timeout, lambda: self.stop(ctx, Cause.TIMEOUT))

    def _left(self, ctx: Context, settlement: Settlement | None) -> None:
        self._leave(ctx, settlement)
        if ctx.stopped is Cause.SHUTDOWN:
            self._draining = True  # also where the loop ends before anybody stopped the worker
        self._fill(ctx.begun + ctx.took)  # the next begins as this one ends

    def collect(self) -> None:
        """Let attempts that ended in threads leave their slots."""
        gone = self._launcher.gone
        while gone:
            self._leave(*gone.popleft())

    def _leave(self, ctx: Context, settlement: Settlement | None) -> None:
        """An attempt came to its end and its slot is free."""
        self._tasks.pop(ctx, None)
        self._threaded.discard(ctx)
        self._stuck.discard(ctx)
        if ctx is self._quarantine.ctx:
            self._quarantine.leave(ctx)
        if ctx.timer is not None:
            ctx.timer.call_off()
        ctx.took = self._clock.steady() - ctx.begun
        if ctx.end():
            self.settle(ctx, settlement)
        else:  # given up before: what it says now comes too late, but a slot is free
            self._settler.wake()

    def conclude(self, ctx: Context, error: BaseException | None) -> None:
        """Settle one of several attempts that run together before the others end."""
        if ctx.end():
            self.settle(ctx, self._attempts.done(ctx) if error is None else self._attempts.judged(ctx, error))

    def _whole(self, leader: Context) -> None:
        self._hand.append(leader)
        self.fill()

    def settle(self, ctx: Context, settlement: Settlement | None) -> None:
        """Have the end of an attempt written, by whoever has taken the right to it; None: it is no longer ours."""
        if settlement is None:
            self._telemetry.emit(Name.LEASE_LOST, lease=ctx.lease)
            self.settled(ctx)
            self._settler.wake()
        else:
            self._settler.put(ctx, settlement)

    # -- stopping

    def stop(self, ctx: Context, cause: Cause) -> None:
        """Ask an attempt to stop; a lease that is lost overrides every other cause."""
        shared = ctx.entry.batching is not None and ctx.begun > 0
        if shared and ctx in self._tasks and cause in (Cause.TIMEOUT, Cause.SHUTDOWN):
            self._stop_call(ctx, cause)  # whatever became of its own job, it leads the call
            return
        if ctx.stopped is not None and cause is not Cause.LOST:
            return
        if ctx.ended:
            if ctx.transaction is not None and ctx in self._tasks:  # it commits: that does not go on for ever either
                ctx.stopped = cause
                self._tasks[ctx].cancel()
            return
        ctx.stopped = cause
        if ctx.transaction is not None:
            self._transactions.abandon(ctx)
        if not ctx.begun:
            self._drop(ctx)
        elif ctx in self._threaded and not ctx.entered:  # still in line: it will look before it begins
            self._settle_for(ctx)
        elif not shared:
            self._stop_call(ctx, cause)

    def _stop_call(self, ctx: Context, cause: Cause) -> None:
        for one in ctx.together:
            one.stopped = one.stopped or cause
        if ctx in self._tasks and ctx.entered:
            self._tasks[ctx].cancel()
        self._deadlines.after(self._patience, lambda: self._give_up(ctx))

    def _drop(self, ctx: Context) -> None:
        """Stop what has not begun; the first job of a batch hands the lead to the next."""
        self._batches.remove(ctx)
        if ctx in self._hand:
            place = self._hand.index(ctx)
            if ctx.riders:
                heir, *others = ctx.riders
                heir.riders, ctx.riders = tuple(others), ()
                self._hand[place] = heir
            else:
                del self._hand[place]
        self._quarantine.leave(ctx)
        self._settle_for(ctx)
        self.fill()

    def _give_up(self, ctx: Context) -> None:
        """Settle on behalf of an attempt that does not stop; its slot stays taken until it does.

        A job of a lane is not settled before it stops, so that the next of its lane does not run beside it.
        """
        if ctx not in self._tasks and ctx not in self._threaded:
            return
        self._stuck.add(ctx)
        name = Name.THREAD_STUCK if ctx in self._threaded else Name.ATTEMPT_STUCK
        self._telemetry.emit(name, lease=ctx.lease, detail=ctx.stopped)
        if ctx in self._tasks:
            self._tasks[ctx].cancel()
            self._deadlines.after(self._patience, lambda: self._give_up(ctx))
        for one in ctx.together:
            if one.lease.lane is None or one.stopped is Cause.LOST:
                self._settle_for(one)

    def _settle_for(self, ctx: Context) -> None:
        if ctx.end():
            self.settle(ctx, self._attempts.judged(ctx, asyncio.CancelledError()))

    def stop_all(self) -> None:
        """Ask everything that runs to stop because the worker does."""
        for ctx in {**self.held, **{ctx.lease.id: ctx for ctx in self._tasks}}.values():
            self.stop(ctx, Cause.SHUTDOWN)

    def give_up_all(self) -> None:
        """Settle on behalf of everything that is still held."""
        for ctx in tuple(self.held.values()):
            ctx.stopped = ctx.stopped or Cause.SHUTDOWN
            self._settle_for(ctx)
