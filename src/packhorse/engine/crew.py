"""The slots of a worker: what is leased, what runs, what comes next, and how each is stopped.

An attempt whose job was lost twice before runs alone: if it takes the worker down once more, it takes nobody with it.
"""

import asyncio
import contextvars
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from packhorse.engine.attempt import Attempts
from packhorse.engine.batches import Batches
from packhorse.engine.context import Context
from packhorse.engine.deadlines import Deadlines
from packhorse.engine.executors.process import Children
from packhorse.engine.executors.threads import Threads
from packhorse.engine.judge import Cause
from packhorse.engine.registry import Registry, Run
from packhorse.engine.settler import Settler
from packhorse.engine.strangers import MOMENT, Strangers
from packhorse.engine.transactions import Transactions
from packhorse.model import caps
from packhorse.model.clock import Clock
from packhorse.model.ids import JobId
from packhorse.model.job import EMPTY
from packhorse.model.lease import Lease, Settlement, Share
from packhorse.model.outcome import Again
from packhorse.telemetry.emit import Telemetry
from packhorse.telemetry.names import Name


class Crew:
    """Runs leases on as many slots as there are. All but ``_in_thread`` happens on the loop."""

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
        self._children, self._transactions, self._note = children, transactions, note
        self._threads: Threads[Context] = Threads(slots, self._in_thread)
        self._hand: deque[Context] = deque()
        self._batches = Batches(deadlines, self._whole)
        self._strangers = Strangers(clock)
        self._tasks: dict[Context, asyncio.Task[None]] = {}
        self._threaded: set[Context] = set()
        self._alone: Context | None = None
        self._stuck: set[Context] = set()
        self._draining = self._telling = False
        self._gone: deque[tuple[Context, Settlement | None]] = deque()

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
        if self._alone is not None:
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
        return not self.held and not self._gone

    # -- in and out

    def take(self, leases: Sequence[Lease], valid_until: int) -> None:
        """Run these as slots come free."""
        self._telling = self._telemetry.wants(Name.STARTED)  # asked here, for it is told of every job
        for lease in leases:
            entry = self._registry.find(lease.task, lease.queue)
            if entry is None:
                self._settler.put(None, Settlement(lease, self._strangers.outcome(lease)))
                continue
            ctx = Context(lease, entry)
            ctx.valid_until, ctx.note, ctx.hold = valid_until, self._note, self._settler.hold
            ctx.concluded, ctx.fence = self.conclude, lease.until - self._lease
            if lease.id in self.held:  # it was taken back from us and is ours again, by another token
                self.stop(self.held[lease.id], Cause.LOST)
            self.held[lease.id] = ctx
            if lease.lost and lease.lost >= self._last_chance:
                self._run_alone(ctx)
            elif entry.batching is not None:
                self._batches.put(ctx)
            elif lease.lost:
                self._hand.appendleft(ctx)
            else:
                self._hand.append(ctx)
        if self._strangers.shunned():
            self._deadlines.after(MOMENT, self._settler.wake)
        if self._alone is not None:
            self.hand_back()
        self.fill()

    def settled(self, ctx: Context) -> None:
        """An attempt has its verdict, or needs none: let go of its lease."""
        if self.held.get(ctx.lease.id) is ctx:
            del self.held[ctx.lease.id]
            if self._alone is not None:
                self.fill()

    def hand_back(self) -> None:
        """Give back, uncharged, what is leased and not begun."""
        in_hand = [ctx for leader in self._hand for ctx in leader.together]
        waiting = [*in_hand, *self._threads.take_back(), *self._batches.take_back()]
        self._hand.clear()
        for ctx in waiting:
            self._threaded.discard(ctx)
            ctx.begun = 0
            self._return(ctx, 0)

    def drain(self) -> None:
        """Begin nothing more, and give back all that is not begun, also what would have run alone."""
        self._draining = True
        self.hand_back()
        if self._alone is not None and not self._alone.begun:
            ctx, self._alone = self._alone, None
            self._return(ctx, 0)

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
        if self._alone is not None:
            if not self._alone.begun and len(self.held) == 1:
                self._begin_alone(self._alone)
            return
        free = self.slots - len(self._tasks) - len(self._threaded)
        while self._hand and (free > 0 or (not self._tasks and self._may_queue(self._hand[0]))):
            self._start(self._hand.popleft(), now)
            free -= 1

    def _may_queue(self, ctx: Context) -> bool:
        """Threads fetch their next job themselves while nothing else wants their slots."""
        return ctx.entry.run is Run.THREAD and ctx.policy.timeout is None

    def _start(self, ctx: Context, now: int) -> None:
        ctx.begun = now
        for rider in ctx.riders:
            rider.begun = now
        timeout = ctx.policy.timeout
        if timeout is not None and ctx.entry.run is Run.PROCESS:
            ctx.arm = lambda: self._arm(ctx, timeout)  # once a child is there: its start is not the job's fault
        elif timeout is not None:
            self._arm(ctx, timeout)
        fetch = ctx.entry.fetch
        if fetch is not None and ctx.lease.headers != EMPTY and fetch.wanted(ctx.lease.headers):
            self._as_task(ctx, self._fetched(ctx))
        else:
            self._launch(ctx)

    def _arm(self, ctx: Context, timeout: int) -> None:
        ctx.deadline = self._clock.steady() + timeout
        ctx.timer = self._deadlines.after(timeout, lambda: self.stop(ctx, Cause.TIMEOUT))

    def _launch(self, ctx: Context) -> None:
        if ctx.entry.batching is not None:
            self._as_task(ctx, self._together(ctx))
        elif ctx.entry.run is Run.THREAD:
            self._threaded.add(ctx)
            self._threads.put(ctx)
        else:
            self._as_task(ctx, self._on_loop(ctx) if ctx.entry.run is Run.ASYNC else self._in_process(ctx))

    def _as_task(self, ctx: Context, run: Coroutine[Any, Any, None]) -> None:
        self._tasks[ctx] = self._loop.create_task(run, context=contextvars.Context())

    async def _fetched(self, ctx: Context) -> None:
        ended = await self._attempts.fetch(ctx)
        if ctx.payload is None:
            self._left(ctx, ended)
        else:
            del self._tasks[ctx]
            ctx.entered = False
            self._launch(ctx)

    async def _on_loop(self, ctx: Context) -> None:
        self._tell_start(ctx)
        run = self._attempts.run if ctx.entry.transaction is None else self._transactions.run
        self._left(ctx, await run(ctx))

    async def _together(self, leader: Context) -> None:
        for ctx in leader.together:
            self._tell_start(ctx)
        settlements = await self._attempts.run_together(leader.together)
        for ctx, settlement in zip(leader.together, settlements, strict=True):
            self._leave(ctx, settlement)
        self.fill()

    async def _in_process(self, ctx: Context) -> None:
        assert self._children is not None  # a worker without an origin has no such task
        self._tell_start(ctx)
        self._left(ctx, await self._attempts.run_apart(ctx, self._children))

    def _in_thread(self, ctx: Context) -> None:
        ctx.begun = self._clock.steady()
        self._tell_start(ctx)
        run = self._attempts.run_here if ctx.entry.transaction is None else self._transactions.run_here
        self._gone.append((ctx, contextvars.Context().run(run, ctx)))
        self._settler.wake_from_thread()

    def _tell_start(self, ctx: Context) -> None:
        if self._telling:
            self._telemetry.emit(Name.STARTED, lease=ctx.lease)

    def _left(self, ctx: Context, settlement: Settlement | None) -> None:
        self._leave(ctx, settlement)
        self._fill(ctx.begun + ctx.took)  # the next begins as this one ends

    def collect(self) -> None:
        """Let attempts that ended in threads leave their slots."""
        while self._gone:
            self._leave(*self._gone.popleft())

    def _leave(self, ctx: Context, settlement: Settlement | None) -> None:
        """An attempt came to its end and its slot is free."""
        self._tasks.pop(ctx, None)
        self._threaded.discard(ctx)
        self._stuck.discard(ctx)
        if ctx is self._alone:
            self._alone = None
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

    # -- alone

    def _run_alone(self, ctx: Context) -> None:
        if self._alone is not None:
            self._return(ctx, self._lease // 10)
            return
        self._alone = ctx
        self._deadlines.after(self._lease, lambda: self._alone_for_long(ctx))

    def _begin_alone(self, ctx: Context) -> None:
        self._start(ctx, self._clock.steady())
        self._deadlines.after(self._lease, lambda: self._alone_for_long(ctx))

    def _alone_for_long(self, ctx: Context) -> None:
        """Others did not end in time, or it has run long enough to be trusted: go on side by side."""
        if self._alone is not ctx:
            return
        if ctx.begun:
            if self._clock.steady() - ctx.begun >= self._lease:
                self._alone = None
        else:
            self._begin_alone(ctx)
        self._settler.wake()

    # -- stopping

    def stop(self, ctx: Context, cause: Cause) -> None:
        """Ask an attempt to stop; a lease that is lost overrides every other cause."""
        if ctx.ended or (ctx.stopped is not None and cause is not Cause.LOST):
            return
        ctx.stopped = cause
        if ctx.transaction is not None:
            self._transactions.abandon(ctx)
        if not ctx.begun:
            self._drop(ctx)
        elif ctx in self._threaded and not ctx.entered:  # still in line: it will look before it begins
            self._settle_for(ctx)
        elif ctx.entry.batching is None or cause in (Cause.TIMEOUT, Cause.SHUTDOWN):
            for rider in ctx.riders:
                rider.stopped = rider.stopped or cause
            if ctx in self._tasks and ctx.entered:
                self._tasks[ctx].cancel()
            self._deadlines.after(self._patience, lambda: self._give_up(ctx))

    def _drop(self, ctx: Context) -> None:
        """Stop what has not begun."""
        self._batches.remove(ctx)
        if ctx in self._hand and not ctx.riders:
            self._hand.remove(ctx)
        if ctx is self._alone:
            self._alone = None
        self._settle_for(ctx)
        self.fill()

    def _give_up(self, ctx: Context) -> None:
        """Settle on behalf of an attempt that does not stop; its slot stays taken until it does."""
        if ctx not in self._tasks and ctx not in self._threaded:
            return
        self._stuck.add(ctx)
        name = Name.THREAD_STUCK if ctx in self._threaded else Name.ATTEMPT_STUCK
        self._telemetry.emit(name, lease=ctx.lease, detail=ctx.stopped)
        if ctx in self._tasks:
            self._tasks[ctx].cancel()
            self._deadlines.after(self._patience, lambda: self._give_up(ctx))
        for one in ctx.together:
            self._settle_for(one)

    def _settle_for(self, ctx: Context) -> None:
        if ctx.end():
            self.settle(ctx, self._attempts.judged(ctx, asyncio.CancelledError()))

    def stop_all(self) -> None:
        """Ask everything that runs to stop because the worker does."""
        for ctx in tuple(self.held.values()):
            self.stop(ctx, Cause.SHUTDOWN)

    def give_up_all(self) -> None:
        """Settle on behalf of everything that is still held."""
        for ctx in tuple(self.held.values()):
            ctx.stopped = ctx.stopped or Cause.SHUTDOWN
            self._settle_for(ctx)

    def close(self) -> None:
        """Let the threads end; what does not stop is left behind."""
        self._threads.stop()
        for task in self._tasks.values():
            task.cancel()

    def running_in(self, task: "asyncio.Task[object] | None") -> Context | None:
        """The attempt that a task of the loop runs."""
        return next((ctx for ctx, its in tuple(self._tasks.items()) if its is task), None)
