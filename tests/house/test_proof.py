"""The page about proof names tests that exist, and is made of the lines beside it."""

import json
import re
from pathlib import Path

import pytest

from tests.crash import proof
from tests.crash.tally import Tally
from tests.house.test_ledger import ROOT, written

LINES = proof.PAGE.with_suffix(".jsonl")
PAGES = ("operate/proof.md", "concepts/guarantees.md")


@pytest.mark.parametrize("page", PAGES)
def test_every_test_named_on_the_page_exists(page: str):
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)", (ROOT / "docs" / page).read_text())

    assert named
    for path, name in named:
        assert name in written(ROOT / path), f"{path}::{name}"


@pytest.mark.parametrize("shown", proof.SHOWN, ids=lambda shown: shown.test.rpartition("::")[2])
def test_what_a_long_run_tells_of_exists_with_its_sizes(shown: proof.Shown):
    path, _, name = shown.test.partition("::")

    assert name in written(ROOT / path)
    for size in shown.sizes.values():
        assert re.search(rf"\b{size}\b", (ROOT / path).read_text())


def test_the_page_is_made_of_the_lines_beside_it():
    page = proof.PAGE.read_text()

    assert proof.written(page, [json.loads(line) for line in LINES.read_text().splitlines()]) == page


def test_a_run_is_noted_and_what_went_wrong_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PACKHORSE_PROOF", str(tmp_path / "lines"))
    size = {"kills": 10}
    proof.note_tally(Tally("servers killed", jobs=100), "always", "redis", "7.2", 1, True, size)
    proof.note_tally(Tally("servers killed", jobs=9), "always", "redis", "7.2", 2, False, size)
    proof.note_tally(Tally("servers killed", jobs=100, lost=3), "always", "valkey", "9.1", 3, True, size)

    good, bad = [
        proof.row(line) for line in proof.counted(map(json.loads, (tmp_path / "lines").read_text().splitlines()))
    ]

    assert good.startswith(
        "| servers killed | Redis 7.2 | kills: 10 | 100 jobs ended, 0 lost, 0 doubled, 0 stuck | 0 | long, "
    )
    assert good.endswith(f"seed 1 | `{proof.PROGRAMME}` |")
    assert "| Valkey 9.1 | kills: 10 | **FAILED** 100 jobs ended, 3 lost," in bad


def test_what_a_test_counts_is_added_up_until_it_ends():
    test = proof.SHOWN[0].test
    ended = {"test": test, "held": True, "long": False}

    [line] = proof.counted([{"test": test, "facts": {"lost": 1}}, {"test": test, "facts": {"lost": 2}}, ended])

    assert line["facts"] == {"lost": 3}
