"""What a bulk action is to do, and how much it has done."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import msgspec

from packhorse.audit.actor import Actor
from packhorse.jobs.bulk_action import ACTIONS, BulkAction
from packhorse.jobs.search import Search
from packhorse.model.job import State


class BulkOrder(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which action to do to which jobs; also the argument of the job that does it."""

    action: str
    search: Search = Search()
    limit: int | None = None
    until: int
    """Jobs that were enqueued after this moment of the store are left alone."""
    actor: Actor

    @property
    def bulk_action(self) -> BulkAction:
        """The action itself."""
        return ACTIONS[self.action]

    @property
    def states(self) -> frozenset[State]:
        """The states of jobs that it is for."""
        return frozenset(State(str(one.state)) for one in self.bulk_action.searches(self.search))

    @property
    def filter(self) -> Mapping[str, Any]:
        """The filters as the audit shows them; none stands for all jobs."""
        named = {field.name: getattr(self.search, field.name) for field in fields(self.search)} | {"limit": self.limit}
        return {name: value for name, value in named.items() if value is not None}


class BulkCounts(msgspec.Struct, frozen=True):
    """How many jobs a bulk action came to, and how many of them it changed."""

    seen: int = 0
    """Jobs that were selected when the action came to them."""
    changed: int = 0
    """Those of them that it changed. The others were changed by something else first, or hold a unique key that is taken."""

    @property
    def skipped(self) -> int:
        """Jobs that were selected and stayed as they were."""
        return self.seen - self.changed

    def plus(self, seen: int, changed: int) -> "BulkCounts":
        """These counts and those of another page."""
        return BulkCounts(self.seen + seen, self.changed + changed)
