"""The function for other languages refuses what the edge in Python refuses, and answers the job that is there."""

import json
from typing import Any

import asyncpg
import pytest

from packhorse.errors import InvalidName
from packhorse.model import limits
from tests.conftest import kinds
from tests.factories import found
from tests.integration import texts

if "postgres" not in kinds():
    pytest.skip("PostgreSQL is not among the stores to test", allow_module_level=True)

pytestmark = pytest.mark.parametrize("kind", ["postgres"])
NAMED = ("queue", "key", "tenant", "user", "correlation_id", "id", "unique")


def refused(text: str) -> bool:
    try:
        limits.name("name", text)
    except InvalidName:
        return True
    return False


@pytest.mark.parametrize("option", NAMED)
async def test_a_name_is_refused_exactly_if_the_edge_in_python_refuses_it(store: Any, raw: Any, option: str):
    different = []
    for text in ("", "x" * 256, *(f"k{chr(point)}a" for point in (*range(0xA1), 0x2028, 0xFEFF))):
        value: Any = {"key": text} if option == "unique" else text
        try:
            await raw.fetchval(
                f"SELECT {store._layout.schema}.enqueue('t', '{{}}', $1::text::json)", json.dumps({option: value})
            )
        except asyncpg.PostgresError:
            taken = False
        else:
            taken = True
        if taken == refused(text):
            different.append(text)

    assert different == []


async def test_with_a_held_unique_key_the_job_that_holds_it_is_answered(store: Any, raw: Any):
    options = json.dumps({"unique": {"key": "k"}})
    call = f"SELECT {store._layout.schema}.enqueue('t', '{{}}', $1::text::json)"

    first, second = await raw.fetchval(call, options), await raw.fetchval(call, options)

    assert first == second
    assert [job.id for job in await found(store)] == [first]


@pytest.mark.parametrize("args", [text for text in texts.REFUSED if b"\0" not in text], ids=ascii)
async def test_arguments_that_python_would_refuse_are_refused(store: Any, raw: Any, args: bytes):
    with pytest.raises(asyncpg.PostgresError):
        await raw.fetchval(
            f"SELECT {store._layout.schema}.enqueue('t', convert_from($1::bytea, 'UTF8')::json, '{{}}')", args
        )

    assert await store.jobs.count() == {}


@pytest.mark.parametrize("args", texts.TAKEN, ids=ascii)
async def test_arguments_are_taken_and_kept_byte_for_byte(store: Any, raw: Any, args: bytes):
    await raw.fetchval(
        f"SELECT {store._layout.schema}.enqueue('t', convert_from($1::bytea, 'UTF8')::json, '{{}}')", args
    )

    assert [job.payload for job in await found(store)] == [args]


@pytest.mark.parametrize(("task", "options"), texts.RESERVED)
async def test_names_that_are_kept_for_packhorse_are_refused(store: Any, raw: Any, task: str, options: str):
    with pytest.raises(asyncpg.PostgresError, match=r'begin with "packhorse\." are kept for Packhorse itself'):
        await raw.fetchval(f"SELECT {store._layout.schema}.enqueue($1, '{{}}', $2::text::json)", task, options)

    assert await store.jobs.count() == {}


async def test_names_that_only_resemble_them_are_taken(store: Any, raw: Any):
    for task, options in texts.NOT_RESERVED:
        await raw.fetchval(f"SELECT {store._layout.schema}.enqueue($1, '{{}}', $2::text::json)", task, options)

    assert {job.task for job in await found(store)} == {task for task, _ in texts.NOT_RESERVED}
