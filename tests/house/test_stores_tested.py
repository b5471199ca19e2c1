"""Which tests run on which stores: docs/internals/tests.md says why."""

import re
from pathlib import Path

import pytest

from tests import conftest

TESTS = Path(__file__).parents[1]
EVERY_STORE = re.compile(r"\ball_kinds\b|keyspaces import .*\bSERVERS\b")

# What a server does by itself: its replies, rights, memory, replicas and what it has written down when it is killed.
WITH_VALKEY = {
    "conftest.py",
    "conformance/conftest.py",
    "conformance/test_wakes.py",
    "crash/test_programme.py",
    "integration/keyspaces.py",
    "integration/test_redis.py",
    "integration/test_redis_doors.py",
    "integration/test_redis_fleets.py",
    "integration/test_redis_replies.py",
}


def test_valkey_runs_the_conformance_tests_and_those_about_the_server():
    found = {path.relative_to(TESTS).as_posix() for path in TESTS.rglob("*.py") if EVERY_STORE.search(path.read_text())}

    assert found - {"house/test_stores_tested.py"} == WITH_VALKEY


@pytest.mark.parametrize(
    ("named", "long", "stores"),
    [
        ("", "", ("sqlite", "memory", "redis", "postgres")),
        ("", "1", ("sqlite", "memory", "redis", "valkey", "postgres")),
        ("sqlite,valkey", "", ("sqlite", "memory", "valkey")),
        ("redis,valkey", "", ("redis",)),
    ],
)
def test_valkey_stands_in_for_redis_where_redis_is_not_tested(monkeypatch, named, long, stores):
    monkeypatch.setenv("PACKHORSE_TEST_STORES", named)
    monkeypatch.setenv("PACKHORSE_TEST_LONG", long)

    assert conftest.kinds() == stores
