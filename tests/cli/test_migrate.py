"""packhorse migrate: up, status, sql."""

import asyncio
import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from packhorse.model.ids import new_token
from tests.cli.scene import Scene
from tests.cli.test_doctor import found
from tests.conformance.releases import Release
from tests.conftest import address, kinds

STORES = ("sqlite", "redis", "postgres")


@pytest.fixture(params=[kind for kind in kinds() if kind in STORES])
def bare(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    """A place without a layout."""
    url, name = address(request.param, tmp_path), f"bare_{new_token().hex()[:12]}"
    made = Scene(tmp_path, PACKHORSE_URL=url, PACKHORSE_NAMESPACE=name)
    made.url, made.namespace = url, name
    yield made
    made.end()
    if request.param == "postgres":
        asyncio.run(by_hand(made, f"DROP SCHEMA IF EXISTS {name} CASCADE"))


async def by_hand(scene: Scene, script: str) -> None:
    """Run what was printed as somebody with the rights would; Redis has nothing to run."""
    if scene.url.startswith("sqlite"):
        with contextlib.closing(sqlite3.connect(scene.folder / "packhorse.db")) as file:
            file.executescript(script)
    elif scene.url.startswith("postgres"):
        import asyncpg

        connection = await asyncpg.connect(scene.url)
        await connection.execute(script)
        await connection.close()
    else:
        assert (await scene.run("migrate", "up")).code == 0


async def test_the_layout_is_brought_up_to_date_once(bare: Scene):
    before, up, again, after, ls = await bare.each(
        "migrate status --json", "migrate up --json", "migrate up", "migrate status --json", "jobs ls"
    )

    steps = [step["step"] for step in before.json]
    assert (before.code, {step["state"] for step in before.json}) == (1, {"pending"})
    assert up.json == {"taken": steps}
    assert again.out == "The layout is up to date.\n"
    assert (after.code, {step["state"] for step in after.json}) == (0, {"taken"})
    assert ls.out == "No job matches.\n"


async def test_what_is_printed_makes_the_layout_when_it_is_run_by_hand(bare: Scene):
    printed, unchanged = await bare.each("migrate sql", "migrate status --json")

    await by_hand(bare, printed.out)
    status, left, everything, ls = await bare.each("migrate status", "migrate sql", "migrate sql --all", "jobs ls")

    assert {step["state"] for step in unchanged.json} == {"pending"}
    assert (status.code, ls.code) == (0, 0)
    assert left.out.count("\n-- step") == 0
    assert everything.out.count("\n-- step") == len(unchanged.json) == printed.out.count("\n-- step")


async def test_newer_steps_are_shown_and_only_incompatible_ones_are_a_fault(bare: Scene):
    later, last = Release(bare.folder / "later"), Release(bare.folder / "last")
    for release in (later, last):
        release.add_a_step(compatible=True)
    last.add_a_step(compatible=False)

    assert "9999_later" in await later.run("migrate", bare.url, bare.namespace)
    status, doctor, ls = await bare.each("migrate status", "doctor --json", "jobs ls")
    assert (await last.run("migrate", bare.url, bare.namespace)) == "ok ['9999_other']"
    refused, ill, no_ls = await bare.each("migrate status", "doctor --json", "jobs ls")

    assert (status.code, status.out.splitlines()[-1].split()) == (0, ["9999_later", "unknown", "work", "with", "it"])
    assert (refused.code, refused.out.splitlines()[-1].split()) == (1, ["9999_other", "unknown", "refuse", "it"])
    words = "has 9999_later, of a newer release, compatible with this one"
    assert found(doctor)["layout"] == ("note", words, "upgrade Packhorse here when the rollout goes on")
    assert found(ill)["layout"][0] == "bad"
    assert (ls.code, no_ls.code) == (0, 4)


async def test_a_look_makes_no_file(tmp_path: Path):
    shell = Scene(tmp_path, PACKHORSE_URL=f"sqlite:///{tmp_path}/none.db")

    await shell.each("migrate status", "migrate sql", "doctor")

    assert list(tmp_path.iterdir()) == []


async def test_a_store_that_is_down_is_printed_to_be_down(tmp_path: Path):
    shell = Scene(tmp_path)

    runs = await shell.each(
        *(f"migrate {verb} --url redis://127.0.0.1:1" for verb in ("up", "status", "sql")),
        "migrate status --url postgresql://127.0.0.1:1/x",
    )

    assert [run.code for run in runs] == [4] * 4
    assert all("cannot be used" in run.err and "Check: does the server run" in run.err for run in runs)
