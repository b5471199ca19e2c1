"""An exception as text, whatever it is."""

import sys
import tracemalloc

import pytest

from packhorse.model import limits
from packhorse.model.exception_text import CHAIN, HEAD, MAX_EXCEPTIONS, TAIL, failure_of, kind, members, message, trace


class Own(Exception):
    class Inner(Exception):
        pass


class Mute(Exception):
    def __str__(self):
        raise Own("no words")

    __repr__ = __str__


def caught(call, *args):
    try:
        call(*args)
    except BaseException as error:
        return error
    raise AssertionError("it did not raise")


def fail(secret):
    hidden = secret * 2
    raise Own(len(hidden))


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (KeyError("x"), "KeyError"),
        (SystemExit(), "SystemExit"),
        (Own(), f"{__name__}.Own"),
        (Own.Inner(), f"{__name__}.Own.Inner"),
        (type("Odd", (Exception,), {"__module__": 5})(), "5.Odd"),
    ],
)
def test_the_kind_is_module_and_name(error, name):
    assert kind(error) == name


def test_a_class_that_cannot_be_named_is_unknown():
    class Nameless(type):
        __module__ = property(lambda cls: 1 / 0)  # type: ignore[assignment]

    assert kind(Nameless("X", (Exception,), {})()) == "unknown"


def test_a_message_that_cannot_be_read_says_why():
    assert message(Mute()) == f"(its text cannot be read: {__name__}.Own)"
    assert failure_of(Mute()).message == message(Mute())


def test_a_message_of_a_strange_kind_of_text_is_plain_text():
    class Sly(str):
        def __getitem__(self, key):
            raise RuntimeError

        def encode(self, *args):
            raise RuntimeError

    class Strange(Exception):
        def __str__(self):
            return Sly("words")

    assert type(message(Strange())) is str
    assert failure_of(Strange()).message == "words"


def test_a_trace_tells_places_but_no_values():
    text = trace(caught(fail, "hunter2"))

    assert text.startswith("Traceback (most recent call last):\n")
    assert f'File "{__file__}"' in text
    assert "in fail\n    raise Own(len(hidden))\n" in text
    assert text.endswith(f"{__name__}.Own: 14\n")
    assert "hunter2" not in text


def test_an_exception_never_raised_is_its_last_line():
    assert trace(KeyError("x")) == "KeyError: 'x'\n"
    assert trace(ValueError()) == "ValueError\n"


def test_notes_are_reported():
    error = ValueError("x")
    error.add_note("while reading a.csv")
    assert trace(error) == "ValueError: x\nwhile reading a.csv\n"


@pytest.mark.parametrize("notes", [5, "text", [b"x", None, 5], {"a": 1}])
def test_notes_that_are_none_are_passed_over(notes):
    error = ValueError("x")
    error.__notes__ = notes
    assert trace(error) == "ValueError: x\n"


def order(text, *words):
    places = [text.index(word) for word in words]
    return places == sorted(places)


def test_what_led_to_it_comes_first():
    def chained():
        try:
            raise KeyError("first")
        except KeyError as error:
            raise ValueError("second") from error

    text = trace(caught(chained))
    assert order(text, "KeyError: 'first'", "which was the cause of", "ValueError: second")

    def during():
        try:
            raise KeyError("first")
        except KeyError:
            raise ValueError("second")  # noqa: B904

    text = trace(caught(during))
    assert order(text, "KeyError: 'first'", "while that was being handled", "ValueError: second")

    def alone():
        try:
            raise KeyError("first")
        except KeyError:
            raise ValueError("second") from None

    assert "first" not in trace(caught(alone))


def test_circles_come_to_an_end():
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    text = trace(one)
    assert (text.count("ValueError: one"), text.count("ValueError: two")) == (1, 1)

    own = ValueError("own")
    own.__cause__ = own
    assert trace(own).count("ValueError: own") == 1


def test_a_long_chain_is_cut_at_its_far_end():
    error = ValueError("0")
    for number in range(1, 5000):
        later = ValueError(str(number))
        later.__context__ = error
        error = later
    text = trace(error)
    assert text.count("ValueError") == CHAIN
    assert text.endswith("ValueError: 4999\n")


def test_a_deep_recursion_loses_its_middle():
    def deep(n):
        return deep(n - 1) if n else fail("x")

    text = trace(caught(deep, 300))
    assert text.count('File "') <= HEAD + TAIL
    assert f"({303 - HEAD - TAIL} more frames)" in text
    assert "in fail\n" in text

    def endless():
        return endless()

    failure = failure_of(caught(endless))
    assert failure.type == "RecursionError"
    assert "in endless" in failure.traceback


def test_a_group_tells_its_members():
    group = ExceptionGroup("several", [ValueError("one"), ExceptionGroup("inner", [KeyError("two")])])
    assert trace(group) == (
        "ExceptionGroup: several (2 sub-exceptions)\n"
        "1 of 2:\n  ValueError: one\n"
        "2 of 2:\n  ExceptionGroup: inner (1 sub-exception)\n  1 of 1:\n    KeyError: 'two'\n"
    )


def test_a_vast_group_is_cut_short():
    text = trace(ExceptionGroup("many", [ValueError(str(n)) for n in range(10_000)]))
    assert text.count("ValueError") == MAX_EXCEPTIONS - 1
    assert text.endswith(f"({10_000 - MAX_EXCEPTIONS + 1} more)\n")


def test_a_group_nested_very_deeply_is_reported():
    deep: Exception = ValueError("bottom")
    for _ in range(sys.getrecursionlimit() * 2):
        deep = ExceptionGroup("in", [deep])
    assert trace(deep).count("ExceptionGroup") == MAX_EXCEPTIONS


def test_members_are_those_of_a_group_whatever_it_says():
    class Lying(ExceptionGroup):
        exceptions = property(lambda self: 1 / 0)

    inner = ValueError("x")
    assert members(Lying("", [inner])) == (inner,)
    assert members(inner) == ()
    assert "ValueError: x" in trace(Lying("", [inner]))


def test_slots_shadowed_by_code_are_read_all_the_same():
    class Shadowed(Exception):
        __cause__ = __context__ = __traceback__ = __notes__ = __suppress_context__ = property(lambda self: 1 / 0)

    def shadowed():
        raise Shadowed("x")

    text = trace(caught(shadowed))
    assert "in shadowed" in text
    assert text.endswith("Shadowed: x\n")


def test_source_that_cannot_be_had_leaves_the_places():
    class Loader:
        def get_source(self, name):
            raise ZeroDivisionError

    space = {"__name__": "odd", "__loader__": Loader()}
    exec(compile("def broken():\n    raise KeyError('k')\n", "<made up>", "exec"), space)
    text = trace(caught(space["broken"]))
    assert 'File "<made up>", line 2, in broken' in text
    assert text.endswith("KeyError: 'k'\n")


def test_huge_texts_are_cut_early():
    error = ValueError("é" * 50_000_000)
    error.__notes__ = ["n" * 50_000_000] * 20
    tracemalloc.start()
    try:
        failure = failure_of(error)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 5_000_000
    assert len(failure.message.encode()) <= limits.MESSAGE
    assert len(failure.traceback.encode()) <= limits.TRACEBACK
