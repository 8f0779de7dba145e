"""sfumato completion: the script that completes commands, options and columns in a shell."""

from __future__ import annotations

import click

WHERE = {
    "bash": 'eval "$(sfumato completion bash)" in ~/.bashrc',
    "zsh": 'eval "$(sfumato completion zsh)" in ~/.zshrc',
    "fish": "sfumato completion fish > ~/.config/fish/completions/sfumato.fish",
}


@click.command()
@click.argument("shell", type=click.Choice(list(WHERE)))
def completion(shell: str) -> None:
    """Print the completion script of a SHELL: commands, options, methods, and the columns of the table.

    \b
    Examples:
      eval "$(sfumato completion bash)"      in ~/.bashrc
      eval "$(sfumato completion zsh)"       in ~/.zshrc
      sfumato completion fish > ~/.config/fish/completions/sfumato.fish
    """
    from click.shell_completion import get_completion_class

    from sfumato.cli.app import cli

    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(cli, {}, "sfumato", "_SFUMATO_COMPLETE").source())
