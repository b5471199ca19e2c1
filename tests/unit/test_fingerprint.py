"""Fingerprints of failures."""

import json

import pytest

from packhorse.model.fingerprint import (
    DIGEST_BYTES,
    Frame,
    chosen_fingerprint,
    described,
    fingerprint,
    innermost,
    users,
)


class Hidden(ValueError):
    __traceback__ = None  # type: ignore[assignment]


def caught(call, *args):
    try:
        call(*args)
    except BaseException as error:
        return error
    raise AssertionError("it did not raise")


def pay(order):
    raise ValueError(f"order {order} is not paid")


def refund(order):
    raise ValueError(f"order {order} is not paid")


def parse():
    json.loads("{")


def several():
    raise ExceptionGroup("both", [caught(pay, 1), KeyError("x")])


def of(error, task="pay"):
    return described(task, error, type(error).__name__)


def test_messages_and_lines_make_no_difference():
    assert of(caught(pay, 1)) == of(caught(pay, 2))
    assert of(caught(pay, 1))[1] == f"{__name__}.pay"


def test_task_class_and_function_make_a_difference():
    prints = {
        of(caught(pay, 1))[0],
        of(caught(pay, 1), "other")[0],
        of(caught(refund, 1))[0],
        described("pay", caught(pay, 1), "KeyError")[0],
    }
    assert len(prints) == 4
    assert {len(each) for each in prints} == {2 * DIGEST_BYTES}


def test_an_error_in_a_library_is_that_of_the_function_that_called_it():
    assert of(caught(parse))[1] == f"{__name__}.parse"


def test_a_group_is_known_by_its_first_exception():
    fingerprint_of_group, frame = of(caught(several))
    assert frame == f"{__name__}.pay"
    assert fingerprint_of_group != of(caught(pay, 1))[0]


def test_an_exception_without_a_traceback_has_no_frame():
    assert of(ValueError("x")) == (fingerprint("pay", "ValueError"), "")


def test_a_class_cannot_hide_its_traceback():
    def hide():
        raise Hidden

    assert of(caught(hide))[1].endswith("hide")


@pytest.mark.parametrize(
    ("file", "answer"),
    [
        ("/srv/shop/mail.py", True),
        ("C:\\shop\\mail.py", True),
        ("/srv/venv/lib/python3.12/site-packages/httpx/client.py", False),
        ("/usr/lib/python3.11/json/decoder.py", False),
        ("/usr/lib/python3/dist-packages/requests/api.py", False),
        ("C:\\venv\\Lib\\site-packages\\httpx\\client.py", False),
        ("<frozen importlib._bootstrap>", False),
        ("/srv/packhorse/engine/slots.py", False),
    ],
)
def test_code_of_users_is_no_installed_package(file, answer):
    assert users(file, ["/srv/packhorse/"]) is answer


def test_without_code_of_users_the_innermost_frame_counts():
    frames = [Frame("httpx.get", "/x/site-packages/httpx.py"), Frame("ssl.read", "/usr/lib/python3.11/ssl.py")]
    assert innermost(frames) == "ssl.read"
    assert innermost([]) == ""


@pytest.mark.parametrize("text", ["payment-provider", "x" * 64])
def test_a_short_fingerprint_of_a_task_stays_as_it_is(text):
    assert chosen_fingerprint(text) == text


@pytest.mark.parametrize("text", ["x" * 65, "two\nlines", "\udc80"])
def test_any_other_is_hashed(text):
    assert len(chosen_fingerprint(text)) == 2 * DIGEST_BYTES
