"""The table for other languages on SQLite refuses what the edge in Python refuses, and keeps arguments byte for byte."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from packhorse.stores import open_store
from packhorse.stores.contract import Store
from tests.factories import found
from tests.integration import texts

INSERT = "INSERT INTO packhorse_enqueue (task, args, options) VALUES ('t', CAST(? AS TEXT), CAST(? AS TEXT))"
TEXT = "CAST(? AS TEXT)"  # bytes as text, whatever they are
REFUSED = {
    "a degree sign in Latin-1": b'{"tenant": "5\xb0C"}',
    "quotes in Windows-1252": b'{"tenant": "\x93so\x94"}',
    "a name in Latin-1": b'{"tenant": "caf\xe9"}',
    "two letters in Latin-1": b'{"tenant": "\xe9\xa9"}',
    "a character that ends early": b'{"tenant": "\xf0\x9f\x98"}',
    "one that ends late": b'{"tenant": "\xe2\x82\xac\xac"}',
    "a longer form than needed": b'{"tenant": "\xc0\x80"}',
    "half of a surrogate pair": b'{"tenant": "\xed\xa0\x80"}',
    "an escaped half": b'{"tenant": "\\ud800"}',
    "beyond the last character": b'{"tenant": "\xf4\x90\x80\x80"}',
    "a form of five bytes": b'{"tenant": "\xf8\x88\x80\x80\x80"}',
    "bad bytes far behind": b'{"tenant": "%s\x80%s"}' % (b"x" * 40_000, b"x" * 300),
    "bad bytes behind others": b'{"tenant": "%s\x80"}' % ("é".encode() * 16_500),
    "a bad name in an object": b'{"headers": {"\x80": 1}}',
    "a NUL behind the object": b"{}\0",
    "a NUL and more": b'{}\0"',
    "a list": b"[1]",
}
TAKEN = (
    *("", "é", "漢字", "😀", "\u0080\u00bf", "\u07ff\u0800\ud7ff\ue000", "\ufffd\ufffe\uffff", "\U0010ffff"),
    "x" * 255 + "é" + "x" * 16_200 + "😀é",
)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    made = open_store(f"sqlite:///{tmp_path}/store.db")
    await made.migrate()
    await made.open()
    yield made
    await made.close()


@pytest.fixture
def kind() -> str:
    return "sqlite"


@pytest.mark.parametrize("args", texts.REFUSED, ids=ascii)
async def test_what_python_would_refuse_is_refused(store: Store, tmp_path: Path, args: bytes):
    with (
        closing(sqlite3.connect(tmp_path / "store.db")) as other,
        pytest.raises(sqlite3.IntegrityError, match="packhorse"),
    ):
        other.execute(INSERT, (args, b"{}"))

    assert await store.jobs.count() == {}


@pytest.mark.parametrize("options", [b"{}\0", b'{"key": "a"}\0x', b'{"headers": {"a": "b\0"}}'], ids=ascii)
async def test_options_that_hold_a_nul_are_refused(store: Store, tmp_path: Path, options: bytes):
    with (
        closing(sqlite3.connect(tmp_path / "store.db")) as other,
        pytest.raises(sqlite3.IntegrityError, match="packhorse"),
    ):
        other.execute(INSERT, (b"{}", options))

    assert await store.jobs.count() == {}


@pytest.mark.parametrize("args", texts.TAKEN, ids=ascii)
async def test_json_is_taken_and_kept_byte_for_byte(store: Store, tmp_path: Path, args: bytes):
    with closing(sqlite3.connect(tmp_path / "store.db")) as other, other:
        other.execute(INSERT, (args, b"{}"))

    assert [job.payload for job in await found(store)] == [args]


@pytest.fixture
async def other(store: Store, tmp_path: Path):
    """A client without Packhorse."""
    with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as connection:
        yield connection


@pytest.mark.parametrize("data", REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("column", ["args", "options"])
def test_text_that_is_not_utf8_is_refused_in_every_column(other, column, data):
    with pytest.raises(sqlite3.IntegrityError, match="packhorse: "):
        other.execute(f"INSERT INTO packhorse_enqueue (task, {column}) VALUES ('t', {TEXT})", (data,))

    assert other.execute("SELECT count(*) FROM packhorse_jobs").fetchone() == (0,)


@pytest.mark.parametrize("task", [b"5\xb0C", b"\x96", b"caf\xe9", "é".encode() * 200], ids=ascii)
def test_a_task_whose_name_is_not_utf8_or_too_long_is_refused(other, task):
    with pytest.raises(sqlite3.IntegrityError, match="packhorse: "):
        other.execute(f"INSERT INTO packhorse_enqueue (task) VALUES ({TEXT})", (task,))


@pytest.mark.parametrize(("task", "options"), texts.RESERVED)
def test_names_that_are_kept_for_packhorse_are_refused(other, task, options):
    with pytest.raises(sqlite3.IntegrityError, match=r'begin with "packhorse\." are kept for Packhorse itself'):
        other.execute("INSERT INTO packhorse_enqueue (task, options) VALUES (?, ?)", (task, options))

    assert other.execute("SELECT count(*) FROM packhorse_jobs").fetchone() == (0,)


def test_names_that_only_resemble_them_are_taken(other):
    for task, options in texts.NOT_RESERVED:
        other.execute("INSERT INTO packhorse_enqueue (task, options) VALUES (?, ?)", (task, options))

    assert other.execute("SELECT count(*) FROM packhorse_jobs").fetchone() == (len(texts.NOT_RESERVED),)


@pytest.mark.parametrize("row", [(b"t", "{}", "{}"), ("t", b"{}", "{}"), ("t", "{}", b"{}")], ids=ascii)
def test_bytes_that_are_not_sent_as_text_are_refused(other, row):
    with pytest.raises(sqlite3.Error, match=r"packhorse: |BLOB"):
        other.execute("INSERT INTO packhorse_enqueue (task, args, options) VALUES (?, ?, ?)", row)


@pytest.mark.parametrize("text", TAKEN, ids=lambda text: ascii(text[-8:]))
def test_text_is_taken_and_kept_byte_for_byte(other, text):
    args = f'{{"x": "{text}"}}'
    other.execute("INSERT INTO packhorse_enqueue (task, args) VALUES (?, ?)", (f"t{text[:8]}", args))

    assert other.execute("SELECT task, payload FROM packhorse_jobs").fetchall() == [(f"t{text[:8]}", args.encode())]
