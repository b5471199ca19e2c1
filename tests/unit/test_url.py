"""Addresses in parts, also with a list of servers that Python's own splitting refuses in some releases."""

from urllib.parse import urlsplit

import pytest

from packhorse.stores.url import split


@pytest.mark.parametrize(
    "url",
    [
        "redis://ox:h%40y@a:1/3", "redis://[::1]:1/3", "sqlite:///a.db?synchronous=normal", "sqlite:////a/b%3F.db#c",
        "SQLITE:///a", "sqlite:///:memory:", "unix:///run/a?db=3", "postgres://u@a:1,b/d?x=1#y", "redis:a", "a.db", "",
    ],
)  # fmt: skip
def test_an_address_is_split_like_any_other(url: str):
    assert split(url) == urlsplit(url)


def test_servers_in_a_list_may_stand_in_brackets():
    parts = split("redis+sentinel://u:p@a:1,[::1]:2,b/barn?x=1#y")

    assert tuple(parts) == ("redis+sentinel", "u:p@a:1,[::1]:2,b", "/barn", "x=1", "y")
