"""What a side is asked to do in one trial. It travels in the environment, because some workers start themselves anew."""

import json
import os
from dataclasses import asdict, dataclass, field
from typing import Any

VARIABLE = "PACKHORSE_BENCH_ORDER"


@dataclass(frozen=True, slots=True)
class Order:
    """One trial: jobs are numbered from 0, first those that warm up, then those enqueued one by one, then the bulk."""

    url: str
    folder: str
    warm: int
    one: int
    bulk: int
    chunk: int = 500
    concurrency: int = 100
    paced: int = 0
    rate: float = 50.0
    server: int | None = None
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def backlog(self) -> int:
        """How many jobs wait for the worker when it starts."""
        return self.warm + self.one + self.bulk

    def environment(self) -> dict[str, str]:
        """The order as a variable of a process."""
        return {VARIABLE: json.dumps(asdict(self))}


def given() -> Order:
    """The order of this process."""
    return Order(**json.loads(os.environ[VARIABLE]))
