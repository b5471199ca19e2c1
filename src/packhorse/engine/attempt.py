"""One attempt, a straight pipe from lease to settlement: open, decode, call, encode; every failure is judged."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

from packhorse.engine.context import Context
from packhorse.engine.executors.process import Children
from packhorse.engine.judge import Cause, judge
from packhorse.engine.registry import Arguments
from packhorse.engine.signals import Aside
from packhorse.errors import TooManyEffects
from packhorse.model import caps
from packhorse.model.chance import Chance
from packhorse.model.clock import Clock
from packhorse.model.codec import About, Codec
from packhorse.model.lease import Settlement
from packhorse.model.outcome import Dead, Done, Outcome, Wait
from packhorse.model.reason import WaitReason

NOTHING_AROUND = nullcontext()
Middleware = Callable[[Context], AbstractContextManager[Any]]


class Attempts:
    """Runs attempts. Middleware stands around the call of every one, the first outermost."""

    def __init__(self, *, codec: Codec, middleware: Sequence[Middleware], clock: Clock, chance: Chance) -> None:
        self._codec = codec
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
        try:
            args, options = self._arguments(ctx)
            with self._around(ctx):
                value = ctx.entry.call(*args, **options)
            return self._settled(ctx, Done(ctx.entry.encode(value), ctx.policy.keep_done))
        except Aside as aside:
            return self._settled(ctx, aside.outcome)
        except BaseException as error:  # noqa: BLE001
            return self.judged(ctx, error)

    async def run_apart(self, ctx: Context, children: Children) -> Settlement | None:
        """Run an attempt in a child process, which decodes, encodes and judges by itself."""
        ctx.enter()
        try:
            ctx.check()
            with self._around(ctx):
                return await children.call(ctx, self.payload(ctx))
        except BaseException as error:  # noqa: BLE001
            return self.judged(ctx, error)

    async def run_together(self, ctxs: Sequence[Context]) -> list[Settlement | None]:
        """Run attempts as one call. Those that were settled meanwhile stay so; the others share the end of the call."""
        ctxs[0].enter()
        for ctx in ctxs:
            ctx.entered = True
        try:
            ctxs[0].check()
            with self._around(ctxs[0]):
                await ctxs[0].entry.call(ctxs)
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
        except TooManyEffects as error:
            return self.judged(ctx, error)

    def judged(self, ctx: Context, error: BaseException) -> Settlement | None:
        """The settlement of an attempt that failed: its effects are dropped."""
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

    async def fetch(self, ctx: Context) -> Settlement | None:
        """Complete the payload of an attempt; if that cannot be done it has none, and this is its settlement."""
        assert ctx.entry.fetch is not None
        ctx.entered = True
        try:
            ctx.check()
            ctx.payload = await ctx.entry.fetch.payload(ctx.lease, self.payload(ctx))
        except BaseException as error:  # noqa: BLE001
            return self.judged(ctx, error)
        return None

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
            return stack.pop_all()


def _halted(dead: Dead) -> Wait:
    """Its lane stands still until a person has looked: a job that waits keeps its slot."""
    why = f"{dead.reason}: {dead.error.type}: {dead.error.message}".encode()[: caps.DETAIL].decode(errors="ignore")
    return Wait(WaitReason.INTERVENTION, detail=why)
