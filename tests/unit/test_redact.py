"""Secrets are hidden by key and by shape, in values and in text, in time in proportion to their length."""

import time
from datetime import date
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packhorse.telemetry.redact import HIDDEN, LEFT_OUT, MAX_VALUES, is_secret, redacted

SECRET = "hunter2"
HEX, TEXT, UPPER = "0123456789abcdef" * 3, "aB3" * 14, "ABCD2345" * 4

# each shape is put together here, so that scanners of repositories find none
SHAPES = {
    "aws": "AKIA" + UPPER[:16], "aws session": "ASIA" + UPPER[:16], "github": "ghp" + "_" + TEXT, "github app": "ghs" + "_" + TEXT,
    "github fine": "github" + "_pat_" + TEXT, "gitlab": "glpat" + "-" + TEXT, "slack bot": "xoxb" + "-12345678-" + TEXT,
    "slack app": "xapp" + "-1-" + TEXT, "slack hook": "https://hooks.slack.com" + "/services/T0/B0/" + TEXT,
    "stripe": "sk" + "_live_" + TEXT, "stripe restricted": "rk" + "_test_" + TEXT, "webhooks": "whsec" + "_" + TEXT + "==",
    "openai": "sk" + "-proj-" + TEXT, "anthropic": "sk" + "-ant-api03-" + TEXT, "groq": "gsk" + "_" + TEXT, "xai": "xai" + "-" + TEXT,
    "hugging face": "hf" + "_" + TEXT, "replicate": "r8" + "_" + TEXT, "google": "AIza" + TEXT, "google token": "ya29" + "." + TEXT,
    "google client": "GOCSPX" + "-" + TEXT, "sendgrid": "SG" + "." + TEXT + "." + TEXT, "mailgun": "key" + "-" + HEX[:32],
    "twilio": "SK" + HEX[:32], "npm": "npm" + "_" + TEXT, "pypi": "pypi" + "-" + TEXT, "rubygems": "rubygems" + "_" + HEX,
    "docker": "dckr" + "_pat_" + TEXT, "digitalocean": "dop" + "_v1_" + HEX, "shopify": "shpat" + "_" + HEX,
    "square": "sq0atp" + "-" + TEXT, "databricks": "dapi" + HEX, "linear": "lin" + "_api_" + TEXT, "notion": "ntn" + "_" + TEXT,
    "grafana": "glsa" + "_" + TEXT, "new relic": "NRAK" + "-" + UPPER, "postman": "PMAK" + "-" + HEX, "doppler": "dp.pt." + TEXT,
    "vault": "hvs" + "." + TEXT, "age": "AGE-SECRET-KEY-" + "1" + UPPER, "sentry": "sntrys" + "_" + TEXT,
    "supabase": "sbp" + "_" + HEX,
    "planetscale": "pscale" + "_tkn_" + TEXT, "atlassian": "ATATT3" + TEXT, "heroku": "HRKU" + "-" + TEXT, "fly": "fo1" + "_" + TEXT,
    "jwt": "eyJ" + TEXT + ".eyJ" + TEXT + "." + TEXT, "telegram": "123456789" + ":AA" + TEXT,
    "discord hook": "https://discord.com" + "/api/webhooks/1/" + TEXT, "bearer": "Bearer " + TEXT, "basic": "Basic " + TEXT,
    "private key": "-----BEGIN RSA " + "PRIVATE KEY-----\n" + TEXT + "\n-----END RSA " + "PRIVATE KEY-----",
    "private key cut short": "-----BEGIN " + "PRIVATE KEY-----\n" + TEXT,
    "card": "4111" + "111111111111", "card in groups": "5500 0000" + " 0000 0004", "amex": "3782 " + "822463 10005",
}  # fmt: skip
PLACES = ("{}", "it was {}, and it failed", "('{}',)", '{{"x":"{}"}}', "x={}", "a\\n{}", "page?x=1&y=%3D{}")


