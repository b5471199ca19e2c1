"""A release that changes a function installs its set beside the one before; each release calls its own."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.releases import Release
from tests.conftest import kinds
from tests.integration import claiming

if "postgres" not in kinds():
    pytest.skip("PostgreSQL is not among the stores to test", allow_module_level=True)

pytestmark = pytest.mark.parametrize("kind", ["postgres"])
LEASE = claiming.LEASE
PATIENCE = 60


class Program:
    """A process of one release that has its store open and claims when it is asked to."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def claim(self) -> str:
        """How long the lease of a claim lasts, or the error that the claim met."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(b"claim\n")
        return (await asyncio.wait_for(stdout.readline(), PATIENCE)).decode().strip()

    async def stop(self) -> None:
        await self._process.communicate(b"")


@pytest.fixture
async def start(small: str, schema: str) -> AsyncIterator[Callable[[Release], Any]]:
    """Starts programs of a release under the role of an app, and stops them after the test."""
    started: list[Program] = []

    async def start(release: Release) -> Program:
        started.append(Program(await release.start(Path(claiming.__file__), small, schema)))
        return started[-1]

    yield start
    for program in started:
        await program.stop()


def release(folder: Path, number: int) -> Release:
    """A release whose leases last as many times as long as its set has a number."""
    made = Release(folder / f"release {number}")
    if number > 1:
        made.change_a_function(number, "exchange/parts/claim.sql", "a_now + a_lease", f"a_now + {number} * a_lease")
    return made


async def installed(raw: Any, schema: str) -> set[str]:
    """The prefixes of the functions and types in the schema."""
    rows = await raw.fetch(
        "SELECT substring(name FROM '^f[0-9]+_') FROM ("
        " SELECT proname AS name FROM pg_proc WHERE pronamespace = to_regnamespace($1)"
        " UNION ALL SELECT typname FROM pg_type WHERE typnamespace = to_regnamespace($1) AND typtype = 'c'"
        ") AS named WHERE name ~ '^f[0-9]+_'",
        schema,
    )
    return {row[0] for row in rows}


async def test_old_code_goes_on_with_its_set_beside_new_code_with_the_next(start, raw, url, schema, tmp_path):
    first, second, third = (release(tmp_path, number) for number in (1, 2, 3))
    old = await start(first)
    assert await old.claim() == f"{LEASE}"

    assert await second.run("migrate", url, schema) == "ok ['functions_2']"
    new = await start(second)
    for _ in range(2):
        assert await old.claim() == f"{LEASE}"
        assert await new.claim() == f"{2 * LEASE}"
    assert await raw.fetchval(f"SELECT {schema}.enqueue('greet')") is not None
    assert await installed(raw, schema) == {"f1_", "f2_"}
    back = await start(first)  # a worker that is restarted in the middle of a rollout
    assert [await back.claim(), await old.claim()] == [f"{LEASE}"] * 2

    assert await third.run("migrate", url, schema) == "ok ['functions_3']"
    newest = await start(third)
    assert [await new.claim(), await newest.claim()] == [f"{2 * LEASE}", f"{3 * LEASE}"]
    assert await old.claim() == "SchemaMismatch"  # two releases behind: its functions are gone
    assert await installed(raw, schema) == {"f2_", "f3_"}
    assert await third.run("open", url, schema) == "ok None"
    for verb in ("open", "migrate"):
        assert "only functions of newer releases" in await first.run(verb, url, schema)


async def test_a_release_that_skips_one_keeps_the_set_that_is_in_use(start, raw, url, schema, tmp_path):
    old = await start(release(tmp_path, 1))

    assert await release(tmp_path, 3).run("migrate", url, schema) == "ok ['functions_3']"

    assert await old.claim() == f"{LEASE}"
    assert await installed(raw, schema) == {"f1_", "f3_"}


async def test_a_set_that_was_changed_after_it_was_installed_is_refused(small, url, schema, tmp_path):
    changed = Release(tmp_path / "changed")
    changed.change_a_function(1, "shared/parts/call_time.sql", "-- ", "-- As it were: ")

    assert "functions_1 was changed after it was taken" in await changed.run("open", url, schema)
