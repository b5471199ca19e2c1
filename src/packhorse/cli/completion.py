"""``packhorse completion``: the script that teaches a shell to complete commands and options."""

import click
from click.shell_completion import get_completion_class

from packhorse.cli.frame import Command

PLACES = {
    "bash": 'eval "$(packhorse completion bash)"  # in ~/.bashrc',
    "zsh": 'eval "$(packhorse completion zsh)"  # in ~/.zshrc',
    "fish": "packhorse completion fish | source  # in ~/.config/fish/config.fish",
}
HELP = "Print what makes a shell complete commands and options. Put one line into its start file:\n\n\b\n" + "\n".join(
    f"  {line}" for line in PLACES.values()
)


@click.command("completion", cls=Command, help=HELP, short_help="Complete commands in a shell.")
@click.argument("shell", type=click.Choice(list(PLACES)))
def completion(shell: str) -> None:
    """Print the script for a shell."""
    kind = get_completion_class(shell)
    assert kind is not None
    top = click.get_current_context().find_root().command
    click.echo(f"# {PLACES[shell]}\n" + kind(top, {}, "packhorse", "_PACKHORSE_COMPLETE").source())
