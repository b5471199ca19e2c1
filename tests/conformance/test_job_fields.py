"""Every field of a new job is stored, by the short ways as by the long one; fields come from the struct itself."""

from typing import Any

import msgspec
import pytest

from packhorse.model.effect import Enqueue
from packhorse.model.job import NewJob, StoredJob, UniqueKey, all_plain
from packhorse.testing.clock import START_US
from tests.factories import HOUR, MINUTE, new, new_id, one, put_in

FIELDS = {field.name: field for field in msgspec.structs.fields(NewJob)}
CHOSEN = {
    "id": new_id,
    "payload": lambda: b'{"to":"a"}',
    "headers": lambda: b'{"trace":"x"}',
    "parent": new_id,
    "unique": lambda: UniqueKey(new_id().hex()),
    "lane": lambda: new_id().hex(),
    "delay": lambda: MINUTE,
    "at": lambda: START_US + HOUR,
}
BY_TYPE = {int: 7, str: "other", str | None: "other", bytes: b"1", bytes | None: b"1", bool: True}
SHOWN = {"delay": "since", "at": "since"}


def value(name: str) -> Any:
    """A value that is not the default; a field that is added gets one by its type."""
    chosen = CHOSEN[name]() if name in CHOSEN else BY_TYPE[FIELDS[name].type]
    assert chosen != FIELDS[name].default
    return chosen


def job_with(*names: str) -> NewJob:
    return NewJob(**{"task": "work"} | {name: value(name) for name in names})


def expected(name: str, job: NewJob) -> Any:
    if name in SHOWN:
        return max(job.at, START_US + job.delay)
    return job.unique and job.unique.key if name == "unique" else getattr(job, name)


def differences(job: NewJob, stored: StoredJob) -> list[str]:
    """The fields of a job that are not stored as they were given."""
    names = [name for name in FIELDS if name not in SHOWN or not job.children]  # a parent shows since when it waits
    return [name for name in names if getattr(stored, SHOWN.get(name, name), "not shown") != expected(name, job)]


@pytest.mark.parametrize("way", ["alone", "beside a plain one", "as an effect"])
async def test_every_field_of_a_new_job_is_stored(store, clock, way):
    assert clock.now() == START_US
    jobs = [job_with(*names) for names in [*((name,) for name in FIELDS), tuple(FIELDS)]]

    for job in jobs:
        if way == "as an effect":
            await store.jobs.fire([[Enqueue(job)]])
        else:
            await put_in(store, *([job] if way == "alone" else [new(), job]))

    found = [(job, await one(store, job.id)) for job in jobs]
    assert [names for job, stored in found if (names := differences(job, stored))] == []


def test_only_the_fields_that_every_short_way_writes_are_set_in_a_plain_job():
    plain = {"id", "task", "queue", "payload", "headers", "priority", "tenant"}

    assert {name for name in FIELDS if all_plain([new(), job_with(name)])} == plain
