"""Who acts: the user of this process, or another one inside ``acting``."""

import getpass
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache

import msgspec

from packhorse.audit.entry import Via
from packhorse.model import limits

_ACTOR: ContextVar["Actor | None"] = ContextVar("packhorse_actor", default=None)


class Actor(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who acts, and from where."""

    who: str
    via: Via = Via.PYTHON
    address: str | None = None
    request_id: str | None = None


@contextmanager
def acting(
    who: str | None = None, *, via: Via | str = Via.PYTHON, address: str | None = None, request_id: str | None = None
) -> Iterator[None]:
    """Write all actions inside in the name of another user; without ``who`` it is the user of the process."""
    if who is not None:
        limits.name("user", who)
    token = _ACTOR.set(Actor(who=who or "", via=Via(via), address=address, request_id=request_id))
    try:
        yield
    finally:
        _ACTOR.reset(token)


@contextmanager
def acting_as(actor: Actor) -> Iterator[None]:
    """Write all actions inside in the name of this actor."""
    token = _ACTOR.set(actor)
    try:
        yield
    finally:
        _ACTOR.reset(token)


def actor_now(user: str | None) -> Actor:
    """The actor at this moment: that of ``acting``, with the user of the process where it names none."""
    actor = _ACTOR.get()
    if actor is None:
        return Actor(who=user or process_user())
    return actor if actor.who else msgspec.structs.replace(actor, who=user or process_user())


@cache
def process_user() -> str:
    """The user of this process and its host: ``ada@worker-1``."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container may have no entry for the user
        name = f"uid-{os.getuid()}" if hasattr(os, "getuid") else "unknown"
    return f"{name}@{socket.gethostname()}"
