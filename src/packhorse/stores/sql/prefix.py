"""Ranges of keys by prefix, without patterns: what a user writes is never a wildcard."""

_LAST = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


def after_prefix(prefix: str) -> str | None:
    """The least text above every text with this prefix, by code points; None if there is none."""
    for end in range(len(prefix), 0, -1):
        point = ord(prefix[end - 1])
        if point < _LAST:
            above = point + 1
            if above in _SURROGATES:
                above = _SURROGATES.stop
            return prefix[: end - 1] + chr(above)
    return None
