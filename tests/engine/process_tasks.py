"""Tasks that the tests run in child processes."""

import contextvars
import os
import re
import threading

from packhorse.engine.context import current
from tests.engine.factories import Run, Tasks

registry = Tasks()
TENANT = contextvars.ContextVar("TENANT", default="nobody")
SECOND = 1_000_000


@registry.task(Run.PROCESS)
def tenant(number: int) -> str:
    before = TENANT.get()
    TENANT.set(str(number))
    return before


@registry.task(Run.PROCESS, attempts=2)
def vanish(number: int = 0) -> None:
    os._exit(3)


@registry.task(Run.PROCESS, attempts=1)
def leave() -> None:
    raise SystemExit(3)


@registry.task(Run.PROCESS, timeout=SECOND // 2, attempts=1)
def late() -> None:
    current().publish("news", b"1")
    threading.Event().wait()


@registry.task(Run.PROCESS, timeout=SECOND // 2, attempts=1)
def holding() -> None:
    re.match(r"(a+)+$", "a" * 60 + "b")


@registry.task(Run.PROCESS, timeout=SECOND // 2, attempts=1)
def brief() -> str:
    return "in time"


@registry.task(Run.PROCESS)
def endless() -> None:
    current().progress(10, str(os.getpid()))
    threading.Event().wait()


@registry.task(Run.PROCESS)
def counted() -> None:
    for _ in current().track(range(3)):
        pass


@registry.task(Run.PROCESS)
def odd() -> object:
    return object()


@registry.task(Run.PROCESS)
def work() -> str:
    current().publish("news", b"1")
    return "good"
