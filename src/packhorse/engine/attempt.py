"""One attempt, a straight pipe from lease to settlement: open, decode, call, encode; every failure is judged."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

from packhorse.engine.context import Context
from packhorse.engine.executors.process import Children
from packhorse.engine.judge import Cause, judge
from packhorse.engine.registry import Arguments
from packhorse.model.chance import Chance
from packhorse.model.clock import Clock
from packhorse.model.codec import About, Codec
from packhorse.model.lease import Lease, Settlement
from packhorse.model.outcome import Done

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
            return _done(ctx, value)
        except BaseException as error:  # noqa: BLE001 - also SystemExit and the like: the job failed, the worker lives
            return self.judged(ctx, error)

    def run_here(self, ctx: Context) -> Settlement | None:
        """Run an attempt in the calling thread."""
        ctx.enter()
        try:
            args, options = self._arguments(ctx)
            with self._around(ctx):
                value = ctx.entry.call(*args, **options)
            return _done(ctx, value)
        except BaseException as error:  # noqa: BLE001
            return self.judged(ctx, error)

    async def run_apart(self, ctx: Context, children: Children) -> Settlement | None:
        """Run an attempt in a child process, which decodes, encodes and judges by itself."""
        ctx.enter()
        try:
            ctx.check()
            with self._around(ctx):
                return await children.call(ctx, self.opened(ctx.lease))
        except BaseException as error:  # noqa: BLE001
            return self.judged(ctx, error)

    def judged(self, ctx: Context, error: BaseException) -> Settlement | None:
        """The settlement of an attempt that failed: its effects are dropped."""
        policy, chance, now = ctx.entry.policy, self._chance(), self._clock.now()
        outcome = judge(policy, ctx.lease, error, stopped=ctx.stopped, chance=chance, now=now)
        return None if outcome is None else Settlement(ctx.lease, outcome)

    def opened(self, lease: Lease) -> bytes:
        """The payload without its seals."""
        return self._codec.open(lease.payload, About(lease.id, lease.task))

    def _arguments(self, ctx: Context) -> Arguments:
        ctx.check()
        return ctx.entry.decode(self.opened(ctx.lease))

    def _around(self, ctx: Context) -> AbstractContextManager[Any]:
        if not self._middleware:
            return nullcontext()
        stack = ExitStack()
        with stack:
            for around in self._middleware:
                stack.enter_context(around(ctx))
            return stack.pop_all()


def _done(ctx: Context, value: object) -> Settlement | None:
    if ctx.stopped is Cause.LOST:
        return None
    result = ctx.entry.encode(value)
    return Settlement(ctx.lease, Done(result, ctx.entry.policy.keep_done), tuple(ctx.effects))
