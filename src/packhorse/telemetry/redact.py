"""The one redaction of Packhorse: values and text without secrets, known by their key or by their shape.

Text of any length takes time in proportion to its length: a pattern either begins where a run of characters begins and
takes the whole run, or has an upper bound.
"""

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from datetime import date, time, timedelta
from decimal import Decimal
from itertools import islice
from typing import Any, Final, overload
from uuid import UUID

HIDDEN: Final = "***"
LEFT_OUT: Final = "…"
MAX_DEPTH: Final = 20
MAX_VALUES: Final = 10_000

_SECRET_PARTS: Final = (
    "password", "passwd", "passphrase", "secret", "token", "authorization", "credential", "cookie", "apikey", "accesskey",
    "accountkey", "privatekey", "signingkey", "encryptionkey", "sharedkey", "masterkey", "licensekey", "servicekey",
    "connectionstring", "connectionurl", "databaseurl", "redisurl", "sessionid", "webhookurl", "cardnumber",
    "securitycode", "recoverycode", "backupcode", "signature", "mnemonic", "seedphrase",
)  # fmt: skip
_SECRET_WORDS: Final = frozenset(
    (
        "auth",
        "bearer",
        "cvc",
        "cvv",
        "dsn",
        "jwt",
        "otp",
        "pass",
        "pin",
        "psk",
        "pw",
        "pwd",
        "sas",
        "sig",
        "ssn",
        "totp",
    )
)
_SEPARATE: Final = re.compile(r"[^A-Za-z0-9]+|(?<=[a-z0-9])(?=[A-Z])")

