"""Translate errors of the server and the driver into those of Packhorse; no other module does."""

import re
from enum import Enum

from redis.exceptions import (
    AskError,
    AuthenticationError,
    BusyLoadingError,
    ClusterDownError,
    MasterDownError,
    MovedError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as Disconnected

from packhorse.errors import ConfigError, OutcomeUnknown, StoreError, StoreFull, StoreUnavailable


class NotReached(StoreUnavailable):
    """No connection was made, so nothing was sent."""


class ErrorKind(Enum):
    """What to do about an error that the server replied."""

    PASSING = "repeat the call a little later"
    ELSEWHERE = "another server takes the writes: find it"
    SHUT = "the server takes no writes for now"
    LOGIN = "the server denies the login or the command"
    FAILED = "the call fails, and repeating it does not help"


# code: kind, cause and remedy
_TABLE: dict[str, tuple[ErrorKind, str]] = {
    "NOSCRIPT": (ErrorKind.PASSING, "The server forgot a script: repeat the call"),
    "LOADING": (ErrorKind.PASSING, "The server is still loading its data: repeat the call later"),
    "BUSY": (ErrorKind.PASSING, "The server is busy with somebody's script: repeat the call later"),
    "UNKILLABLE": (ErrorKind.PASSING, "The server is busy with somebody's script: repeat the call later"),
    "TRYAGAIN": (ErrorKind.PASSING, "The slot of the namespace is on its way to another node: repeat the call later"),
    "ASK": (ErrorKind.PASSING, "The slot of the namespace is on its way to another node: repeat the call later"),
    "CLUSTERDOWN": (ErrorKind.PASSING, "The cluster does not serve the slot of the namespace: repeat the call later"),
    "MASTERDOWN": (ErrorKind.PASSING, "This server is a replica that has lost its primary: repeat the call later"),
    "MAXCLIENTS": (ErrorKind.PASSING, "The server has too many clients: raise its maxclients, or close some"),
    "READONLY": (ErrorKind.ELSEWHERE, "This server is a read-only replica; the next call connects anew"),
    "MOVED": (ErrorKind.ELSEWHERE, "Another node of the cluster serves the namespace: use an address redis+cluster://"),
    "UNBLOCKED": (ErrorKind.ELSEWHERE, "The server became a replica; the next call connects anew"),
    "OOM": (ErrorKind.SHUT, "The server has no room (maxmemory): raise maxmemory, or let workers and prune drain it"),
    "MISCONF": (ErrorKind.SHUT, "The server refuses writes because it cannot save to disk: free its disk"),
    "NOREPLICAS": (ErrorKind.SHUT, "The server refuses writes without enough replicas: bring the replicas back"),
    "NOAUTH": (ErrorKind.LOGIN, "The server refuses this login: check user and password in the address"),
    "NOPERM": (ErrorKind.LOGIN, "The server's user lacks a permission: see the rule in docs/operate/redis.md"),
}  # fmt: skip
_CLASSES: tuple[tuple[type[RedisError], str], ...] = (
    (NoScriptError, "NOSCRIPT"),
    (OutOfMemoryError, "OOM"),
    (ReadOnlyError, "READONLY"),
    (BusyLoadingError, "LOADING"),
    (MasterDownError, "MASTERDOWN"),
    (ClusterDownError, "CLUSTERDOWN"),
    (TryAgainError, "TRYAGAIN"),
    (MovedError, "MOVED"),
    (AskError, "ASK"),
    (AuthenticationError, "NOAUTH"),
    (NoPermissionError, "NOPERM"),
)
_CODE = re.compile(rf"({'|'.join(_TABLE)})(?=\s|$)")
# Redis 6.2 wraps the error of a command in a script into another one: ``… @user_script: 9: -OOM command …``.
_WRAPPED = re.compile(rf"Error running script .*?@user_script: ?\d+: -?{_CODE.pattern}")
_DENIED = ("ACL failure in script", "user executing the script")  # NOPERM in the words of Redis and of Valkey
_CROWDED = "max number of clients"


def code_of(error: BaseException) -> str:
    """Return the code of an error reply; empty if there was no reply, or none with a known code."""
    for kind, code in _CLASSES:
        if isinstance(error, kind):
            return code
    if not isinstance(error, ResponseError | Disconnected):
        return ""
    words = str(error)
    if _CROWDED in words:
        return "MAXCLIENTS"
    if isinstance(error, Disconnected):
        return ""
    if any(denied in words for denied in _DENIED):
        return "NOPERM"
    found = _CODE.match(words) or _WRAPPED.search(words)
    return found[1] if found else ""


def kind_of(error: BaseException) -> ErrorKind:
    """Return what to do about an error reply."""
    return _TABLE[code][0] if (code := code_of(error)) else ErrorKind.FAILED


def may_be_elsewhere(error: BaseException) -> bool:
    """Return whether another server may take the writes now: this one says so, or did not reply."""
    code = code_of(error)
    return (
        (not code and not isinstance(error, ResponseError))
        or code in ("CLUSTERDOWN", "MASTERDOWN")
        or kind_of(error) is ErrorKind.ELSEWHERE
    )


def refused(error: BaseException, *, known: bool) -> Exception:
    """Return the error for a refused call; a denied login is a ConfigError until a call succeeded."""
    code = code_of(error)
    if not code:
        return StoreError(
            f"The server failed, perhaps after a part of the call: {error}; check what is stored before repeating it with the same ids"
        )
    kind, advice = _TABLE[code]
    words = (
        f"{advice}; nothing was written ({error})"  # a command that is refused is the first of its script that writes
    )
    if code == "OOM":
        return StoreFull(words)
    if kind is ErrorKind.LOGIN and not known:
        return ConfigError(words)
    return StoreUnavailable(words)


def not_reached(error: BaseException) -> NotReached:
    """Return the error for a connection that could not be made."""
    return NotReached(
        f"The server was not reached: {str(error) or type(error).__name__}; is it running, and is the address right?"
    )


def broken(error: BaseException, *, writes: bool) -> StoreError:
    """Return the error for a connection that broke between request and reply."""
    what = str(error) or type(error).__name__
    if writes:
        return OutcomeUnknown(f"The connection broke before the answer ({what}): repeat the call with the same ids")
    return StoreUnavailable(f"The connection broke before the answer ({what}): repeat the call")