@pytest.mark.parametrize("secret", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("place", PLACES)
def test_a_secret_is_known_by_its_shape(secret, place):
    text = redacted(place.format(secret))
    assert HIDDEN in text
    assert not [part for part in (secret, secret[10:-1], secret[-12:]) if part in text]


@pytest.mark.parametrize(
    "text",
    [
        "0191f3c2-7c1a-7000-8000-4111111111111111",
        "job 01920000-4111-7111-8111-111111111111 died at 1753862400000000 after 3 attempts",
        "4111 1111 1111 1112 has no check digit",
        "Task export_data failed after 3 attempts",
        "KeyError: 'tenant'", "key: value", "max_tokens=4096", "risk-assessment-of-the-whole-company", "the key-value store",
        "mail a@b.c", "see https://host:80/page", "Basic authentication failed", "Decimal(0.4111111111111111)",
    ],
)  # fmt: skip
def test_what_is_no_secret_stays(text):
    assert redacted(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("password=hunter2 user=me", "password=*** user=me"),
        ("PASSWORD = 'hun ter2', user", "PASSWORD = '***', user"),
        ('{"db_password": "hun\\"ter2", "n": 1}', '{"db_password": "***", "n": 1}'),
        ("{'apiKey': 'hunter2'}", "{'apiKey': '***'}"),
        ("X-Api-Key: hunter2\nHost: x", "X-Api-Key: ***\nHost: x"),
        ("Authorization: Digest a=1, b=hunter2\nHost: x", "Authorization: ***\nHost: x"),
        ("Set-Cookie: sid=hunter2; Path=/\nHost: x", "Set-Cookie: ***\nHost: x"),
        ("curl --token hunter2 https://x", "curl --token *** https://x"),
        ("client_secret=hunter2", "client_secret=***"),
        ("secrets={'a': 'hunter2'}\nend", "secrets=***\nend"),
        ("AccountName=x;AccountKey=hunter2==", "AccountName=x;AccountKey=***"),
        ("amqp://me:hun@ter/2@host", "amqp://***@host"),
        ("url%3Dredis%3a%2f%2fme%3Ahunter2%40host", "url%3Dredis%3a%2f%2f***%40host"),
    ],
)  # fmt: skip
def test_a_secret_in_text_is_known_by_the_name_before_it(text, shown):
    assert redacted(text) == shown


KEYS = (
    "password", "Passwd", "userPassword", "token", "accessToken", "refresh_token", "client-secret", "Authorization", "X-API-Key",
    "apikey", "api_key", "Cookie", "Set-Cookie", "dsn", "SENTRY_DSN", "private_key", "aws_secret_access_key", "credentials",
    "sessionId", "jwt", "cvv", "pin", "card_number", "connectionString", "DATABASE_URL", "otp", "basicAuth", "signature",
)  # fmt: skip


@pytest.mark.parametrize("key", KEYS)
def test_a_value_is_hidden_by_its_key(key):
    assert is_secret(key)
    given = {
        key: SECRET,
        "list": [{key: [SECRET]}],
        "pair": (key, SECRET),
        "raw": [(key.encode(), SECRET.encode())],
        "n": {key: 7},
    }
    assert SECRET not in repr(redacted(given))
    assert redacted({key: None}) == {key: None}


@pytest.mark.parametrize(
    "key", ["author", "passenger", "key", "keyboard", "task", "spinner", "designs", "compass", "user", "email"]
)
def test_a_key_that_only_looks_like_one_hides_nothing(key):
    assert not is_secret(key)
    assert redacted({key: "blue"}) == {key: "blue"}


def test_a_number_of_tokens_is_no_secret():
    assert redacted({"prompt_tokens": 12, "tokens": ["abc"]}) == {"prompt_tokens": 12, "tokens": HIDDEN}


def test_values_keep_their_form_and_text_in_them_is_looked_at():
    id_ = UUID(int=1)
    given = {"a": (1, 2.5, True, None), "at": date(2026, 1, 2), "sum": Decimal("1.50"), 5: id_, "raw": b"x", "what": object(),
             "url": f"redis://:{SECRET}@host"}  # fmt: skip
    assert redacted(given) == {
        "a": [1, 2.5, True, None], "at": "2026-01-02", "sum": "1.50", "5": str(id_), "raw": "<1 bytes>", "what": "<object>",
        "url": "redis://***@host",
    }  # fmt: skip


def test_depth_and_number_of_values_are_bounded():
    deep: list = []
    deep.append(deep)
    assert LEFT_OUT in repr(redacted(deep))
    wide = {"rows": [[n, {"token": SECRET}] for n in range(3 * MAX_VALUES)]}
    wide["again"] = wide
    assert len(repr(redacted(wide))) < 40 * MAX_VALUES
    assert SECRET not in repr(redacted(wide))


PIECES = (
    "://", "://a:", "%3A%2F%2F", "sql:", "key:", "eyJ", "eyJ-", "sk-", "sk_live_", "a" * 7 + ".", "password", "password=", "token: '",
    '"', "\\", "-----BEGIN PRIVATE KEY-----", "-----BEGIN ", "4", "4111 ", "4111 1111 1111 1111", "bearer ", "Basic  ", "@", "x@",
    "--", "123456789:AA", "[", "(", " ", "\n", "é", "https://x", "AKIA", "%3D", "SG.", "1//0", "a-", "xox", "whsec_",
)  # fmt: skip


@pytest.mark.parametrize("size", [1 << 17, 1 << 20])
def test_hostile_text_takes_time_in_proportion_to_its_length(size):
    """What takes more than that takes hours for a mebibyte."""
    pieces = PIECES if size < 1 << 20 else ("://:", "sql:", "eyJ-", "4111 ", "token: '")
    for piece in pieces:
        text = piece * (size // len(piece)) + "@ %40"
        begun = time.process_time()
        redacted({"a": text})
        assert time.process_time() - begun < 20, piece


@settings(max_examples=30, deadline=None)
@given(
    st.recursive(
        st.none() | st.text() | st.binary() | st.floats(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_any_value_is_taken_and_hiding_twice_changes_nothing(value):
    once = redacted(value)
    assert repr(redacted(once)) == repr(once)
