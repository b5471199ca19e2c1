"""One attempt, a straight pipe from lease to settlement: open, decode, call, encode; every failure is judged."""

import asyncio
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from types import TracebackType
from typing import Any, Literal

from packhorse.engine.context import Context, enter_several
from packhorse.engine.executors.leash import ChildNotStarted
from packhorse.engine.executors.process import Children
from packhorse.engine.judge import Cause, judge
from packhorse.engine.registry import Arguments
from packhorse.engine.settler import Settler
from packhorse.engine.signals import Aside
from packhorse.errors import OutcomeUnknown, StoreUnavailable, TooManyBytes, TooManyEffects
from packhorse.model import caps
from packhorse.model.chance import Chance
from packhorse.model.clock import Clock
from packhorse.model.codec import About, Codec
from packhorse.model.lease import Settlement
from packhorse.model.outcome import Again, Dead, Done, Outcome, Wait
from packhorse.model.raised import told
from packhorse.model.reason import WaitReason

NOTHING_AROUND = nullcontext()
DJANGO = "django.db"
Middleware = Callable[[Context], AbstractContextManager[Any]]


class Attempts:
    """Runs attempts. Middleware stands around the call of every one, the first outermost."""

    def __init__(
        self,
        *,
        codec: Codec,
        middleware: Sequence[Middleware],
        clock: Clock,
        chance: Chance,
        loop_ends: Callable[[], bool] = lambda: False,
    ) -> None:
        self._codec, self._loop_ends = codec, loop_ends
        self._middleware = tuple(middleware)
        self._clock = clock
        self._chance = chance

    async def run(self, ctx: Context) -> Settlement | None:
        """Run an attempt on the loop; whatever the user's code does becomes an outcome. None: it is no longer ours."""
        ctx.enter()
        try:
            args, options = self._arguments(ctx)
            with self._around(ctx):
                value = await ctx.entry.call(*args, **options)
            return self._settled(ctx, Done(ctx.entry.encode(value), ctx.policy.keep_done))
        except Aside as aside:
            return self._settled(ctx, aside.outcome)
        except BaseException as error:  # noqa: BLE001 - also SystemExit and the like: the job failed, the worker lives
            return self.judged(ctx, error)

    def run_here(self, ctx: Context) -> Settlement | None:
        """Run an attempt in the calling thread."""
        ctx.enter()
        if DJANGO in sys.modules:
            _close_old_connections()
        try:
            args, options = self._arguments(ctx)
            with self._around(ctx):
                value = ctx.entry.call(*args, **options)
            return self._settled(ctx, Done(ctx.entry.encode(value), ctx.policy.keep_done))
        except Aside as aside:
            return self._settled(ctx, aside.outcome)
        except BaseException as error:  # noqa: BLE001
            return self.judged(ctx, error)
        finally:
            if DJANGO in sys.modules:
                _close_old_connections()

    async def run_apart(self, ctx: Context, children: Children) -> Settlement | None:
        """Run an attempt in a child process, which decodes, encodes and judges by itself."""
        ctx.enter()
        try:
            ctx.check()
            with self._around(ctx):
                return await children.call(ctx, self.payload(ctx))
        except ChildNotStarted as error:
            return self._not_begun(ctx, error, error.delay)
        except BaseException as error:  # noqa: BLE001
            return self.judged(ctx, error)

    async def run_together(self, ctxs: Sequence[Context]) -> list[Settlement | None]:
        """Run attempts as one call. Those that were settled meanwhile stay so; the others share the end of the call."""
        enter_several()
        for ctx in ctxs:
            ctx.entered = True
        live = [ctx for ctx in ctxs if ctx.stopped is None]
        try:
            if live:
                live[0].check()
                with self._around(live[0]):
                    await live[0].entry.call(live)
        except BaseException as error:  # noqa: BLE001
            return [self.judged(ctx, error) for ctx in ctxs]
        return [self.done(ctx) for ctx in ctxs]

    def done(self, ctx: Context) -> Settlement | None:
        """The settlement of an attempt that ended well and has no result."""
        return self._settled(ctx, Done(None, ctx.policy.keep_done))

    def _settled(self, ctx: Context, outcome: Outcome) -> Settlement | None:
        if ctx.stopped is Cause.LOST:
            return None
        try:
            return Settlement(ctx.lease, outcome, tuple(ctx.effects))
        except (TooManyEffects, TooManyBytes) as error:
            return self.judged(ctx, error)

    def judged(self, ctx: Context, error: BaseException) -> Settlement | None:
        """The settlement of an attempt that failed: its effects are dropped."""
        if ctx.stopped is None and isinstance(error, asyncio.CancelledError) and self._loop_ends():
            ctx.stopped = Cause.SHUTDOWN
        policy, chance, now = ctx.policy, self._chance(), self._clock.now()
        outcome = judge(policy, ctx.lease, error, stopped=ctx.stopped, chance=chance, now=now)
        if isinstance(outcome, Dead) and ctx.entry.halts and ctx.lease.lane is not None:
            outcome = _halted(outcome)
        return None if outcome is None else Settlement(ctx.lease, outcome)

    def payload(self, ctx: Context) -> bytes:
        """The payload without its seals, and with what was fetched for it."""
        if ctx.payload is not None:
            return ctx.payload
        lease = ctx.lease
        if self._codec.passes(lease.payload):
            return lease.payload
        return self._codec.open(lease.payload, About(lease.id, lease.task))

    async def record(self, ctx: Context, settler: Settler) -> Settlement | None:
        """Have it recorded that an attempt begins; if it was stopped meanwhile, this is its settlement."""
        ctx.entered = True
        try:
            ctx.check()
            await settler.record(ctx)
            ctx.check()
        except BaseException as error:  # noqa: BLE001
            return self.judged(ctx, error)
        ctx.entered = False
        return None

    async def fetch(self, ctx: Context) -> Settlement | None:
        """Complete the payload of an attempt; if that cannot be done it has none, and this is its settlement."""
        assert ctx.entry.fetch is not None
        ctx.entered = True
        try:
            ctx.check()
            ctx.payload = await ctx.entry.fetch.payload(ctx.lease, self.payload(ctx))
        except Aside as aside:
            return self._settled(ctx, aside.outcome)
        except (StoreUnavailable, OutcomeUnknown) as error:
            return self._not_begun(ctx, error, caps.SECOND)
        except BaseException as error:  # noqa: BLE001
            return self.judged(ctx, error)
        return None

    def _not_begun(self, ctx: Context, error: Exception, delay: int) -> Settlement | None:
        """The settlement of an attempt that could not begin, through no fault of its job."""
        if ctx.stopped is not None:
            return self.judged(ctx, error)
        return Settlement(ctx.lease, Again(delay, told(error), charged=False))

    def _arguments(self, ctx: Context) -> Arguments:
        ctx.check()
        return ctx.entry.decode(self.payload(ctx))

    def _around(self, ctx: Context) -> AbstractContextManager[Any]:
        if not self._middleware:
            return NOTHING_AROUND
        stack = ExitStack()
        with stack:
            for around in self._middleware:
                stack.enter_context(around(ctx))
            return _Around(stack.pop_all())


class _Around:
    """Middleware around a call. It sees what the call raises and may raise something else, but cannot swallow it."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]:
        self._stack.__exit__(kind, error, trace)
        return False


def _close_old_connections() -> None:
    """Have Django close connections of this thread that are broken or too old, as it does around a request.

    Not those in a transaction: it belongs to a factory or to middleware around the call, and goes on.
    """
    with suppress(Exception):  # it is imported and not set up, so that there are none
        for connection in sys.modules[DJANGO].connections.all(initialized_only=True):
            if not connection.in_atomic_block:
                connection.close_if_unusable_or_obsolete()


def _halted(dead: Dead) -> Wait:
    """Its lane stands still until a person has looked: a job that waits keeps its slot."""
    why = f"{dead.reason}: {dead.error.type}: {dead.error.message}".encode()[: caps.DETAIL].decode(errors="ignore")
    return Wait(WaitReason.INTERVENTION, detail=why)
