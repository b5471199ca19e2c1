"""Statements are known by the names of their files."""

import sys

import pytest

from packhorse.stores.sql.statements import Statements, texts


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package with two statements."""
    home = tmp_path / "with_two_statements"
    (home / "sql").mkdir(parents=True)
    (home / "__init__.py").touch()
    (home / "sql" / "get_job.sql").write_text("SELECT * FROM {schema}.jobs WHERE data = '{}'::json -- größer")
    (home / "sql" / "count.sql").write_text("SELECT 1")
    (home / "sql" / "README.md").write_text("no statement")
    monkeypatch.syspath_prepend(tmp_path)
    yield home.name
    sys.modules.pop(home.name, None)


def test_a_statement_is_read_by_the_name_of_its_file(package):
    assert Statements(package).count == "SELECT 1"


def test_words_are_filled_in_and_other_braces_stay(package):
    statement = Statements(package, schema="mine").get_job
    assert statement == "SELECT * FROM mine.jobs WHERE data = '{}'::json -- größer"


def test_the_names_are_those_of_the_sql_files(package):
    assert Statements(package).names == {"count", "get_job"}


def test_a_statement_that_is_not_there_is_an_attribute_error(package):
    with pytest.raises(AttributeError, match="no statement nothing"):
        _ = Statements(package).nothing


def test_texts_come_by_name_and_in_order(package):
    assert list(texts(package, "sql")) == ["count", "get_job"]
