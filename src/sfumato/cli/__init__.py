"""The command line: every verb of the package."""

from sfumato.cli.app import cli, main

__all__ = ["cli", "main"]
