"""pgqueuer on PostgreSQL: asyncpg, batches as large as asked for, its buffered log of what was done."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import asyncpg
import orjson  # type: ignore[import-not-found]
from pgqueuer import PgQueuer  # type: ignore[import-not-found]
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver  # type: ignore[import-not-found]
from pgqueuer.queries import Queries  # type: ignore[import-not-found]

from benchmarks.sides.body import asynchronous, synchronous
from benchmarks.sides.order import DELAY, PRIORITIES, given
from benchmarks.sides.side import Side, run

body, plain = asynchronous(given()), synchronous(given())


class Here(Side):
    async def setup(self) -> None:
        connection = await asyncpg.connect(self.order.url)
        await Queries(AsyncpgDriver(connection)).install()
        await connection.close()

    async def open(self) -> None:
        self.connection = await asyncpg.connect(self.order.url)
        # Calls at the same time need as many connections.
        driver = (
            AsyncpgPoolDriver(await asyncpg.create_pool(self.order.url, min_size=10)) if self.order.together else None
        )
        self.queries = Queries(driver or AsyncpgDriver(self.connection))

    async def one(self, number: int, sent: float) -> None:
        await self.queries.enqueue("noop", orjson.dumps({"n": number, "t": sent}))

    async def many(self, numbers: Sequence[int]) -> None:
        payloads = [orjson.dumps({"n": number, "t": 0.0}) for number in numbers]
        priorities, option = [0] * len(payloads), self.order.option
        with_option: dict[str, Any] = {}
        if option == "priorities":
            priorities = [number % PRIORITIES for number in numbers]
        elif option == "unique":
            with_option = {"dedupe_key": [str(number) for number in numbers]}
        elif option == "delayed":
            with_option = {"execute_after": [timedelta(seconds=DELAY)] * len(payloads)}
        await self.queries.enqueue(["noop"] * len(payloads), payloads, priorities, **with_option)

    async def left(self) -> int:
        return await self.connection.fetchval("SELECT count(*) FROM pgqueuer")

    async def close(self) -> None:
        await self.connection.close()

    def work(self) -> None:
        run(self._work())

    async def _work(self) -> None:
        pool = await asyncpg.create_pool(self.order.url, min_size=4, max_size=10)
        worker = PgQueuer.from_asyncpg_pool(pool)

        async def noop(job: Any) -> None:
            arguments = orjson.loads(job.payload)
            await body(arguments["n"], arguments["t"])

        async def in_thread(job: Any) -> None:  # as it tells users to do
            arguments = orjson.loads(job.payload)
            await asyncio.to_thread(plain, arguments["n"], arguments["t"])

        worker.entrypoint("noop")(in_thread if self.order.work == "thread" else noop)
        await worker.run(batch_size=self.order.options["batch"])
