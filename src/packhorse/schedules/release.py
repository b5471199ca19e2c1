"""Which of two releases is the higher one."""

import re

_WORD, _END, _NUMBER = range(3)  # 1.0rc1 comes before 1.0, and that before 1.0.1


def rank(release: str | None) -> tuple[tuple[int, int, str], ...]:
    """Releases in their order: numbers in them count as numbers, and none at all is the lowest."""
    if release is None:
        return ()
    pieces = re.findall(r"\d+|[^\d.\-_+ ]+", re.sub(r"^[vV](?=\d)", "", release))
    ranked = [(_NUMBER, int(piece), "") if piece.isdecimal() else (_WORD, 0, piece) for piece in pieces]
    return (*ranked, (_END, 0, ""))
