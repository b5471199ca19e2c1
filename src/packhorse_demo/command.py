"""`packhorse demo`: run every kind of job in a small shop."""

import os
import sys

import click

from packhorse.cli import exit_codes
from packhorse.cli.command import ADDRESS, Command
from packhorse.cli.screen import Screen, with_screen, with_yes
from packhorse_demo.demo_store import NAMESPACE, demo_store

HELP = f"""Run every kind of job in a small shop, with its own worker processes.

Every scene ends with a check of what the store holds. On a terminal the scenes repeat until Ctrl-C. Elsewhere, or with
--once, each runs once. Without --url the demo uses a temporary SQLite file; on a server it uses the namespace
{NAMESPACE}.

{exit_codes.TABLE}"""


@click.command("demo", cls=Command, help=HELP)
@click.option("--once", is_flag=True, help="Run every scene once, then end; the default without a terminal.")
@click.option("--url", help="Run the demo on this store: sqlite:///new.db, redis://…, postgresql://…")
@click.option("--keep", is_flag=True, help="Keep the jobs of the demo, to inspect them afterwards.")
@click.option("--limit", default=120.0, show_default=True, help="The most seconds for one round of all scenes.")
@with_yes
@with_screen
@click.pass_context
async def demo(
    ctx: click.Context, screen: Screen, *, once: bool, url: str | None, keep: bool, limit: float, yes: bool
) -> None:
    """Open the store of the demo, run the scenes and print the summary."""
    live = not once and not screen.json and sys.stdout.isatty()
    with demo_store(url, keep=keep) as store:
        ctx.meta[ADDRESS] = store.url
        os.environ.update(store.environment)  # the shop reads its store from there, like any app
        from packhorse_demo.run import DemoOptions, perform

        code = await perform(store, screen, DemoOptions(live=live, keep=keep, yes=yes, limit=limit))
    ctx.exit(code)
