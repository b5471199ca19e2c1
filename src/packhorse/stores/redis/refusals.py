"""What the server's refusals and the driver's errors mean for a caller; the only place that translates them."""

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
    """No connection was made, so nothing was asked."""


class Kind(Enum):
    """What to do about a refusal."""

    PASSING = "ask again a little later"
    ELSEWHERE = "this is not, or no longer, the server to write to: look for it anew"
    SHUT = "the server takes no writes for now"
    LOGIN = "the server does not let this user in, or not do this"
    FAILED = "the call fails, and will again"


# code: kind, what it means and what to do.
_TABLE: dict[str, tuple[Kind, str]] = {
    "NOSCRIPT": (Kind.PASSING, "The server forgot a script: repeat the call"),
    "LOADING": (Kind.PASSING, "The server is still loading its data: repeat the call later"),
    "BUSY": (Kind.PASSING, "The server is busy with somebody's script: repeat the call later"),
    "UNKILLABLE": (Kind.PASSING, "The server is busy with somebody's script: repeat the call later"),
    "TRYAGAIN": (Kind.PASSING, "The slot of the namespace is on its way to another node: repeat the call later"),
    "ASK": (Kind.PASSING, "The slot of the namespace is on its way to another node: repeat the call later"),
    "CLUSTERDOWN": (Kind.PASSING, "The cluster does not serve the slot of the namespace: repeat the call later"),
    "MASTERDOWN": (Kind.PASSING, "This server is a replica that has lost its primary: repeat the call later"),
    "MAXCLIENTS": (Kind.PASSING, "The server has too many clients: raise its maxclients, or close some"),
    "READONLY": (Kind.ELSEWHERE, "This server is a read-only replica; the next call connects anew"),
    "MOVED": (Kind.ELSEWHERE, "Another node of the cluster serves the namespace: use an address redis+cluster://"),
    "UNBLOCKED": (Kind.ELSEWHERE, "The server became a replica; the next call connects anew"),
    "OOM": (Kind.SHUT, "The server has no room (maxmemory): raise maxmemory, or let workers and prune drain it"),
    "MISCONF": (Kind.SHUT, "The server refuses writes because it cannot save to disk: free its disk"),
    "NOREPLICAS": (Kind.SHUT, "The server refuses writes without enough replicas: bring the replicas back"),
    "NOAUTH": (Kind.LOGIN, "The server refuses this login: check user and password in the address"),
    "NOPERM": (Kind.LOGIN, "The server's user lacks a permission: see the rule in docs/operate/redis.md"),
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
# Redis 6.2 wraps what a command in a script was told into an error of its own: ``… @user_script: 9: -OOM command …``.
_WRAPPED = re.compile(rf"Error running script .*?@user_script: ?\d+: -?{_CODE.pattern}")
_DENIED = ("ACL failure in script", "user executing the script")  # NOPERM by other words, each server its own
_CROWDED = "max number of clients"


def code_of(error: BaseException) -> str:
    """The code in which a refusal begins, or nothing: then the server did not answer, or in words of its own."""
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


def kind_of(error: BaseException) -> Kind:
    """What to do about what the server answered."""
    return _TABLE[code][0] if (code := code_of(error)) else Kind.FAILED


def may_be_elsewhere(error: BaseException) -> bool:
    """Whether another server may be the one to write to: this one says so, or said nothing."""
    code = code_of(error)
    return (
        (not code and not isinstance(error, ResponseError))
        or code in ("CLUSTERDOWN", "MASTERDOWN")
        or kind_of(error) is Kind.ELSEWHERE
    )


def refused(error: BaseException, *, known: bool) -> Exception:
    """The server answered and said no. What it says of a login at first is a mistake; later it may be mended."""
    code = code_of(error)
    if not code:
        return StoreError(
            f"The server failed the call, perhaps half way: {error}; look what is stored before you repeat it with the same ids"
        )
    kind, advice = _TABLE[code]
    words = f"{advice}; nothing was written ({error})"  # a script writes nothing before its first refusal
    if code == "OOM":
        return StoreFull(words)
    if kind is Kind.LOGIN and not known:
        return ConfigError(words)
    return StoreUnavailable(words)


def not_reached(error: BaseException) -> NotReached:
    """No connection was made, so nothing was asked."""
    return NotReached(
        f"The server was not reached: {str(error) or type(error).__name__}; is it running, and is the address right?"
    )


def broken(error: BaseException, *, writes: bool) -> StoreError:
    """The connection ended between request and answer."""
    what = str(error) or type(error).__name__
    if writes:
        return OutcomeUnknown(f"The connection broke before the answer ({what}): repeat the call with the same ids")
    return StoreUnavailable(f"The connection broke before the answer ({what}): repeat the call")
