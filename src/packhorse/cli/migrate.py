"""`packhorse migrate`: the layout of the store."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import click

from packhorse.cli import exits
from packhorse.cli.frame import Group
from packhorse.cli.screen import Screen, table, with_screen
from packhorse.cli.target import Target, with_target
from packhorse.model.layout import Standing, Step
from packhorse.stores import open_store
from packhorse.stores.contract import Store
from packhorse.stores.url import shown


@asynccontextmanager
async def unopened(target: Target) -> AsyncIterator[Store]:
    """The store, which may lack its layout."""
    app = target.open(migrate=True)
    store = open_store(app.url, namespace=app.namespace)
    try:
        yield store
    finally:
        await store.close()


@click.group(cls=Group)
def migrate() -> None:
    """Bring the layout of the store up to date, or see what that takes."""


@migrate.command()
@with_target
@with_screen
async def up(target: Target, screen: Screen) -> None:
    """Take the steps that are missing. It does no harm if none is, or if several do it at once."""
    async with unopened(target) as store:
        taken = await store.migrate()
    told = f"Steps taken: {', '.join(taken)}." if taken else "The layout is up to date."
    screen.show({"taken": taken}, lambda: told)


@migrate.command()
@with_target
@with_screen
async def status(target: Target, screen: Screen) -> None:
    """List the steps and how they stand; the exit code is 1 unless all are taken and none is unknown."""
    async with unopened(target) as store:
        steps = await store.steps()
    screen.show(
        [{"step": step.name, "standing": step.standing} for step in steps],
        lambda: table(("step", "standing"), ((step.name, step.standing) for step in steps)),
    )
    if any(step.standing is not Standing.TAKEN for step in steps):
        click.get_current_context().exit(exits.FAILED)


@migrate.command()
@click.option("--all", is_flag=True, help="All steps, not only those still to take.")
@with_target
async def sql(*, all: bool, target: Target) -> None:
    """Print what `migrate up` would run, for somebody with the rights to run it. Changes nothing."""
    async with unopened(target) as store:
        steps = await store.steps()
    wanted = [step for step in steps if step.text and (all or step.standing is Standing.PENDING)]
    address = shown(target.url) if target.url else "the store of the app"
    click.echo(f"-- The layout of {address}: {len(wanted)} of {len(steps)} steps.")
    for step in wanted:
        click.echo(_told(step))


def _told(step: Step) -> str:
    return f"\n-- step {step.name} ({step.standing})\n{step.text.strip()}"
