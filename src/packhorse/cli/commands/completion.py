"""`packhorse completion`: print the completion script of a shell."""

import click
from click.shell_completion import get_completion_class

from packhorse.cli.command import Command

START_LINES = {
    "bash": 'eval "$(packhorse completion bash)"  # in ~/.bashrc',
    "zsh": 'eval "$(packhorse completion zsh)"  # in ~/.zshrc',
    "fish": "packhorse completion fish | source  # in ~/.config/fish/config.fish",
}
HELP = (
    "Print the script that makes a shell complete commands and options. Put one line into its start file:\n\n\b\n"
    + "\n".join(f"  {line}" for line in START_LINES.values())
)


@click.command("completion", cls=Command, help=HELP, short_help="Complete commands in a shell.")
@click.argument("shell", type=click.Choice(list(START_LINES)))
def completion(shell: str) -> None:
    """Print the script for a shell."""
    kind = get_completion_class(shell)
    assert kind is not None
    top = click.get_current_context().find_root().command
    click.echo(f"# {START_LINES[shell]}\n" + kind(top, {}, "packhorse", "_PACKHORSE_COMPLETE").source())