# what a secret begins with, then how many characters of which kind follow at least
_PREFIXED: Final = (
    (r"(?:AKIA|ASIA|ABIA|ACCA|AIDA|AROA|AGPA|ANPA|ANVA)", "A-Z0-9", 16),  # AWS
    (r"gh[pousr]_", r"\w", 20),  # GitHub
    (r"github_pat_", r"\w", 20),
    (r"gl(?:pat|dt|rt|ptt|oas|cbt|soat|ft|agent)-", r"\w.-", 16),  # GitLab
    (r"xox[abceoprs]-", r"\w-", 10),  # Slack
    (r"xapp-", r"\w-", 16),
    (r"(?:sk|rk|pk)_(?:live|test)_", "A-Za-z0-9", 10),  # Stripe
    (r"whsec_", "A-Za-z0-9+/=_-", 10),  # Standard Webhooks
    (r"sk-", r"\w-", 20),  # OpenAI, Anthropic
    (r"gsk_", "A-Za-z0-9", 20),  # Groq
    (r"xai-", "A-Za-z0-9", 20),
    (r"hf_", "A-Za-z0-9", 20),  # Hugging Face
    (r"r8_", "A-Za-z0-9", 20),  # Replicate
    (r"AIza", r"\w-", 30),  # Google
    (r"ya29\.", r"\w.-", 16),
    (r"GOCSPX-", r"\w-", 16),
    (r"1//0", r"\w-", 20),
    (r"SG\.", r"\w.-", 20),  # SendGrid
    (r"key-", "0-9a-f", 32),  # Mailgun
    (r"SK", "0-9a-f", 32),  # Twilio
    (r"npm_", "A-Za-z0-9", 20),
    (r"pypi-", r"\w-", 20),
    (r"rubygems_", "0-9a-f", 20),
    (r"dckr_pat_", r"\w-", 16),  # Docker
    (r"do[opr]_v1_", "0-9a-f", 32),  # DigitalOcean
    (r"shp(?:at|ca|pa|ss)_", "A-Fa-f0-9", 20),  # Shopify
    (r"sq0[a-z]{3}-", r"\w-", 16),  # Square
    (r"dapi", "0-9a-f", 32),  # Databricks
    (r"lin_(?:api|oauth)_", "A-Za-z0-9", 20),  # Linear
    (r"(?:ntn|secret)_", "A-Za-z0-9", 30),  # Notion
    (r"gl(?:sa|c)_", r"\w+/=", 20),  # Grafana
    (r"(?:NRAK|NRJS|NRII)-", "A-Za-z0-9", 16),  # New Relic
    (r"PMAK-", "0-9a-f-", 20),  # Postman
    (r"dp\.(?:pt|st|ct|sa)\.", r"\w.-", 20),  # Doppler
    (r"hv[sbr]\.", r"\w-", 20),  # Vault
    (r"AGE-SECRET-KEY-1", "A-Z0-9", 20),
    (r"sntry[su]_", r"\w+/=", 20),  # Sentry
    (r"sbp_", "0-9a-f", 20),  # Supabase
    (r"pscale_(?:tkn|pw|oauth)_", r"\w.-", 16),  # PlanetScale
    (r"ATATT3", r"\w=-", 20),  # Atlassian
    (r"HRKU-", r"\w-", 20),  # Heroku
    (r"fo1_", r"\w-", 20),  # Fly
    (r"(?:sk\.)?eyJ", r"\w=-", 12),  # JSON in base64, as in a JWT; its other parts are taken with it
    (r"\d{8,10}:AA", r"\w-", 30),  # Telegram
    (r"https://hooks\.slack\.com/(?:services|workflows|triggers)/", r"\w/-", 8),
    (r"https://(?:\w{1,20}\.)?discord(?:app)?\.com/api/webhooks/", r"\w/-", 8),
    (r"https://[\w-]{1,60}\.webhook\.office\.com/", r"\w/@-", 8),
    (r"(?i:bearer)\s{1,4}", r"\w.~+/=-", 8),
    (r"(?i:basic)\s{1,4}", "A-Za-z0-9+/=", 16),
)
_ESCAPED: Final = r"(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2})"  # behind it a secret may begin, as behind a blank
_SHAPES: Final = re.compile(
    rf"(?:(?<![A-Za-z0-9])|{_ESCAPED})(?:"
    + "|".join(f"{begin}[{kind}]{{{least},}}+" for begin, kind, least in _PREFIXED)
    + r")(?:\.[\w=-]*+){0,4}"
)
_PRIVATE_KEY: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PRIVATE_KEY_END: Final = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_RUN: Final = re.compile(r"\S++")
_LOGIN_BEGIN: Final = re.compile("(://)|%3A%2F%2F", re.IGNORECASE)
_BLANK_LOGIN: Final = re.compile(
    r"(?<=://)[^\s:/@[]{0,200}+:(?!\d+(?:[\s/?#,]|$))[^@\n]{,200}+(?=@)"  # a password that holds a blank
    r"|\b(?<=sql:|dis:|key:)(?!//)[^\s:@]{0,200}+:[^@\n]{,200}+(?=@)",  # postgresql:user:password@host
    re.IGNORECASE,
)
_NAMED: Final = re.compile(r"(?<![\w-])(?:--[\w-]++[ =]|([\w-]++)[\"']?\s{0,4}(?:[:=]>?))\s{0,4}")
_VALUE: Final = re.compile(r"\"(?:[^\"\\]|\\.)*+\"?|'(?:[^'\\]|\\.)*+'?|[{\[(][^\n]*+|\S++", re.DOTALL)
_LINE: Final = re.compile(r"[^\n]*+")
_CARD: Final = re.compile(
    rf"(?:(?<![\w.-])|{_ESCAPED})(?:\d{{13,19}}|\d{{4}}([ -])\d{{4}}\1\d{{4}}\1\d{{1,7}}|3\d{{3}}([ -])\d{{6}}\2\d{{5}})(?![\w-])"
)


@overload
def redacted(value: str) -> str: ...
@overload
def redacted(value: object) -> Any: ...
def redacted(value: object) -> Any:
    """Give a value without its secrets: text stays text, mappings and lists keep their form as dicts and lists.

    Values under a key such as ``password`` are hidden whole, in text also ``password=…``; logins in addresses, keys of
    known services, private keys and card numbers are hidden wherever they are. E-mail addresses stay. What is nested
    deeper than 20, or comes after 10,000 values, is left out.
    """
    return _text(value) if isinstance(value, str) else _Redaction().of(value, MAX_DEPTH)


def is_secret(key: str) -> bool:
    """Whether what goes by this key is a secret."""
    words = [word.lower() for word in _SEPARATE.split(key[:200]) if word]
    joined = "".join(words)
    return any(part in joined for part in _SECRET_PARTS) or not _SECRET_WORDS.isdisjoint(words)


