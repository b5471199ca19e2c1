"""What tests of one kind of store share."""

import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "operate" / "postgresql.md"


@pytest.fixture
async def raw(url: str) -> AsyncIterator[Any]:
    """A connection of the test's own to PostgreSQL."""
    import asyncpg

    connection = await asyncpg.connect(url)
    await connection.set_type_codec("uuid", schema="pg_catalog", format="binary", encoder=bytes, decoder=bytes)
    yield connection
    await connection.close()


@pytest.fixture
async def schema(raw: Any) -> AsyncIterator[str]:
    """The name of a schema that is dropped after the test."""
    name = f"shop_{os.urandom(4).hex()}"
    yield name
    await raw.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE")


@pytest.fixture
async def small(raw: Any, url: str, schema: str) -> AsyncIterator[str]:
    """The address of a role that has what the page on PostgreSQL grants, and nothing else."""
    from packhorse.stores.postgres.store import PostgresStore

    role = f"worker_{schema}"
    owner = PostgresStore(url, namespace=schema)
    await owner.migrate()
    await raw.execute(f"CREATE ROLE {role} LOGIN")
    [text] = re.findall(r"```text\n-- what an app needs\n(.*?)```", PAGE.read_text(), re.DOTALL)
    await raw.execute(
        text.replace("packhorse_app", role).replace("packhorse_owner", "postgres").replace("packhorse", schema)
    )
    yield urlsplit(url)._replace(netloc=urlsplit(url).netloc.replace("postgres@", f"{role}@")).geturl()
    await raw.execute(f"DROP OWNED BY {role} CASCADE; DROP ROLE {role}")
