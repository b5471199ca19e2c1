"""Migrations: forward only, in order, never changed once taken."""

import hashlib
import sys

import pytest

from packhorse.errors import SchemaMismatch
from packhorse.stores.sql.migrate import Migration, TakenStep, check, migration, migrations, newer, pending

FIRST, SECOND, THIRD = (Migration(name, "", f"sum of {name}") for name in ("0001_a", "0002_b", "0003_c"))
KNOWN = (FIRST, SECOND, THIRD)


def taken(*steps: Migration) -> dict[str, TakenStep]:
    return {step.name: TakenStep(step.checksum, step.compatible) for step in steps}


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package that ships two steps."""
    home = tmp_path / "shipping_two_steps"
    (home / "migrations").mkdir(parents=True)
    (home / "__init__.py").touch()
    (home / "migrations" / "0002_b.sql").write_text("create table {schema}.b (x int);")
    (home / "migrations" / "0001_a.sql").write_text("create schema {schema};")
    (home / "migrations" / "notes.txt").write_text("no step")
    monkeypatch.syspath_prepend(tmp_path)
    yield home.name
    sys.modules.pop(home.name, None)


def test_an_empty_layout_needs_every_step_in_order():
    assert pending(KNOWN, {}) == KNOWN


def test_steps_taken_are_not_taken_again():
    assert pending(KNOWN, taken(FIRST)) == (SECOND, THIRD)
    assert pending(KNOWN, taken(*KNOWN)) == ()


def test_a_layout_of_a_newer_release_is_refused():
    with pytest.raises(SchemaMismatch, match="0004_d"):
        pending(KNOWN, taken(*KNOWN) | {"0004_d": TakenStep("?")})


def test_a_layout_with_compatible_steps_of_a_newer_release_is_accepted():
    there = taken(*KNOWN) | {"0004_d": TakenStep("?", compatible=True)}

    check(KNOWN, there)
    assert newer(KNOWN, there) == ["0004_d"]


def test_one_step_that_is_not_compatible_is_refused_among_others_that_are():
    there = taken(*KNOWN) | {"0004_d": TakenStep("?"), "0005_e": TakenStep("?", compatible=True)}

    with pytest.raises(SchemaMismatch, match="0004_d"):
        check(KNOWN, there)


def test_steps_of_ours_are_still_to_take_beside_compatible_ones_of_a_newer_release():
    there = taken(FIRST, SECOND) | {"0004_d": TakenStep("?", compatible=True)}

    assert pending(KNOWN, there) == (THIRD,)


@pytest.mark.parametrize(
    ("header", "compatible"),
    [("-- compatible: yes", True), ("-- compatible: no", False), ("", False), ("-- compatible: perhaps", False)],
)
def test_the_header_of_a_step_says_whether_it_is_compatible(header, compatible):
    assert migration("0001_a", f"{header}\nselect 1;", "select 1;").compatible is compatible


def test_a_step_changed_after_it_was_taken_is_refused():
    with pytest.raises(SchemaMismatch, match="0002_b"):
        pending(KNOWN, taken(FIRST) | {SECOND.name: TakenStep("another sum")})


def test_a_complete_layout_is_accepted():
    check(KNOWN, taken(*KNOWN))


@pytest.mark.parametrize(("there", "what"), [({}, "missing"), (taken(FIRST), "0002_b")])
def test_a_layout_with_steps_missing_is_refused_with_advice(there, what):
    with pytest.raises(SchemaMismatch, match=what) as refusal:
        check(KNOWN, there)
    assert "migrate" in str(refusal.value)


def test_steps_come_in_the_order_of_their_names_with_words_filled_in(package):
    steps = migrations(package, schema="mine")
    assert [step.name for step in steps] == ["0001_a", "0002_b"]
    assert steps[1].sql == "create table mine.b (x int);"


def test_the_checksum_does_not_depend_on_the_words(package):
    mine, yours = migrations(package, schema="mine"), migrations(package, schema="yours")
    assert [step.checksum for step in mine] == [step.checksum for step in yours]
    assert mine[0].checksum == hashlib.sha256(b"create schema {schema};").hexdigest()[:16]
    assert mine[0].checksum != mine[1].checksum
