"""`packhorse doctor`: check the store, workers, queues and tasks, and suggest fixes."""

from collections.abc import AsyncIterator, Sequence

import click
from rich.console import Group, RenderableType
from rich.text import Text

from packhorse.app import App
from packhorse.cli import app_checks, exit_codes
from packhorse.cli.command import Command
from packhorse.cli.screen import Screen, plain, with_screen
from packhorse.cli.target import CliTarget, with_target
from packhorse.errors import StoreError
from packhorse.model.finding import Finding, Grade
from packhorse.stores import open_store
from packhorse.stores.contract import Store
from packhorse.stores.url import shown
from packhorse.telemetry.redact import redacted

STYLES = {Grade.OK: "green", Grade.NOTE: "cyan", Grade.WARN: "yellow", Grade.BAD: "bold red"}


@click.command(cls=Command)
@with_target
@with_screen
async def doctor(target: CliTarget, screen: Screen) -> None:
    """Check the store, its workers and queues, and the tasks, and suggest a fix for each problem.

    The exit code is 1 if a finding is bad.
    """
    app = target.open_with_tasks()
    findings = [finding async for finding in examined(app)]
    screen.show(findings, lambda: _drawn(findings))
    if any(finding.grade is Grade.BAD for finding in findings):
        click.get_current_context().exit(exit_codes.FAILED)


async def examined(app: App) -> AsyncIterator[Finding]:
    """Yield all findings; a store that cannot be used is one of them."""
    yield app_checks.release()
    yield Finding("store", shown(app.url))
    store = open_store(app.url, namespace=app.namespace)
    try:
        async for finding in _store(store):
            yield finding
    except StoreError as error:
        yield Finding(
            "using the store",
            redacted(str(error)),
            Grade.BAD,
            "fix what is bad here; check that the store runs and that its address is right",
        )
    finally:
        await store.close()
    for finding in app_checks.tasks(app):
        yield finding


async def _store(store: Store) -> AsyncIterator[Finding]:
    for finding in await store.examine():
        yield finding
    layout = app_checks.layout(await store.steps())
    yield layout
    if layout.grade is Grade.OK:
        await store.open()
        async for finding in app_checks.work(store):
            yield finding


def _drawn(findings: Sequence[Finding]) -> RenderableType:
    width = max(len(finding.name) for finding in findings)
    lines = []
    for finding in findings:
        lines.append(
            Text.assemble(
                (f"{finding.grade:<5}", STYLES[finding.grade]), f" {finding.name:<{width}}  {plain(finding.value)}"
            )
        )
        if finding.advice:
            lines.append(Text(f"{'':<{width + 6}}  fix: {finding.advice}", style="dim"))
    return Group(*lines)
