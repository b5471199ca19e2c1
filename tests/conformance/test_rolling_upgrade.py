"""A rolling upgrade: the layout is brought forward under workers of the release before, then both releases work and restart."""

import asyncio
import json
import os
from collections import Counter
from pathlib import Path

import pytest

from tests.conformance import rolling
from tests.conformance.releases import Release
from tests.conftest import kinds

JOBS = 20_000 if os.environ.get("PACKHORSE_TEST_LONG") else 150  # of each release at each stage
PATIENCE = 60 + JOBS / 50


def reported(ledger: Path) -> list[str]:
    return ledger.read_text().split() if ledger.exists() else []


async def more(fleet: list[asyncio.subprocess.Process], *ledgers: Path) -> None:
    """Wait until so many more jobs were acknowledged in each."""
    goals = [len(reported(ledger)) + JOBS for ledger in ledgers]
    async with asyncio.timeout(PATIENCE):
        while any(len(reported(ledger)) < goal for ledger, goal in zip(ledgers, goals, strict=True)):
            assert not any(process.returncode for process in fleet)
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("kind", [kind for kind in kinds() if kind in ("sqlite", "redis", "postgres")])
async def test_an_older_release_loses_nothing_while_the_layout_is_brought_forward(place, tmp_path: Path):
    old, later, last = (Release(tmp_path / name) for name in ("old", "later", "last"))
    later.widen()
    last.widen()
    last.add_a_step()
    program, ledgers = Path(rolling.__file__), (tmp_path / "by old", tmp_path / "by later")
    assert (await old.run("migrate", *place)).startswith("ok")
    fleet = [await old.start(program, *place, str(ledgers[0]))]
    try:
        await more(fleet, ledgers[0])
        assert "9999_later" in await later.run("migrate", *place)
        fleet.append(await later.start(program, *place, str(ledgers[1])))
        await more(fleet, *ledgers)
        await fleet[0].communicate(b"stop\n")
        await more(fleet, ledgers[1])
        assert await old.run("migrate", *place) == "ok []"
        fleet.append(await old.start(program, *place, str(ledgers[0])))  # a worker that comes back in the middle
        await more(fleet, *ledgers)
        await fleet[2].communicate(b"stop\n")
        given, _ = await asyncio.wait_for(fleet[1].communicate(b"finish\n"), PATIENCE)
    finally:
        for process in fleet:
            if process.returncode is None:
                process.kill()
                await process.wait()

    acknowledged = reported(ledgers[0]) + reported(ledgers[1])
    assert [process.returncode for process in fleet] == [0, 0, 0]
    assert len(acknowledged) >= 7 * JOBS
    assert Counter(json.loads(given)) == Counter(acknowledged)  # each ended once: none is lost, none was settled twice
    assert (await old.run("open", *place)).startswith("ok")
    assert (await last.run("migrate", *place)) == "ok ['9999_other']"
    assert (await old.run("open", *place)).startswith("SchemaMismatch")  # its layout is no longer theirs
