"""Ranges of keys by prefix, without patterns: what a user writes is never a wildcard."""

from packhorse.model import limits

_LAST_CODE_POINT = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)
_ABOVE_ALL = chr(_LAST_CODE_POINT) * (limits.KEY // 4 + 1)


def between(prefix: str, cursor: str) -> tuple[str, str]:
    """The least key of those with a prefix that come after a cursor, and the least text above them all, by code points.

    Two plain bounds: with others beside them an index would be read from its beginning, or to its end.
    """
    return max(prefix, f"{cursor}\x01") if cursor else prefix, _above(prefix)  # no key holds a control character


def _above(prefix: str) -> str:
    for end in range(len(prefix), 0, -1):
        point = ord(prefix[end - 1])
        if point < _LAST_CODE_POINT:
            above = point + 1
            if above in _SURROGATES:
                above = _SURROGATES.stop
            return prefix[: end - 1] + chr(above)
    return _ABOVE_ALL
