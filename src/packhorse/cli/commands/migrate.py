"""`packhorse migrate`: bring the layout of a store up to date."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import click

from packhorse.cli import exit_codes
from packhorse.cli.command import CommandGroup
from packhorse.cli.screen import Screen, table, with_screen
from packhorse.cli.target import CliTarget, with_target
from packhorse.model.layout import MigrationState, MigrationStep
from packhorse.stores import open_store
from packhorse.stores.contract import Store
from packhorse.stores.url import shown


@asynccontextmanager
async def unopened(target: CliTarget) -> AsyncIterator[Store]:
    """Provide the store without opening it: it may lack its layout."""
    app = target.open(migrate=True)
    store = open_store(app.url, namespace=app.namespace)
    try:
        yield store
    finally:
        await store.close()


@click.group(cls=CommandGroup)
def migrate() -> None:
    """Bring the layout of the store up to date, or show the steps."""


@migrate.command()
@with_target
@with_screen
async def up(target: CliTarget, screen: Screen) -> None:
    """Take the missing steps. Running it twice, or several times at once, is safe."""
    async with unopened(target) as store:
        taken = await store.migrate()
    line = f"Steps taken: {', '.join(taken)}." if taken else "The layout is up to date."
    screen.show({"taken": taken}, lambda: line)


@migrate.command()
@with_target
@with_screen
async def status(target: CliTarget, screen: Screen) -> None:
    """List the steps and their state; the exit code is 1 if this release cannot work with the layout."""
    async with unopened(target) as store:
        steps = await store.steps()
    screen.show(
        [{"step": step.name, "state": step.state, "compatible": step.compatible} for step in steps],
        lambda: table(
            ("step", "state", "older releases"),
            ((step.name, step.state, "work with it" if step.compatible else "refuse it") for step in steps),
        ),
    )
    if not all(step.usable for step in steps):
        click.get_current_context().exit(exit_codes.FAILED)


@migrate.command()
@click.option("--all", is_flag=True, help="Print all steps, not only the missing ones.")
@with_target
async def sql(*, all: bool, target: CliTarget) -> None:
    """Print what `migrate up` would run, for somebody with the rights to run it; change nothing."""
    async with unopened(target) as store:
        steps = await store.steps()
    wanted = [step for step in steps if step.text and (all or step.state is MigrationState.PENDING)]
    address = shown(target.url) if target.url else "the store of the app"
    click.echo(f"-- The layout of {address}: {len(wanted)} of {len(steps)} steps.")
    for step in wanted:
        click.echo(_step_text(step))


def _step_text(step: MigrationStep) -> str:
    return f"\n-- step {step.name} ({step.state})\n{step.text.strip()}"
