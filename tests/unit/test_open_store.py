"""Addresses lead to stores; what is missing or wrong is reported without secrets."""

import sys

import pytest

from packhorse.errors import InvalidName, MissingExtra, UnknownScheme
from packhorse.stores import open_store
from packhorse.stores.kinds import KINDS, kind_of


@pytest.fixture
def without(monkeypatch):
    """Make a driver look as if it were not installed."""

    def hide(driver: str, store: str) -> None:
        for name in list(sys.modules):
            if name == driver or name.startswith(f"{driver}."):
                monkeypatch.setitem(sys.modules, name, None)
            elif name.startswith(f"packhorse.stores.{store}."):
                monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, driver, None)

    return hide


@pytest.mark.parametrize("url", ["mysql://host/db", "http://host", "nonsense", "", "sqlite", "REDIS"])
def test_an_address_that_no_store_serves_is_refused_with_those_that_are(url):
    with pytest.raises(UnknownScheme) as refusal:
        open_store(url)
    for scheme in ("sqlite://", "redis://", "valkey://", "postgresql://"):
        assert scheme in str(refusal.value)


@pytest.mark.parametrize(
    "url",
    [
        "mysql://user:hunter2@host/db",
        "postgresq://user:hunter2@host/db",
        "amqp://:hunter2@host",
        "redis+other://host/0?password=hunter2",
    ],
)
def test_a_refused_address_does_not_show_its_password(url):
    with pytest.raises(UnknownScheme) as refusal:
        open_store(url)
    assert "hunter2" not in str(refusal.value) + repr(refusal.value) + repr(vars(refusal.value))


@pytest.mark.parametrize(
    "url", ["redis://localhost", "rediss://localhost", "valkey://localhost", "unix:///run/redis.sock"]
)
def test_without_the_redis_driver_the_error_says_how_to_install_it(url, without):
    without("redis", "redis")
    with pytest.raises(MissingExtra, match=r"pip install 'packhorse\[redis\]'"):
        open_store(url)


@pytest.mark.parametrize("url", ["postgresql://localhost/db", "postgres://localhost/db"])
def test_without_the_postgres_driver_the_error_says_how_to_install_it(url, without):
    without("asyncpg", "postgres")
    with pytest.raises(MissingExtra, match=r"pip install 'packhorse\[postgres\]'"):
        open_store(url)


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("sqlite:///:memory:", "SQLite"),
        ("redis+sentinel://host/main", "Redis or Valkey"),
        ("valkeys+cluster://host", "Redis or Valkey"),
        ("unix:///run/redis.sock", "Redis or Valkey"),
        ("postgres://host", "PostgreSQL"),
        ("postgresql://host", "PostgreSQL"),
    ],
)
def test_an_address_tells_the_kind_of_its_store(url, name):
    kind = kind_of(url)
    assert kind is not None
    assert kind.name == name


def test_no_scheme_is_served_twice():
    schemes = [scheme for kind in KINDS for scheme in kind.schemes]
    assert len(schemes) == len(set(schemes))


@pytest.mark.parametrize("namespace", ["", "x" * 49, "a\nb", None])
def test_a_namespace_that_no_store_may_hold_is_refused(namespace):
    with pytest.raises(InvalidName):
        open_store("sqlite:///:memory:", namespace=namespace)
