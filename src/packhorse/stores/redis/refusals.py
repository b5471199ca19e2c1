"""What the server's refusals and the driver's errors mean for a caller; the only place that translates them."""

import re

from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ClusterDownError,
    MasterDownError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)

from packhorse.errors import OutcomeUnknown, StoreError, StoreFull, StoreUnavailable

_CLASSES: tuple[tuple[type[RedisError], str], ...] = (
    (NoScriptError, "NOSCRIPT"),
    (OutOfMemoryError, "OOM"),
    (ReadOnlyError, "READONLY"),
    (BusyLoadingError, "LOADING"),
    (MasterDownError, "MASTERDOWN"),
    (ClusterDownError, "CLUSTERDOWN"),
    (TryAgainError, "TRYAGAIN"),
    (AuthenticationError, "NOAUTH"),
    (NoPermissionError, "NOPERM"),
)
# Redis 6.2 wraps what a command in a script was told into an error of its own, the code in the middle.
_CODE = re.compile(r"(?:^|[\s-])(OOM|READONLY|MISCONF|NOREPLICAS|BUSY|LOADING|MASTERDOWN|NOPERM|MOVED)(?=\s)")

PASSING = frozenset(("LOADING", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN"))
ELSEWHERE = frozenset(("READONLY", "MOVED"))
_ADVICE = {
    "OOM": "The server has no room (maxmemory): nothing was written; raise maxmemory, or let workers and prune drain it",
    "READONLY": "This server is a read-only replica: nothing was written; the next call connects anew",
    "MISCONF": "The server refuses writes because it cannot save to disk: nothing was written; free its disk",
    "NOREPLICAS": "The server refuses writes without enough replicas: nothing was written; bring the replicas back",
    "NOAUTH": "The server refuses this login: check user and password in the address",
    "NOPERM": "The server's user lacks a permission: allow it all keys, channels and commands of the namespace",
    "MOVED": "This is one node of a cluster that serves another slot: use the address of the node with the namespace",
}


def code_of(error: BaseException) -> str:
    """The code in which a refusal begins, or nothing."""
    for kind, code in _CLASSES:
        if isinstance(error, kind):
            return code
    if isinstance(error, ResponseError) and (found := _CODE.search(str(error))):
        return found[1]
    return ""


def refused(error: BaseException) -> StoreError:
    """The server answered and said no: a script writes nothing before its first refusal, so nothing was written."""
    code = code_of(error)
    if code == "OOM":
        return StoreFull(_ADVICE[code])
    advice = _ADVICE.get(code, "The server refused the call, nothing was written" if code in PASSING else "")
    return StoreUnavailable(f"{advice}: {error}" if advice else f"The server refused the call: {error}")


def not_reached(error: BaseException) -> StoreUnavailable:
    """No connection was made, so nothing was asked."""
    if (code := code_of(error)) in _ADVICE:
        return StoreUnavailable(f"{_ADVICE[code]}: {error}")
    return StoreUnavailable(
        f"The server was not reached: {str(error) or type(error).__name__}; is it running, and is the address right?"
    )


def broken(error: BaseException, *, writes: bool) -> StoreError:
    """The connection ended between request and answer."""
    what = str(error) or type(error).__name__
    if writes:
        return OutcomeUnknown(f"The connection broke before the answer ({what}): repeat the call with the same ids")
    return StoreUnavailable(f"The connection broke before the answer ({what}): repeat the call")
