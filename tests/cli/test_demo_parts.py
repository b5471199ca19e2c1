"""A scene that fails is seen to fail: in the player, in the summary, in what programs read."""

import asyncio
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest
from rich.console import Console

from docs.gen import pictures
from packhorse import App
from packhorse.cli.command import CliError
from packhorse_demo import player, scenes, workers
from packhorse_demo.player import Player
from packhorse_demo.scene import Check, Scene, Stage, equal
from packhorse_demo.screen import TextView
from packhorse_demo.summary import DemoSummary, EventCounts, SceneResult, drawn, latest
from packhorse_demo.workers import WorkerProcesses

IMAGES = Path(__file__).parents[2] / "docs" / "images"
GOOD = SceneResult("orders", "orders come in", 0.5, (Check("2 orders: all done", True, "2 done"),))
BAD = SceneResult("orders", "orders come in", 0.5, (Check("2 orders: all done", False, "1 done"),))


class Wrong(Scene):
    """Finds less than it wants."""

    turn, name, shows = 1, "wrong", "a check that does not hold"

    async def play(self, stage: Stage) -> None:
        await stage.app.queue("default").enqueue("nobody-runs-this")

    async def check(self, stage: Stage) -> list[Check]:
        return [stage.once("jobs", await stage.jobs(), 2)]


class Broken(Wrong):
    """Raises before its check."""

    async def play(self, stage: Stage) -> None:
        raise ConnectionError("the road is closed")


class Hasty(Wrong):
    """Raises a TimeoutError of its own."""

    async def play(self, stage: Stage) -> None:
        raise TimeoutError("the job has not ended within 1 s")


class Endless(Wrong):
    """Never ends."""

    async def play(self, stage: Stage) -> None:
        await asyncio.Event().wait()


@pytest.fixture
def printed() -> list[str]:
    return []


@pytest.fixture
async def stage(printed: list[str], tmp_path: Path) -> AsyncIterator[Player]:
    """A player on a store in memory, without workers."""
    app = App("sqlite:///:memory:")
    yield Player(app, WorkerProcesses({}, tmp_path / "notes"), TextView(printed.append))
    await app.close()


async def test_a_check_that_does_not_hold_says_what_was_found(stage: Player, printed: list[str]):
    await stage.play(Wrong())

    [result] = stage.results
    assert not result.passed
    assert result.problems == ["2 jobs: all done, each once: 2 enqueued, 0 done, 1 not done, 0 not once"]
    assert f"  FAILED: {result.problems[0]}" in printed
    assert any("default: 1 ready" in line for line in await player.contents(stage.app))


async def test_a_scene_that_breaks_is_a_failure_and_the_next_is_played(stage: Player):
    assert await stage.round([Broken, Wrong], 10)

    assert [result.error for result in stage.results] == ["ConnectionError: the road is closed", None]
    assert not any(result.passed for result in stage.results)


async def test_a_scene_that_does_not_end_is_a_failure(stage: Player, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(player, "SCENE_SECONDS", 0.05)

    await stage.play(Endless())

    assert stage.results[0].error == "did not end within 0.05 seconds"


async def test_what_a_scene_did_not_wait_for_is_reported_in_its_own_words(stage: Player):
    await stage.play(Hasty())

    assert stage.results[0].error == "TimeoutError: the job has not ended within 1 s"


async def test_a_worker_that_hangs_while_it_starts_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "sitecustomize.py").write_text("import os, signal\nos.write(2, b'no coal\\n')\nsignal.pause()\n")
    processes = WorkerProcesses({"PYTHONPATH": str(tmp_path)}, tmp_path / "notes")
    monkeypatch.setattr(workers, "START_SECONDS", 0.5)

    with pytest.raises(CliError, match=r"A worker process of the demo did not start\."):
        await processes.start(2)

    pids = processes.pids
    await processes.close()
    assert len(pids) == 2
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []


async def test_a_round_that_takes_too_long_is_a_failure(stage: Player):
    assert not await stage.round([Endless, Wrong], 0.05)

    assert [(result.name, result.error) for result in stage.results] == [("time", "took more than 0.05 seconds")]


def summary(*scenes: SceneResult, missing: tuple[str, ...] = ()) -> DemoSummary:
    return DemoSummary("SQLite", 2.0, scenes, EventCounts(enqueued=3, done=3), missing)


def test_a_summary_passes_only_if_all_was_played_and_holds():
    assert summary(GOOD, GOOD).passed
    assert not summary(GOOD, BAD).passed
    assert not summary(GOOD, missing=("retries",)).passed
    assert not summary(SceneResult("empty", "no checks", 0.1)).passed
    assert not summary().passed


def test_a_scene_that_failed_once_stays_failed_however_often_it_is_played():
    assert latest([GOOD, BAD, GOOD]) == [BAD]


def test_people_read_what_failed_and_what_is_in_the_store():
    console = Console(record=True, width=100, file=None, quiet=False)
    with console.capture() as printed:
        console.print(drawn(summary(BAD, missing=("retries",)).with_store(["In the store:", "  orders: 1 ready"])))

    text = printed.get()
    assert "FAILED orders: 2 orders: all done: 1 done" in text
    assert "FAILED not run: retries" in text
    assert "orders: 1 ready" in text


def test_programs_read_the_same():
    plain = msgspec.json.decode(msgspec.json.encode(summary(GOOD, BAD).plain()))

    assert list(plain) == ["passed", "jobs_per_second", "store", "seconds", "scenes", "counts", "missing", "in_store"]
    assert (plain["passed"], plain["jobs_per_second"], plain["counts"]["done"]) == (False, 1.5, 3)
    assert [scene["passed"] for scene in plain["scenes"]] == [True, False]
    assert plain["scenes"][1]["checks"] == [{"says": "2 orders: all done", "passed": False, "found": "1 done"}]


def test_a_check_of_equality_says_both_sides():
    assert equal("two", 1, 2) == Check("two", False, "found 1, wanted 2")
    assert equal("two", 2, 2).passed


def test_a_recording_is_a_picture_that_needs_nothing_from_elsewhere(tmp_path: Path):
    pictures.save(tmp_path / "summary.svg", "packhorse demo", drawn(summary(GOOD)))

    picture = (tmp_path / "summary.svg").read_text()
    assert "orders" in picture
    assert "url(http" not in picture
    ElementTree.fromstring(picture)


@pytest.mark.parametrize("name", ["demo", "demo-summary", "jobs", "doctor"])
def test_the_pictures_of_the_docs_are_there_and_small(name: str):
    picture = IMAGES / f"{name}.svg"

    assert picture.stat().st_size < 100_000
    ElementTree.fromstring(picture.read_text())


def test_the_picture_of_the_summary_names_every_scene_in_its_order():
    """``make pictures`` takes it anew."""
    texts = ElementTree.parse(IMAGES / "demo-summary.svg").getroot().itertext()
    found = [text.replace("\u00a0", " ").strip() for text in texts if text.strip()]
    named = [after for sign, after in pairwise(found) if sign == "✓"]

    assert named == [scene.name for scene in scenes.found()]


def test_the_picture_of_the_demo_names_every_scene():
    texts = ElementTree.parse(IMAGES / "demo.svg").getroot().itertext()
    seen = " ".join(text.replace("\u00a0", " ").strip() for text in texts)

    assert [scene.name for scene in scenes.found() if scene.name not in seen] == []
