"""Calls and plans that are stored together, all or none, each with its handle."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Union

from packhorse.errors import InvalidOption
from packhorse.jobs.call import Call, no_call
from packhorse.jobs.portal import PORTAL
from packhorse.model.ids import JobId, chosen, new_ids
from packhorse.model.job import NewJob, Receipt

if TYPE_CHECKING:
    from packhorse.jobs.client import Client
    from packhorse.jobs.plans import Plan

Part = Union[Call[Any], "Plan[Any]"]


class EnqueueRequest:
    """Calls and plans of one ``enqueue``. A plan whose chosen id is stored already is left out as a whole."""

    def __init__(self, client: "Client", parts: Sequence[Part], within: object | None) -> None:
        self._client, self._parts, self._within = client, parts, _only_one(parts, within)
        self._jobs: list[NewJob] = []
        self._ends: list[int] = []  # how many jobs there are up to each part, its own among them
        for part, id in zip(parts, new_ids(len(parts)), strict=True):  # noqa: A001
            if isinstance(part, Call):
                self._jobs.append(client.builder.build(part, id=id))
            elif hasattr(part, "jobs"):  # a plan
                self._jobs += part.jobs()
            else:
                raise no_call(part)
            self._ends.append(len(self._jobs))
        self._heads: list[JobId] = [job.id for job in self._jobs if _chosen_head(job)]

    async def send(self) -> list[Any]:
        """Store the jobs, and give the handle of each part."""
        new = await self._new_jobs() if self._heads else self._jobs
        return self._handles(new, await self._client.send(new, self._within) if new else [])

    def send_blocking(self) -> list[Any]:
        """Store the jobs from code without an event loop, and give the handle of each part."""
        new = PORTAL.run(self._new_jobs()) if self._heads else self._jobs
        return self._handles(new, self._client.send_blocking(new, self._within) if new else [])

    async def _new_jobs(self) -> list[NewJob]:
        """Leave out plans that are stored: jobs of calls added since would run for no parent, or wait for ever."""
        stored = {job.id for job in await self._client.get(self._heads, bodies=False) if job is not None}
        new: list[NewJob] = []
        known = False
        for job in self._jobs:  # the last job of a plan comes before those that it waits for
            known = job.id in stored if job.parent is None else known
            if not known:
                new.append(job)
        return new

    def _handles(self, new: Sequence[NewJob], receipts: Sequence[Receipt]) -> list[Any]:
        """Make the handle of each part; jobs that were left out have not been created."""
        each = iter(zip(new, receipts, strict=True))
        following = next(each, None)
        every: list[Receipt] = []
        for job in self._jobs:
            if following is not None and following[0] is job:
                every.append(following[1])
                following = next(each, None)
            else:
                every.append(Receipt(job.id, False))
        begins = [0, *self._ends][: len(self._parts)]
        return [
            self._client.handle(part, every[begin]) if isinstance(part, Call) else part.handle(every[begin:end])
            for part, begin, end in zip(self._parts, begins, self._ends, strict=True)
        ]


def _chosen_head(job: NewJob) -> bool:
    """Whether it is the last job of a plan, with a chosen id: such a plan may be stored already."""
    return job.children > 0 and job.parent is None and chosen(job.id)


def _only_one(parts: Sequence[Part], within: object | None) -> object | None:
    """The one connection that ``within`` names, here or in the options of calls."""
    given = [within, *(part.options.within for part in parts if isinstance(part, Call))]
    named = [one for one in given if one is not None]
    if any(one is not named[0] for one in named):
        raise InvalidOption("within", named[-1], "what is enqueued together is part of one transaction: give it once")
    return named[0] if named else None
