"""Tracebacks as text, cut down to the user's code."""

import pytest

from packhorse.model.traceback_text import trimmed

OWN = '  File "/srv/shop/mail.py", line 3, in send\n    connect(host)\n    ~~~~~~~^^^^^^\n'
LIBRARY = '  File "/srv/venv/lib/python3.12/site-packages/smtp.py", line 9, in connect\n    raise Refused\n'
ENGINE = (
    '  File "/opt/packhorse/engine/attempt_runner.py", line 70, in run_here\n    value = attempt.entry.call(*args)\n'
)
HEAD = "Traceback (most recent call last):\n"
END = "smtp.Refused: no\n"
FOLDERS = ["/opt/packhorse/"]


def indented(text: str) -> str:
    return "".join(f"  {line}" for line in text.splitlines(keepends=True))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (HEAD + ENGINE + OWN + LIBRARY + END, HEAD + OWN + END),
        (HEAD + ENGINE + LIBRARY + END, HEAD + LIBRARY + END),
        (HEAD + OWN + OWN + END, HEAD + OWN + OWN + END),
        (
            HEAD + LIBRARY + OWN + END + "\nwhich was the cause of:\n\n" + HEAD + ENGINE + OWN + END,
            HEAD + OWN + END + "\nwhich was the cause of:\n\n" + HEAD + OWN + END,
        ),
        (
            HEAD + OWN + "ExceptionGroup: two\n1 of 2:\n" + indented(HEAD + LIBRARY + OWN + END),
            HEAD + OWN + "ExceptionGroup: two\n1 of 2:\n" + indented(HEAD + OWN + END),
        ),
        ("no traceback\n", "no traceback\n"),
        ("", ""),
        (HEAD + ENGINE + OWN.rstrip("\n"), HEAD + OWN.rstrip("\n")),
    ],
    ids=["library", "no own code", "all own", "cause", "group", "none", "empty", "cut"],
)
def test_frames_of_users_stay(text, expected):
    assert trimmed(text, FOLDERS) == expected


def test_what_is_trimmed_is_not_trimmed_further():
    once = trimmed(HEAD + ENGINE + LIBRARY + OWN + LIBRARY + END, FOLDERS)
    assert trimmed(once, FOLDERS) == once
