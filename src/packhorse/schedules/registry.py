"""All schedules of an app: declared in code, put at run time, looked at, paused, run by hand."""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Unpack

from msgspec.structs import replace

from packhorse.errors import InvalidInput, InvalidSchedule, ScheduleNotFound
from packhorse.jobs.call import Call
from packhorse.jobs.handle import JobHandle
from packhorse.jobs.options import merged
from packhorse.model import limits
from packhorse.model.ids import new_id
from packhorse.model.page import Page
from packhorse.model.record import Record
from packhorse.model.rule import Rule, ticks, zoned
from packhorse.schedules.duties import Asides, fire_due
from packhorse.schedules.firing import UnreadableSchedule, decoded, job_id, job_of, put
from packhorse.schedules.release import rank
from packhorse.schedules.schedule import KIND, Policies, Schedule, ScheduleTarget, checked, names, ruled, time_of
from packhorse.schedules.watching import watch_runs
from packhorse.stores.contract import Store
from packhorse.telemetry.emit import Telemetry
from packhorse.telemetry.names import EventName

if TYPE_CHECKING:
    from packhorse.jobs.client import Client
    from packhorse.jobs.task import Task

TRIES = 100


class Schedules:
    """The schedules of an app, by name."""

    def __init__(
        self, client: "Client", *, release: str | None, telemetry: Telemetry, owner: Callable[[], str]
    ) -> None:
        self._client, self._release, self._telemetry, self._owner = client, release, telemetry, owner
        self._declared: dict[str, Schedule] = {}
        self._aside: Asides = {}

    # -- declaring

    def add(self, task: "Task[..., Any]", rules: tuple[Rule, ...], name: str | None, options: Policies) -> None:
        """Remember what is declared in code; it is stored when a worker starts, or by ``declare``."""
        policies, by_clock = checked(options)
        parameters = task.arguments.names
        if len(parameters) > 1:
            raise InvalidSchedule(task.name, "its function takes more than the tick: give it one parameter, or none")
        what = _what(task.partial(), takes=parameters[0] if parameters else None)
        for each, rule in zip(names(name or task.name, rules), rules, strict=True):
            if each in self._declared:
                raise InvalidSchedule(each, "another schedule has this name: set name=")
            source = task.function.__module__
            self._declared[each] = _made(
                each, ruled(rule, by_clock), what, policies, release=self._release, source=source
            )

    async def declare(self) -> list[str]:
        """Store what is declared in code, and say what was changed.

        What a higher release declared stays as it is. With a release, what a lower one of this app declared and this one
        does not is disabled; without one nothing is.
        """
        changed = await self._declare_all()
        if self._release is not None:
            changed += await self._disable(lambda old: rank(old.release) < rank(self._release))
        return changed

    async def sync(self) -> list[str]:
        """Store what is declared in code, disable what this app declares no more, and say what was changed.

        What a higher release declared stays as it is here too.
        """
        return await self._declare_all() + await self._disable(lambda old: rank(old.release) <= rank(self._release))

    async def _declare_all(self) -> list[str]:
        owner = self._owner()
        declared = [replace(schedule, app=owner) for schedule in self._declared.values()]
        return [schedule.name for schedule in declared if await self._declare(schedule)]

    async def _declare(self, new: Schedule) -> bool:
        def merged(old: Schedule | None) -> Schedule | None:
            if old is None:
                return new
            if rank(old.release) > rank(new.release):
                if old.disabled or not old.same(new):
                    self._telemetry.emit(
                        EventName.DECLARATION_IGNORED, detail=f"{new.name} of {old.release} over {new.release}"
                    )
                return None
            if old.same(new) and not old.disabled and old.release == new.release:
                return None
            return replace(new, paused=old.paused, last=old.last)

        try:
            return await self._change(new.name, merged)
        except InvalidInput as error:  # what is stored cannot be read or used here; all others go on
            self._telemetry.emit(EventName.DUTY_FAILED, detail=f"declare {new.name}", error=error)
            return False

    async def _disable(self, which: Callable[[Schedule], bool]) -> list[str]:
        owner = self._owner()

        def disabled(old: Schedule | None) -> Schedule | None:
            """In the name of this release, so that a lower one does not bring it back."""
            if old is None or old.disabled or old.app != owner or not which(old):
                return None
            return replace(old, disabled=True, release=self._release)

        found = [one.name async for one in self._all() if one.name not in self._declared and disabled(one) is not None]
        return [name for name in found if await self._change(name, disabled)]

    def rule(self, name: str) -> Rule | None:
        """The rule of a schedule that is declared here."""
        declared = self._declared.get(name)
        return None if declared is None else declared.rule

    # -- at run time

    async def put(self, name: str, rule: Rule, call: Call[Any], **options: Unpack[Policies]) -> Schedule:
        """Store a schedule that makes this call, or change the one of this name. What is paused stays so."""
        limits.name("schedule", name)
        policies, by_clock = checked(options)
        what = _what(call)  # its runs are linked to the trace of this call
        what = replace(what, headers={**what.headers, **self._client.builder.trace_headers()})
        made = _made(name, ruled(rule, by_clock), what, policies, release=None, source=None)

        def merged(old: Schedule | None) -> Schedule:
            return made if old is None else replace(made, paused=old.paused, last=old.last)

        await self._change(name, merged)
        return await self.get(name)

    async def pause(self, name: str) -> None:
        """Let it fire no more until it is resumed; ticks meanwhile are not made up for."""
        async with self._client.audit.recorded("schedule pause", target=name):
            await self._must(name, lambda old: replace(old, paused=True))

    async def resume(self, name: str) -> None:
        """Let it fire again, from its next tick on; one that was disabled too."""
        async with self._client.audit.recorded("schedule resume", target=name):
            await self._must(name, lambda old: replace(old, paused=False, disabled=False))

    async def remove(self, name: str) -> bool:
        """Forget it, and say whether it was there; runs that were made go on. One declared in code comes back with the
        next worker that declares it."""
        async with self._client.audit.recorded("schedule remove", target=name) as operation:
            operation.count = await (await self._store()).records.drop(KIND, [name])
        return bool(operation.count)

    # -- looking

    async def get(self, name: str) -> Schedule:
        """One by its name."""
        return decoded(await self._record(name))

    async def find(self, prefix: str = "", *, limit: int = 100, cursor: str | None = None) -> Page[Schedule]:
        """Give schedules whose names begin with a prefix, in the order of their names, page by page.

        A record that cannot be read is left out, with an event.
        """
        page = await (await self._store()).records.find(KIND, prefix=prefix, limit=limit, cursor=cursor)
        return Page(tuple(self._readable(page.items)), page.cursor)

    async def next(self, name: str, count: int = 5) -> list[datetime]:
        """Its next ticks; none while it is paused or disabled."""
        schedule = await self.get(name)
        return [] if schedule.paused or schedule.disabled else schedule.next(count, await self._now())

    # -- running by hand

    async def fire(self) -> int:
        """Fire what is due at this moment, as every worker does all the time, and say how many ticks."""
        return await fire_due(self._client, await self._store(), self._telemetry, self._aside)

    async def watch(self) -> None:
        """Look whether runs end as expected, as every worker does now and then."""
        await watch_runs(await self._store(), self._telemetry)

    async def run(self, name: str, *, at: datetime | None = None) -> JobHandle[Any]:
        """Run it once more, for this logical time or for now, whatever its rule says."""
        async with self._client.audit.recorded("schedule run", target=name):
            schedule = await self.get(name)
            tick = await self._now() if at is None else zoned("at", at)
            made = schedule.tick(tick, schedule.before(tick))
            job = job_of(self._client, schedule, made, id=new_id(), overlap="allow")
            [receipt] = await self._client.send([job])
        return JobHandle(self._client, receipt.id, created=receipt.created)

    async def backfill(self, name: str, begin: datetime, end: datetime) -> int:
        """Make the runs of all ticks between two times (the first included, the last not) that were not made, one after
        the other; says how many. Ticks that are still to come are left to come."""
        async with self._client.audit.recorded("schedule backfill", target=name) as operation:
            operation.count = await self._backfill(name, begin, end)
        return operation.count

    async def _backfill(self, name: str, begin: datetime, end: datetime) -> int:
        schedule, made = await self.get(name), 0
        if zoned("end", end) <= zoned("begin", begin):
            raise InvalidSchedule(f"end={end}", "it is not after the begin")
        batch, previous = [], schedule.before(zoned("begin", begin))
        for at in _within(schedule, begin, end, await self._now()):
            id = job_id(self._client.builder.namespace, name, at)  # noqa: A001
            batch.append(job_of(self._client, schedule, schedule.tick(at, previous), id=id, overlap="queue"))
            previous = at
            if len(batch) == limits.ITEMS:
                made += sum(receipt.created for receipt in await self._client.send(batch))
                batch = []
        return made + (sum(receipt.created for receipt in await self._client.send(batch)) if batch else 0)

    # -- inside

    async def _store(self) -> Store:
        return await self._client.store()

    async def _now(self) -> datetime:
        return time_of(await (await self._store()).ping())

    async def _record(self, name: str) -> Record:
        [record] = await (await self._store()).records.get(KIND, [name])
        if record is None:
            raise ScheduleNotFound(name)
        return record

    def _readable(self, records: Iterable[Record]) -> Iterator[Schedule]:
        for record in records:
            try:
                yield decoded(record)
            except UnreadableSchedule as error:
                self._telemetry.emit(EventName.DUTY_FAILED, detail=f"read {record.key}", error=error)

    async def _all(self) -> Any:
        cursor: str | None = None
        while True:
            page = await self.find(limit=limits.ITEMS, cursor=cursor)
            for schedule in page.items:
                yield schedule
            cursor = page.cursor
            if cursor is None:
                return

    async def _must(self, name: str, change: Callable[[Schedule], Schedule]) -> None:
        await self._record(name)
        await self._change(name, lambda old: None if old is None else change(old))

    async def _change(self, name: str, change: Callable[[Schedule | None], Schedule | None]) -> bool:
        """Write what a function makes of a schedule, again if someone was faster; it says None to leave it."""
        records = (await self._store()).records
        for _ in range(TRIES):
            [record] = await records.get(KIND, [name])
            old = None if record is None else decoded(record)
            new = change(old)
            if new is None or new == old:
                return False
            now = await self._now()
            due = new.due(now)
            if record is not None and old is not None and due:
                due = _kept(record.due, old, new, now) or due
            [version] = await records.put([put(new, due=due, expect=0 if record is None else record.version)])
            if version is not None:
                return True
        raise InvalidSchedule(name, "other processes keep changing it: try again later")


