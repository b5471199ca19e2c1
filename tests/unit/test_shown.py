"""No part of a login or a parameter is in what is shown of an address, whatever form it has."""

import traceback
from urllib.parse import quote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from packhorse import App
from packhorse.cli.command import cli_error
from packhorse.cli.target import CliTarget
from packhorse.errors import PackhorseError, StoreUnavailable
from packhorse.stores import open_store
from packhorse.stores.url import shown

SECRET = "HUNTER2"
FORMS = (
    "postgresql://u:{}@h:1/db", "postgresql://{}@h/db", "postgres://u:{}@a:1,b:2/db", "postgresql:u:{}@h/db",
    "postgresql://h/db?password={}", "postgresql://h/db?listen=postgresql://u:{}@h/db", "redis://:{}@h:1/0",
    "redis://h/0?password={}", "rediss://u:{}@h/0", "valkey://u:{}@h/0", "redis+sentinel://u:{}@a:1,b/service/0",
    "redis+sentinel://a/service?sentinel_password={}", "redis+cluster://u:{}@a:1,b:2", "unix://u:{}@/run/redis.sock",
    "sqlite://u:{}@h/db", "sqlite:///shop.db?key={}", "u:{}@h/db", "//u:{}@h/db", "mysql://u:{}@h/db",
)  # fmt: skip
passwords = st.tuples(st.text(max_size=4), st.text(max_size=4)).map(SECRET.join)


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=25)  # for each form; the traps that are known stand below
@given(password=passwords)
@example("HUNTER2/x")
@example("x/HUNTER2")
@example("x?HUNTER2")
@example("x#HUNTER2")
@example("HUNTER2 x")
@example("x@HUNTER2")
@example("[HUNTER2")
@example("\u2100HUNTER2")
@example("a/HUNTER2,b")
def test_no_password_is_shown_in_a_line_an_error_or_a_repr(form: str, password: str):
    for secret in (password, quote(password, safe=""), quote(quote(password, safe=""), safe="")):
        url = form.format(secret)
        texts = [shown(url), repr(CliTarget(url=url))]
        try:
            texts.append(str(cli_error(StoreUnavailable("away"), url)))
            store = open_store(url)
            texts += [repr(store), repr(getattr(store, "_address", "")), repr(App(url))]
        except PackhorseError as error:
            texts += traceback.format_exception(error)[-1:]
            texts += [repr(error), repr(error.__cause__)]
        assert not [text for text in texts if SECRET in text]


def test_scheme_hosts_and_database_are_shown():
    assert shown("postgresql://u:p@a:1,[::1]:2/db?listen=no#x") == "postgresql://a:1,[::1]:2/db"
    assert shown("redis+sentinel://u:p@a,b:2/barn/0?sentinel_password=p") == "redis+sentinel://a,b:2/barn/0"
    assert shown("unix:///run/redis.sock?db=3") == "unix:///run/redis.sock"
    assert shown("sqlite:////var/a@b.db?synchronous=normal") == "sqlite:////var/a@b.db"
    assert shown("sqlite:///:memory:") == "sqlite:///:memory:"
    assert shown("postgresql://u:a/b@h/db") == "postgresql://…"
    assert shown("shop") == "…"
