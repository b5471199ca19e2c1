"""Database connections of Django: closed around attempts where a lost database, or their age, has made them useless."""

import sys
from contextlib import suppress
from typing import Any

DJANGO, ASGIREF = "django.db", "asgiref.sync"


def close_old_connections() -> None:
    """Close connections of this thread that are broken or too old, as Django does around a request.

    Those in a transaction stay: it belongs to a factory or to middleware around the call, and goes on.
    """
    for connection in _connections():
        with suppress(Exception):  # one that cannot be closed costs no attempt
            if not connection.in_atomic_block:
                connection.close_if_unusable_or_obsolete()


def close_broken_connections_of_coroutines() -> None:
    """Close connections that no longer work in the thread that coroutines share: before its next call, and nobody waits.

    Old ones that work stay: another coroutine may be in the middle of reading from one.
    """
    with suppress(Exception):  # the process ends, or asgiref has changed
        sys.modules[ASGIREF].SyncToAsync.single_thread_executor.submit(_close_broken)


def _close_broken() -> None:
    for connection in _connections():
        with suppress(Exception):
            if connection.errors_occurred and not connection.in_atomic_block and not connection.is_usable():
                connection.close()


def _connections() -> list[Any]:
    """The connections that this thread has; none where Django is imported and not set up."""
    with suppress(Exception):
        return list(sys.modules[DJANGO].connections.all(initialized_only=True))
    return []
