"""The gateway: enqueues a prompt, waits a little for the answer, and streams tokens to whoever wants them as they come."""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from examples.ai_gateway.tasks import Completion, Prompt
from packhorse import App, InvalidInput, JobError, JobHandle, JobNotFound, Position, Task


class Api:
    """The routes. ``wait`` is how long a request waits for an answer before it gets the id of the job instead."""

    def __init__(self, app: App, generate: Task[[Prompt], Completion], wait: float) -> None:
        self._app, self._generate, self._wait = app, generate, wait

    async def ask(self, request: Request) -> Response:
        """Answer with the completion, or with 202 and the job. A request that is sent again finds the first one's job."""
        try:
            prompt = msgspec.json.decode(await request.body(), type=Prompt)
        except msgspec.DecodeError as error:
            raise HTTPException(400, str(error)) from error
        name = request.headers.get("x-request-id") or str(uuid.uuid4())
        job = await self._generate.using(id=f"llm:{name}", user=prompt.user, correlation_id=name).enqueue(prompt)
        try:
            completion = await job.result(timeout=self._wait)
        except TimeoutError:  # the job goes on
            return JSONResponse(await standing(job), 202, headers={"location": f"/jobs/{job.id}"})
        except JobNotFound as error:
            raise HTTPException(410, "this request was answered before, and its answer is no longer kept") from error
        except JobError as error:
            raise HTTPException(502, str(error)) from error
        return JSONResponse({"id": job.id, **asdict(completion)})

    async def show(self, request: Request) -> Response:
        """Where a job stands, and how far it is."""
        return JSONResponse(await standing(self._job(request)))

    async def cancel(self, request: Request) -> Response:
        """Call a job off, also while the model is at it."""
        return JSONResponse({"state": await self._job(request).cancel()}, 202)

    async def stream(self, request: Request) -> Response:
        """The tokens of a job as server-sent events; a browser that comes back goes on where it was."""
        job = self._job(request)
        await standing(job)  # 404 now, rather than in the middle of the stream
        after = position(request.headers.get("last-event-id", ""))
        return StreamingResponse(events(job, after), media_type="text/event-stream")

    async def counts(self, _request: Request) -> Response:
        """How many jobs stand where."""
        return JSONResponse(await self._app.queue("ai").counts())

    def _job(self, request: Request) -> JobHandle[Any]:
        try:
            return self._app.job(request.path_params["id"])
        except InvalidInput as error:
            raise HTTPException(404, str(error)) from error


async def standing(job: JobHandle[Any]) -> dict[str, Any]:
    """What a caller may know of a job."""
    try:
        info = await job.info()
    except JobNotFound as error:
        raise HTTPException(404, str(error)) from error
    percent = 100 if info.state == "done" else info.progress.percent if info.progress else 0
    return {"id": info.id, "state": info.state, "progress": percent}


async def events(job: JobHandle[Any], after: Position) -> AsyncIterator[str]:
    """The pieces of a job as text of server-sent events, and how it ended."""
    fence = after.fence
    async for chunk in job.stream(after):
        if fence and chunk.after.fence > fence:
            yield event("again", "a new try begins: forget the tokens so far")
        fence = chunk.after.fence
        yield event("token", chunk.data, f"{fence}.{chunk.after.number}")
    try:
        yield event("done", await job.result())
    except JobError as error:
        yield event("failed", str(error))


def event(name: str, data: object, id: str = "") -> str:
    """One server-sent event."""
    head = f"id: {id}\n" if id else ""
    return f"{head}event: {name}\ndata: {msgspec.json.encode(data).decode()}\n\n"


def position(id: str) -> Position:
    """Where a reader was, by the id of the last event it saw."""
    fence, _, number = id.partition(".")
    return Position(int(fence), int(number)) if fence.isdecimal() and number.isdecimal() else Position()


def api(app: App, generate: Task[[Prompt], Completion], *, wait: float = 2) -> Starlette:
    """The gateway as an ASGI app."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with app:
            yield

    routes = Api(app, generate, wait)
    return Starlette(
        routes=[
            Route("/generate", routes.ask, methods=["POST"]),
            Route("/jobs/{id}", routes.show),
            Route("/jobs/{id}", routes.cancel, methods=["DELETE"]),
            Route("/jobs/{id}/stream", routes.stream),
            Route("/counts", routes.counts),
        ],
        lifespan=lifespan,
    )
