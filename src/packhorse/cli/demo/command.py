"""packhorse demo: everything at once, in a shop of its own."""

import os
import sys

import click

from packhorse.cli import exits
from packhorse.cli.demo.place import NAMESPACE, place
from packhorse.cli.frame import ADDRESS, Command
from packhorse.cli.screen import Screen, with_screen, with_yes

HELP = f"""See every kind of job run in a small shop, with worker processes of its own.

Every scene ends with a check of what the store holds. On a terminal the scenes repeat until Ctrl-C; elsewhere, or with
--once, each is played once. Without --url all happens in a temporary SQLite file; on a server, in the namespace
{NAMESPACE}.

{exits.TABLE}"""


@click.command("demo", cls=Command, help=HELP)
@click.option("--once", is_flag=True, help="Play every scene once, then end. Without a terminal it always does.")
@click.option("--url", help="Play it on this store instead: sqlite:///new.db, redis://…, postgresql://…")
@click.option("--keep", is_flag=True, help="Keep the jobs of the demo, to look at them afterwards.")
@click.option("--limit", default=120.0, show_default=True, help="Seconds that it may take to play every scene once.")
@with_yes
@with_screen
@click.pass_context
async def demo(
    ctx: click.Context, screen: Screen, *, once: bool, url: str | None, keep: bool, limit: float, yes: bool
) -> None:
    """Open a place, play, say what came of it."""
    live = not once and not screen.json and sys.stdout.isatty()
    with place(url, keep=keep) as where:
        ctx.meta[ADDRESS] = where.url
        os.environ.update(where.environment)  # the shop is a module that finds its store there, like any user's
        from packhorse.cli.demo.performance import Wishes, perform

        code = await perform(where, screen, Wishes(live=live, keep=keep, yes=yes, limit=limit))
    ctx.exit(code)