def _made(name: str, rule: Rule, what: ScheduleTarget, policies: dict[str, Any], **about: Any) -> Schedule:
    if policies["overlap"] == "queue" and what.key is not None:
        raise InvalidSchedule(name, 'overlap="queue" and a key of its own cannot be combined')
    return Schedule(name=name, rule=rule, what=what, **policies, **about)


def _what(call: Call[Any], takes: str | None = None) -> ScheduleTarget:
    target, options = call.target, call.options.over(call.target.call_options)
    if options.id is not None or options.unique is not None or options.delay or options.at:
        raise InvalidSchedule(target.name, "the schedule itself sets id, unique, delay and at: leave them out")
    named = {name: getattr(options, name) for name in ("queue", "key", "tenant", "user", "correlation_id")}
    priority = merged(options.job, target.options).priority  # the worker that fires it may not know the task
    return ScheduleTarget(
        task=target.name,
        payload=call.payload.decode(),
        takes=takes,
        headers=dict(options.headers),
        job=options.job if priority is None else replace(options.job, priority=priority),
        **named,
    )


def _kept(due: int, old: Schedule, new: Schedule, now: datetime) -> int:
    """The moment it was to be looked at, so that a change forgets no tick that is due and was not fired yet; 0 if there
    is no such tick any more."""
    if not due or (old.rule, old.start, old.end) == (new.rule, new.start, new.end):
        return due
    tick = time_of(due)
    return due if tick <= now and new.after(tick - datetime.resolution) == tick else 0


def _within(schedule: Schedule, begin: datetime, end: datetime, now: datetime) -> Iterable[datetime]:
    last = min(end - datetime.resolution, now)
    if schedule.end is not None:
        last = min(last, schedule.end)
    first = begin if schedule.start is None else max(begin, schedule.start)
    return ticks(schedule.rule, first - datetime.resolution, last)
