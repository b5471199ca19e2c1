"""``app.dead``: find dead jobs as letters, group them by their error, replay and drop them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

import msgspec

from packhorse.bulk.bulk import BulkRun
from packhorse.dead_letters.consumer import CURSORS
from packhorse.dead_letters.edited import EditedReplay, preview, replacement, replacement_id
from packhorse.dead_letters.groups import GROUPS, ErrorGroup, GroupCounter, by_fingerprint, group_of, grown
from packhorse.dead_letters.letter import DeadLetter, letter_of
from packhorse.dead_letters.seen import SeenMarks
from packhorse.errors import EmptyFilter, InvalidOption, JobNotFound
from packhorse.jobs.bulk_action import batches
from packhorse.jobs.options import check_names
from packhorse.jobs.search import Search
from packhorse.model import limits
from packhorse.model.death import Death
from packhorse.model.job import State, StoredJob
from packhorse.model.page import Filter, Page

if TYPE_CHECKING:
    from packhorse.bulk.bulk import Bulk
    from packhorse.jobs.client import Client
    from packhorse.jobs.registry import AppRegistry

MAX_GROUPS = 1000


class DeadFilters(TypedDict, total=False):
    """Which dead jobs: filters as in ``app.find``; ``group`` is an error group or its fingerprint."""

    queue: str | None
    task: str | None
    reason: str | None
    key: str | None
    tenant: str | None
    header: tuple[str, Any] | None
    error: str | None
    group: ErrorGroup | str | None
    enqueued_after: datetime | None


class DeadSelection(DeadFilters, total=False):
    """Which dead jobs an action is for: filters, or ``all`` of them; at most ``limit``."""

    all: bool
    limit: int | None


class DeadJobs:
    """The dead jobs of an app."""

    def __init__(self, client: "Client", registry: "AppRegistry", bulk: "Bulk", seen: SeenMarks) -> None:
        self._client, self._registry, self._bulk, self.seen = client, registry, bulk, seen

    # -- looking

    async def find(
        self, *, limit: int = 100, cursor: str | None = None, **filters: Unpack[DeadFilters]
    ) -> Page[DeadLetter]:
        """Find a page of dead letters, newest first. A page may be short: there are more as long as it has a cursor."""
        check_names(filters, DeadFilters.__annotations__)
        wanted = Search(state="dead", **_plain(filters))
        page = await wanted.page(self._client, limit, cursor)
        await self.seen.now(job.queue for job in page.items)
        return Page(tuple(letter_of(self._client, job.stored) for job in page.items), page.cursor)

    async def get(self, id: str) -> DeadLetter:
        """Read the letter of a dead job, by its id or its chosen id."""
        stored = await self._dead(id)
        await self.seen.now([stored.queue])
        return letter_of(self._client, stored)

    async def groups(self) -> list[ErrorGroup]:
        """Give the groups of errors that killed jobs, at most 1,000, the newest death first.

        Deaths are counted where an app has a handler of dead letters or alerts. If none ever had, the groups are made of
        the newest 1,000 dead jobs and are not ``exact``.
        """
        store = await self._client.store()
        [counted] = await store.records.get(CURSORS, [GroupCounter.name])
        if counted is None:
            page = await store.jobs.find(Filter(state=State.DEAD), limit=limits.LOOKED_AT, bodies=False)
            deaths = [Death(job, job.since) for job in page.items if not job.queue.startswith(limits.RESERVED)]
            found = [grown(None, some, exact=False) for some in by_fingerprint(deaths).values()]
        else:
            found, cursor = [], None
            while len(found) < MAX_GROUPS:
                records = await store.records.find(GROUPS, limit=limits.ITEMS, cursor=cursor)
                found += map(group_of, records.items)
                if (cursor := records.cursor) is None:
                    break
        return sorted(found, key=lambda group: group.last_died_at, reverse=True)

    # -- acting

    @overload
    async def replay(self, ids: str, *, arguments: Mapping[str, Any], dry_run: bool = False) -> EditedReplay: ...
    @overload
    async def replay(
        self, ids: str | Sequence[str] | None = None, *, dry_run: bool = False, **chosen: Unpack[DeadSelection]
    ) -> BulkRun: ...
    async def replay(
        self,
        ids: str | Sequence[str] | None = None,
        *,
        arguments: Mapping[str, Any] | None = None,
        dry_run: bool = False,
        **chosen: Unpack[DeadSelection],
    ) -> BulkRun | EditedReplay:
        """Run dead jobs again, with all their attempts: those with these ids, or all that filters select.

        With ``arguments``, one job is replaced by a new one with these arguments and the header ``replay_of``. More than
        1,000 jobs are left to a job of Packhorse's own. A dry run changes nothing.
        """
        if arguments is not None:
            if not isinstance(ids, str) or chosen:
                raise InvalidOption("arguments", dict(arguments), "give the id of one job with them, and no filter")
            return await self._replace(ids, arguments, dry_run=dry_run)
        if ids is None:
            return await self._bulk.replay(state="dead", dry_run=dry_run, **_selected(chosen))
        texts = _texts(ids, chosen)
        return await self._bulk.replay(
            ids=texts if dry_run else await self.without_replaced(texts), state="dead", dry_run=dry_run
        )

    async def drop(
        self, ids: str | Sequence[str] | None = None, *, dry_run: bool = False, **chosen: Unpack[DeadSelection]
    ) -> BulkRun:
        """Remove dead jobs for good: those with these ids, or all that filters select. A dry run changes nothing."""
        if ids is None:
            return await self._bulk.drop(state="dead", dry_run=dry_run, **_selected(chosen))
        return await self._bulk.drop(ids=_texts(ids, chosen), state="dead", dry_run=dry_run)

    # -- inside

    async def _dead(self, id: str) -> StoredJob:
        [stored] = await self._client.get([self._client.job_id(id)])
        if stored is None:
            raise JobNotFound(id)
        if stored.state is not State.DEAD:
            raise InvalidOption("id", id, f"the job is {stored.state}, not dead")
        return stored

    async def _replace(self, id: str, arguments: Mapping[str, Any], *, dry_run: bool) -> EditedReplay:
        stored = await self._dead(id)
        about = preview(self._client, self._registry, stored, arguments)
        if dry_run:
            return about
        job = replacement(self._client, self._registry, stored, arguments)
        target = f"{about.replaces} as {about.job_id}"
        async with self._client.audit.recorded("replay with other arguments", target=target) as operation:
            jobs = (await self._client.store()).jobs
            # The new job first: if this process dies between the two calls, the dead job is still there, and the same
            # call again finds the new one and goes on.
            [receipt] = await jobs.enqueue([job])
            await jobs.drop([stored.id])
            operation.count = 1
        first = None if receipt.created else (await jobs.get([receipt.id]))[0]
        if first is not None:  # an earlier call had come that far, and with its arguments the job may have run
            about = msgspec.structs.replace(about, arguments=self._client.builder.open_payload(first, dict[str, Any]))
        return msgspec.structs.replace(about, done=True)

    async def without_replaced(self, texts: Sequence[str]) -> list[str]:
        """Drop jobs that were replaced by a process that died before it dropped them, and give the others."""
        jobs, ids = (await self._client.store()).jobs, {self._client.job_id(text): text for text in texts}
        for some in batches([*ids]):
            dead = [job for job in await jobs.get(some, bodies=False) if job is not None and job.state is State.DEAD]
            there = await jobs.get([replacement_id(self._client, job) for job in dead], bodies=False) if dead else []
            replaced = [job.id for job, new in zip(dead, there, strict=True) if new is not None]
            if replaced:
                await jobs.drop(replaced)
            for job in replaced:
                del ids[job]
        return list(ids.values())


def _plain(filters: DeadFilters) -> dict[str, Any]:
    """Give the filters that say something, with the group by its fingerprint."""
    named = {name: value for name, value in filters.items() if value is not None}
    group = named.get("group")
    return named | ({"group": group.fingerprint} if isinstance(group, ErrorGroup) else {})


def _selected(chosen: DeadSelection) -> dict[str, Any]:
    """Give the options of a bulk action on all dead jobs that are selected; nothing selected is refused there."""
    check_names(chosen, DeadSelection.__annotations__)
    named = _plain(chosen)
    everything = named.pop("all", False)
    if everything and named.keys() - {"limit"}:
        raise InvalidOption("all", everything, "with all=True, no filter can be given")
    if not everything and not named.keys() - {"limit"}:
        raise EmptyFilter("replay or drop")
    return named


def _texts(ids: str | Sequence[str], chosen: DeadSelection) -> list[str]:
    if chosen:
        raise InvalidOption("ids", ids, "with ids, no filter can be given")
    return [ids] if isinstance(ids, str) else list(ids)
