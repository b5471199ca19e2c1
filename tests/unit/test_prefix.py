"""Keys by prefix: two bounds, between which lie all of them and no others."""

import pytest

from packhorse.model import limits
from packhorse.stores.sql.prefix import between

LAST = "\U0010ffff"
KEYS = sorted(
    ["a", "a!", "ab", "ab\ud7ff", "ab\ue000", f"ab{LAST}", f"ab{LAST}{LAST}", "ac", "b", LAST, LAST * (limits.KEY // 4)]
)


@pytest.mark.parametrize("prefix", ["", "a", "ab", "ab\ud7ff", f"ab{LAST}", LAST, LAST * 2, "zz"])
@pytest.mark.parametrize("cursor", ["", *KEYS])
def test_between_the_bounds_lie_the_keys_with_the_prefix_that_come_after_the_cursor(prefix: str, cursor: str):
    first, above = between(prefix, cursor)

    assert [key for key in KEYS if first <= key < above] == [
        key for key in KEYS if key.startswith(prefix) and key > cursor
    ]
