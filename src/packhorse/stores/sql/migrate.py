"""Migrations: forward only, in order, each with a checksum that must not change once it was taken."""

import hashlib
from collections.abc import Callable, Mapping

import msgspec

from packhorse.errors import SchemaMismatch
from packhorse.model.layout import Standing, Step
from packhorse.stores.sql.statements import texts

_ADVICE = "run `packhorse migrate up`, or call `await store.migrate()`"


class Migration(msgspec.Struct, frozen=True):
    """One step of the layout."""

    name: str
    sql: str
    checksum: str


def migrations(package: str, **words: str) -> tuple[Migration, ...]:
    """The steps a store ships, in order; the checksum is that of the text before words are filled in."""
    plain = texts(package, "migrations")
    filled = texts(package, "migrations", **words)
    return tuple(
        Migration(name, filled[name], hashlib.sha256(text.encode()).hexdigest()[:16]) for name, text in plain.items()
    )


def pending(known: tuple[Migration, ...], taken: Mapping[str, str]) -> tuple[Migration, ...]:
    """The steps still to take; refuses a layout that this release cannot have made."""
    names = {step.name for step in known}
    if newer := sorted(set(taken) - names):
        raise SchemaMismatch(
            f"The layout has the step {newer[-1]}, which this release does not know: upgrade Packhorse"
        )
    for step in known:
        if step.name in taken and taken[step.name] != step.checksum:
            raise SchemaMismatch(
                f"The step {step.name} was changed after it was taken: install the release that made this layout"
            )
    return tuple(step for step in known if step.name not in taken)


def standing(
    known: tuple[Migration, ...], taken: Mapping[str, str], script: Callable[[Migration], str] = lambda step: step.sql
) -> list[Step]:
    """Every step, those of a newer release last, and how each stands; ``script`` is all that taking a step runs."""
    steps = [Step(step.name, script(step), _standing(step, taken)) for step in known]
    newer = sorted(set(taken) - {step.name for step in known})
    return [*steps, *(Step(name, "", Standing.UNKNOWN) for name in newer)]


def _standing(step: Migration, taken: Mapping[str, str]) -> Standing:
    if step.name not in taken:
        return Standing.PENDING
    return Standing.TAKEN if taken[step.name] == step.checksum else Standing.CHANGED


def check(known: tuple[Migration, ...], taken: Mapping[str, str]) -> None:
    """Refuse a layout with steps missing."""
    if missing := pending(known, taken):
        what = "is missing" if not taken else f"lacks the step {missing[0].name}"
        raise SchemaMismatch(f"The layout of the store {what}: {_ADVICE}")