class _Redaction:
    """One pass over a nested value; counts the values it has looked at."""

    def __init__(self) -> None:
        self.left = MAX_VALUES

    def of(self, value: object, depth: int) -> Any:
        self.left -= 1
        if self.left < 0:
            return LEFT_OUT
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, str):
            return _text(value)
        if isinstance(value, bytes | bytearray | memoryview):
            return f"<{len(value)} bytes>"
        if isinstance(value, date | time | timedelta | Decimal | UUID):
            return str(value)
        if not isinstance(value, Mapping | Sequence | Set):
            return f"<{type(value).__name__}>"
        if depth == 0:
            return LEFT_OUT
        return self._mapping(value, depth - 1) if isinstance(value, Mapping) else self._items(value, depth - 1)

    def _mapping(self, value: Mapping[Any, object], depth: int) -> dict[str, Any]:
        return {
            _text(key) if isinstance(key, str) else str(self.of(key, 0)): self._under(key, each, depth)
            for key, each in islice(value.items(), max(0, self.left))
        }

    def _items(self, value: Iterable[object], depth: int) -> list[Any]:
        items = list(islice(value, max(0, self.left)))
        if len(items) == 2 and isinstance(items[0], str | bytes) and isinstance(items[1], str | bytes):
            return [self.of(items[0], depth), self._under(items[0], items[1], depth)]  # a header, or an item of a dict
        return [self.of(each, depth) for each in items]

    def _under(self, key: object, value: object, depth: int) -> Any:
        name = key.decode(errors="replace") if isinstance(key, bytes) else key
        if value is None or isinstance(value, bool) or not isinstance(name, str) or not is_secret(name):
            return self.of(value, depth)
        if name.lower().endswith("tokens") and isinstance(value, int | float):
            return value  # a number of tokens
        self.left -= 1
        return HIDDEN


def _text(text: str) -> str:
    text = _without_private_keys(text)
    if "@" in text or "%40" in text:
        text = _RUN.sub(_without_login, text)
        text = _BLANK_LOGIN.sub(HIDDEN, text)
    text = _without_named(text)
    return _without_cards(_SHAPES.sub(HIDDEN, text))


def _without_private_keys(text: str) -> str:
    pieces, at = [], 0
    while (begin := _PRIVATE_KEY.search(text, at)) is not None:
        end = _PRIVATE_KEY_END.search(text, begin.end())
        pieces += [text[at : begin.start()], HIDDEN]
        at = len(text) if end is None else end.end()
    return "".join((*pieces, text[at:])) if pieces else text


def _without_login(run: re.Match[str]) -> str:
    """Hide what is between ``://`` and the last ``@`` of a run: a password may hold a ``/`` or an ``@``."""
    begin = _LOGIN_BEGIN.search(run[0])
    if begin is None:
        return run[0]
    end = run[0].rfind("@" if begin[1] else "%40")
    return run[0] if end < begin.end() else f"{run[0][: begin.end()]}{HIDDEN}{run[0][end:]}"


def _without_named(text: str) -> str:
    """Hide values that are written behind the name of a secret: ``password=…``, ``"token": "…"``, ``Cookie: …``."""
    pieces, at, look = [], 0, 0
    while (named := _NAMED.search(text, look)) is not None:
        look = named.end()
        name, mark = named[1] or named[0].strip(" ="), named[0].rstrip()[-1:]
        if not is_secret(name) and not (mark == "=" and name.lower().endswith("key")):
            continue
        lower = name.lower()
        whole_line = (
            mark == ":" and ("authorization" in lower or "cookie" in lower) and text[look : look + 1] not in "\"'"
        )
        value = (_LINE if whole_line else _VALUE).match(text, look)
        if value is None or not value[0] or (lower.endswith("tokens") and value[0].rstrip(",;}").isdecimal()):
            continue
        quote = value[0][0] if value[0][0] in "\"'" else ""
        pieces += [text[at:look], f"{quote}{HIDDEN}{quote}"]
        at = look = value.end()
    return "".join((*pieces, text[at:])) if pieces else text


def _without_cards(text: str) -> str:
    pieces, at, look = [], 0, 0
    while (found := _CARD.search(text, look)) is not None:
        if _is_card("".join(char for char in found[0] if char.isdecimal())):
            pieces += [text[at : found.start()], HIDDEN]
            at = look = found.end()
        else:
            look = found.start() + 1
    return "".join((*pieces, text[at:])) if pieces else text


def _is_card(digits: str) -> bool:
    """Whether digits begin like a payment card and end in its check digit (Luhn)."""
    if digits[0] not in "23456" or not digits.isascii():
        return False
    doubled = [int(digit) * 2 for digit in digits[-2::-2]]
    return (sum(int(digit) for digit in digits[-1::-2]) + sum(n - 9 if n > 9 else n for n in doubled)) % 10 == 0
