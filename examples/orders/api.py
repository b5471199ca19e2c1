"""The order API: takes an order and answers at once, and lets a person look at dead letters and replay them."""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from examples.orders.tasks import Receipt
from packhorse import App, InvalidInput, JobHandle, JobNotFound, Task


class NewOrder(msgspec.Struct, forbid_unknown_fields=True):
    """What a customer sends."""

    email: str
    item: str


class Api:
    """The routes, and the orders they speak of; the dict stands in for your database."""

    def __init__(self, app: App, confirm: Task[[str, str], Receipt]) -> None:
        self._app, self._confirm = app, confirm
        self._orders: dict[str, tuple[NewOrder, JobHandle[Receipt]]] = {}

    async def create(self, request: Request) -> Response:
        """Take an order: the answer does not wait for the e-mail, nor for a worker to be there."""
        try:
            order = msgspec.json.decode(await request.body(), type=NewOrder)
        except msgspec.DecodeError as error:
            raise HTTPException(400, str(error)) from error
        number = str(uuid.uuid4())
        job = await self._confirm.using(id=f"order-confirmation:{number}").enqueue(number, order.email)
        self._orders[number] = order, job
        return JSONResponse({"id": number, "item": order.item, "confirmation": job.id}, 201)

    async def show(self, request: Request) -> Response:
        """An order, and where its confirmation stands."""
        try:
            order, job = self._orders[request.path_params["id"]]
        except KeyError:
            raise HTTPException(404) from None
        return JSONResponse({"item": order.item, "confirmation": await job.state()})

    async def dead(self, _request: Request) -> Response:
        """The dead letters: what was to be done, and the last thing that went wrong."""
        page = await self._app.dead.find(queue="email")
        letters = [
            {
                "id": letter.job_id,
                "task": letter.task,
                "data": letter.arguments,
                "attempts": letter.attempt,
                "reason": letter.reason,
                "error": letter.error_message,
                "failed_at": letter.died_at.isoformat(),
                "group": letter.fingerprint,
            }
            for letter in page.items
        ]
        return JSONResponse({"letters": letters, "more": page.cursor is not None})

    async def replay(self, request: Request) -> Response:
        """Give a dead letter all its tries again, in the name of the person who asks."""
        try:
            letter = await self._app.dead.get(request.path_params["id"])
        except JobNotFound as error:
            raise HTTPException(404, str(error)) from error
        except InvalidInput as error:
            raise HTTPException(409, str(error)) from error
        with self._app.audit.acting(request.headers.get("x-user", "admin")):
            await self._app.dead.replay(letter.job_id)
        return JSONResponse({"id": letter.job_id, "state": await self._app.job(letter.job_id).state()}, 202)

    async def replay_group(self, request: Request) -> Response:
        """Give all dead letters of one cause their tries again."""
        with self._app.audit.acting(request.headers.get("x-user", "admin")):
            run = await self._app.dead.replay(group=request.path_params["group"])
        # More than a thousand are left to a job, which a worker runs.
        return JSONResponse(
            {"replayed": run.counts.changed if run.counts else None, "job": run.job and run.job.id}, 202
        )


def api(app: App, confirm: Task[[str, str], Receipt]) -> Starlette:
    """The API as an ASGI app. Put your own guard before ``/admin``."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with app:
            yield

    routes = Api(app, confirm)
    return Starlette(
        routes=[
            Route("/orders", routes.create, methods=["POST"]),
            Route("/orders/{id}", routes.show),
            Route("/admin/dead", routes.dead),
            Route("/admin/jobs/{id}/replay", routes.replay, methods=["POST"]),
            Route("/admin/groups/{group}/replay", routes.replay_group, methods=["POST"]),
        ],
        lifespan=lifespan,
    )
