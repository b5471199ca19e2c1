"""The way from code without an event loop to the one that does its work: a loop on a thread of its own."""

import _thread
import asyncio
import builtins
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, ParamSpec, TypeVar, cast

from packhorse.errors import ConfigError, StoreClosed

P = ParamSpec("P")
T = TypeVar("T")


class Portal:
    """Runs coroutines for whoever blocks until they have ended. The thread begins with the first of them.

    It is a daemon, so it does not keep the process. A forked child has a thread and a loop of its own.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._parents: list[asyncio.AbstractEventLoop] = []
        self._begin()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        if self._loop is not None:  # kept: let go of in the child, it would take its files out of the parent's selector
            self._parents.append(self._loop)
        self._pid, self._lock = os.getpid(), threading.Lock()
        self._loop = self._thread = None

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in a copy of the caller's context and answer what it returns, or raise what it raises."""
        call = _Call(coroutine)
        loop: asyncio.AbstractEventLoop | None = None
        try:
            self._check()
            loop = self._running()
            loop.call_soon_threadsafe(call.begin)
            return call.answer.wait()
        except BaseException:  # what the coroutine raised, or an interrupt of the caller
            if loop is None:
                coroutine.close()
            elif not call.answer.there:
                loop.call_soon_threadsafe(call.give_up)
            raise
        finally:
            del call  # it holds the error, whose traceback holds this frame

    def stop(self) -> None:
        """End the thread, for tests; the next call begins anew."""
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._pid != os.getpid():  # forked by something that does not tell Python
            self._begin()
        if self._loop is not None:
            return self._loop
        # The locks are taken on another thread: a signal handler that calls, too, interrupts the main thread, which would
        # wait for what it holds itself. `threading` takes a lock to start a thread, `_thread` does not.
        started = _Answer[asyncio.AbstractEventLoop]()
        _thread.start_new_thread(self._start, (started,))
        return started.wait()

    def _start(self, started: "_Answer[asyncio.AbstractEventLoop]") -> None:
        try:
            with self._lock:
                if self._loop is None:
                    loop = asyncio.new_event_loop()
                    loop.set_default_executor(_Threads())
                    self._thread = threading.Thread(target=_serve, args=(loop,), name="packhorse-portal", daemon=True)
                    self._thread.start()
                    self._loop = loop
                started.give(self._loop)
        except BaseException as error:  # noqa: BLE001 - the caller gets it
            started.fail(error)

    def _check(self) -> None:
        """Refuse a call that would block an event loop, or that no thread would answer."""
        main = threading.main_thread()
        if sys.is_finalizing() or (not main.is_alive() and main.ident == threading.get_ident()):
            raise ConfigError("The interpreter is ending and runs no more calls: make this one before the program ends")
        monkey = sys.modules.get("gevent.monkey")
        if monkey is not None and any(monkey.is_module_patched(name) for name in ("threading", "select")):
            raise ConfigError(
                "gevent has replaced threads or select, so no event loop can run beside it: serve this app with threads "
                "(gunicorn -k gthread), or call gevent.monkey.patch_all(thread=False, select=False)"
            )
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            return
        if here is self._loop or not _interactive():
            raise ConfigError(
                "A blocking call inside a running event loop would stop that loop: use the async one there, "
                "for example `await task.enqueue(...)` instead of `task.sync.enqueue(...)`"
            )


class _Answer(Generic[T]):
    """What one thread waits for and another gives.

    A ``Future`` of ``concurrent.futures`` will not do: its reader holds a lock now and then that its giver needs, and a
    signal handler may interrupt the reader there and wait for the same giver.
    """

    def __init__(self) -> None:
        self._value: T | None = None
        self._error: BaseException | None = None
        self._missing = _thread.allocate_lock()
        self._missing.acquire()

    @property
    def there(self) -> bool:
        """Whether it was given."""
        return not self._missing.locked()

    def give(self, value: T) -> None:
        """Let the one who waits go on."""
        self._value = value
        self._missing.release()

    def fail(self, error: BaseException) -> None:
        """Raise this where it is waited for."""
        self._error = error
        self._missing.release()

    def wait(self) -> T:
        """Block until it is given."""
        with self._missing:
            if self._error is not None:
                raise self._error
            return cast(T, self._value)


class _Call(Generic[T]):
    """A coroutine on its way to the loop and back.

    The caller has it in hand before it is sent, so that an interrupt finds it at any moment: the loop may run it before
    the sender comes to its next line.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self.answer = _Answer[T]()
        self._coroutine = coroutine
        self._task: asyncio.Task[T] | None = None

    def begin(self) -> None:
        """Run it, on the loop."""
        self._task = asyncio.get_running_loop().create_task(self._coroutine)
        self._task.add_done_callback(self._tell)

    def give_up(self) -> None:
        """Cancel the task on the loop, because its caller no longer waits."""
        if self._task is None:
            self._coroutine.close()
        else:
            self._task.cancel()

    def _tell(self, task: "asyncio.Task[T]") -> None:
        if task.cancelled():
            self.answer.fail(StoreClosed("The app was closed while this call waited: call again if it is still wanted"))
        elif (error := task.exception()) is not None:
            self.answer.fail(error)
        else:
            self.answer.give(task.result())


class _Threads(ThreadPoolExecutor):
    """A daemon thread for each call: a pool takes no calls once the main thread is over, while others still run."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """Run a function on a thread."""
        future: Future[T] = Future()

        def run() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(fn(*args, **kwargs))
                except BaseException as error:  # noqa: BLE001 - the caller gets it
                    future.set_exception(error)

        threading.Thread(target=run, name="packhorse-portal-call", daemon=True).start()
        return future


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        while True:
            try:
                return runner.get_loop().run_forever()
            except (SystemExit, KeyboardInterrupt):  # a coroutine's own: its caller gets it, the others go on
                continue


def _interactive() -> bool:
    """Whether this is IPython or Jupyter: there a loop runs below every cell, and a cell may block it."""
    shell = getattr(builtins, "get_ipython", None)
    return callable(shell) and shell() is not None


PORTAL = Portal()
