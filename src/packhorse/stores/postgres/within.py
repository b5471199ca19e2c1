"""Verbs as one statement for a connection of the caller's own: text in, text out, whatever its driver."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from packhorse.errors import OtherDatabase, WrongIsolation
from packhorse.model import limits
from packhorse.model.ids import chosen
from packhorse.model.job import KEEP_DONE, NewJob, Receipt
from packhorse.model.lease import Lease, Settlement, Verdict
from packhorse.stores import edge
from packhorse.stores.contract import Statement
from packhorse.stores.postgres import encoding
from packhorse.stores.postgres.namespace import Namespace

T = TypeVar("T")

_ANSWER = msgspec.json.Decoder(list[tuple[int, str]] | str)
FRESH = (
    "read committed",
    "read uncommitted",
)  # the same to PostgreSQL: every statement sees what was committed before it


class PostgresWithin:
    """What can be part of a transaction of the caller's own."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace

    def enqueue(self, jobs: Sequence[NewJob]) -> Statement[list[Receipt]]:
        """Store jobs within a transaction of the caller's own."""
        edge.jobs(jobs)
        given = encoding.jobs(jobs)

        def receipts(taken: list[tuple[int, str]]) -> list[Receipt]:
            made = [Receipt(job.id, True) for job in jobs]
            for n, holder in taken:
                made[n - 1] = Receipt(bytes.fromhex(holder.replace("-", "")), False)
            return made

        runs = [msgspec.Raw(text.encode()) for text in given.texts]
        careful = given.keyed or any(chosen(job.id) for job in jobs)
        return self._statement("enqueue_within", receipts, runs=runs, keyed=given.keyed, careful=careful)

    def check(self) -> Statement[None]:
        """Refuse another database, or an isolation level under which nothing can be settled."""
        here = self._namespace

        def answered(answer: str | None) -> None:
            if (level := _known(answer)) not in FRESH:
                raise WrongIsolation(str(level))

        return Statement(here.layout.statements.check_within, here.identity, answered)

    def settle(
        self, settlements: Sequence[Settlement], notes: Sequence[tuple[Lease, bytes]] = ()
    ) -> Statement[tuple[Verdict, ...]]:
        """Write outcomes with their effects within a transaction of the caller's own."""
        edge.settlements(settlements)
        edge.notes(notes)
        given, noted = encoding.settlements(settlements), {lease.id: note.decode() for lease, note in notes}
        last = {settlement.lease.id: n for n, settlement in enumerate(settlements)}  # one statement writes a row once

        def verdicts(refused: list[tuple[int, str]]) -> tuple[Verdict, ...]:
            made = [Verdict.WRITTEN] * len(settlements)
            for n, word in refused:
                made[n - 1] = Verdict(word)
            return tuple(made)

        return self._statement(
            "settle_within",
            verdicts,
            ids=[job.hex() for job in given.ids],
            tokens=[token.hex() for token in given.tokens],
            results=[None if result is None else result.decode() for result in given.results],
            unusual=given.unusual,
            keep_count=KEEP_DONE.count,
            keep_age=KEEP_DONE.age,
            failures=limits.FAILURES,
            notes=[noted.get(one.lease.id) if last[one.lease.id] == n else None for n, one in enumerate(settlements)],
        )

    def _statement(self, name: str, read: Callable[[list[tuple[int, str]]], T], **given: object) -> Statement[T]:
        here = self._namespace
        given |= {"identity": here.identity, "log": here.events, "now": here.now()}

        def answered(answer: str | None) -> T:
            if isinstance(found := _known(answer), str):
                raise WrongIsolation(found)
            return read(found)

        return Statement(here.layout.functions.call_with_text(name), msgspec.json.encode(given).decode(), answered)


def _known(answer: str | None) -> list[tuple[int, str]] | str:
    """An answer of the store's own database; a string is the isolation level of the transaction."""
    if answer is None:
        raise OtherDatabase("The connection is to another database than the store's")
    found: list[tuple[int, str]] | str = _ANSWER.decode(answer)
    return found
