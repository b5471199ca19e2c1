"""Errors of HTTP clients are distinguished by the status they carry; the clients are known by shape, not by import."""

import warnings
from collections.abc import Callable
from email.utils import format_datetime
from types import SimpleNamespace

import pytest

from packhorse.model.clock import moment
from tests.features.factories import SECOND, run

PASSING = (408, 425, 429, 500, 502, 503, 504)
FINAL = (400, 401, 403, 404, 409, 410, 422)


def of_httpx(status: int, headers: dict[str, str]) -> Exception:
    import httpx

    request = httpx.Request("GET", "https://example.test/")
    try:
        httpx.Response(status, headers=headers, request=request).raise_for_status()
    except httpx.HTTPStatusError as error:
        return error
    raise AssertionError(status)


def of_requests(status: int, headers: dict[str, str]) -> Exception:
    import requests

    response = requests.Response()
    response.status_code, response.url = status, "https://example.test/"
    response.headers.update(headers)
    try:
        response.raise_for_status()
    except requests.HTTPError as error:
        return error
    raise AssertionError(status)


def of_aiohttp(status: int, headers: dict[str, str]) -> Exception:
    from aiohttp import ClientResponseError, RequestInfo
    from multidict import CIMultiDict, CIMultiDictProxy
    from yarl import URL

    url = URL("https://example.test/")
    about = RequestInfo(url, "GET", CIMultiDictProxy(CIMultiDict()), url)
    return ClientResponseError(about, (), status=status, message="no", headers=CIMultiDictProxy(CIMultiDict(headers)))


class Refused(Exception):
    """A class of the user's own."""

    def __init__(self, status: int, headers: dict[str, str]) -> None:
        super().__init__(status)
        self.response = SimpleNamespace(status_code=status, headers=headers)


CLIENTS: dict[str, Callable[[int, dict[str, str]], Exception]] = {
    "httpx": of_httpx,
    "requests": of_requests,
    "aiohttp": of_aiohttp,
    "own": Refused,
}


@pytest.fixture
def fetch(app):
    """A task that fails as a client would."""

    @app.task(name="fetch")
    async def fetch(client: str, status: int, headers: dict[str, str]) -> None:
        raise CLIENTS[client](status, headers)

    return fetch


async def test_s15_each_status_of_each_client_is_retried_or_final(app, fetch):
    jobs = {
        (client, status): await fetch.enqueue(client, status, {}) for client in CLIENTS for status in (*PASSING, *FINAL)
    }
    await run(app)

    found = {pair: await job.info() for pair, job in jobs.items()}
    assert {pair for pair, job in found.items() if job.state == "scheduled"} == {
        (client, status) for client in CLIENTS for status in PASSING
    }
    dead = {pair: (job.reason, job.attempt) for pair, job in found.items() if job.state == "dead"}
    assert dead == {(client, status): ("final", 1) for client in CLIENTS for status in FINAL}


async def test_s15_what_the_server_asks_for_is_honoured(app, fetch, clock):
    at = format_datetime(moment(clock.now() + 90 * SECOND), usegmt=True)
    asked = {"30": 30, "0": 1, at: 90, "next week": 1}
    for client in CLIENTS:
        for words, delay in asked.items():
            job = await fetch.enqueue(client, 429, {"Retry-After": words})
            await run(app)
            waits = ((await job.info()).stored.since - clock.now()) / SECOND
            assert waits == delay, (client, words)


async def test_s15_a_task_s_own_rules_are_asked_first(app):
    @app.task(retry_on=(Refused,), name="hopeful")
    async def hopeful() -> None:
        raise Refused(404, {})

    @app.task(dead_on=(ConnectionError,), name="strict")
    async def strict() -> None:
        raise ConnectionResetError("no answer")

    hoping, ended = await hopeful.enqueue(), await strict.enqueue()
    await run(app)

    assert (await hoping.state(), await ended.state()) == ("scheduled", "dead")


def of_validation() -> Exception:
    import pydantic

    class Model(pydantic.BaseModel):
        number: int

    try:
        Model.model_validate({"number": "many"})
    except pydantic.ValidationError as error:
        return error
    raise AssertionError


def of_msgspec() -> Exception:
    import msgspec

    try:
        msgspec.convert("many", int)
    except msgspec.ValidationError as error:
        return error
    raise AssertionError


def of_connection(client: str) -> Exception:
    """What a client raises when nobody answers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if client == "httpx":
            import httpx

            return httpx.ConnectTimeout("no answer")
        if client == "requests":
            import requests

            return requests.ConnectionError("no answer")
        import aiohttp

        return aiohttp.ServerDisconnectedError()


async def test_s15_values_that_are_wrong_are_final_and_silence_is_not(app):
    errors = {
        "pydantic": of_validation,
        "msgspec": of_msgspec,
        **{client: (lambda client=client: of_connection(client)) for client in ("httpx", "requests", "aiohttp")},
    }

    @app.task(name="call")
    async def call(what: str) -> None:
        raise errors[what]()

    jobs = {what: await call.enqueue(what) for what in errors}
    await run(app)

    assert {what: (await job.state()).value for what, job in jobs.items()} == {
        "pydantic": "dead", "msgspec": "dead", "httpx": "scheduled", "requests": "scheduled", "aiohttp": "scheduled"
    }  # fmt: skip
