"""The command `sfumato`: finds its verbs when they are asked for, and turns errors into messages and exit codes."""

from __future__ import annotations

import importlib
import io
import os
import shutil
import signal
import sys
import traceback
import warnings
from types import FrameType
from typing import Any, NoReturn

import click

from sfumato import __version__
from sfumato.cli.console import LONGEST_LINE, printable
from sfumato.errors import MissingPackage, SfumatoError, bug, did_you_mean, out_of_memory

__all__ = ["cli", "main"]

# Each is the command of the same name; listing them imports none of them.
COMMANDS = {
    "release": "Release a table with a secret column protected: the main job, end to end.",
    "plan": "Say what estimates from a release will be worth, and what would help, before it is made.",
    "design": "Design a mechanism from a table or from counts, and save it.",
    "verify": "Prove the claim of a mechanism file anew, from the file alone.",
    "compose": "Prove what several releases of the same rows tell together.",
    "ledger": "Show and settle what has been released about whom.",
    "survey": "Make a survey page from questions: answers are randomised on the respondent's device.",
    "collect": "Collect randomised answers: a small server, invitations, a table at the end.",
    "respond": "Draw randomised answers for scripts, on the respondent's side.",
    "estimate": "Estimate the true distribution from a released table, with intervals.",
    "synthesise": "Draw records of the original columns from the distribution estimated from a release.",
    "studio": "Do all of this in a browser, on this machine.",
    "inspect": "Show what a mechanism file is, promises and means.",
    "compare": "Compare every mechanism over a range of ε: what it keeps, what one can estimate.",
    "report": "Make the public page again, from the mechanism file and the released rows alone.",
    "leak": "Measure what a mechanism leaks, by every measure there is.",
    "audit": "Attack a mechanism or a released table: can its promise be falsified?",
    "reproduce": "Reproduce a figure of a paper, with data and a verdict.",
    "demo": "Walk the whole road on real counts, and leave files to look at.",
    "completion": "Print the completion script of a shell.",
}
# The file of a command that stands beside another; the others have a file of their own name.
HOMES = {
    "plan": "design", "compare": "design", "verify": "inspect", "collect": "survey", "respond": "survey",
    "report": "afterwards", "synthesise": "afterwards", "compose": "afterwards", "ledger": "afterwards",
    "audit": "leak", "studio": "demo", "reproduce": "demo",
}
EXIT_CODES = {
    0: "done; for verify: the claim holds",
    1: "another problem",
    2: "wrong usage, or a file or column that does not fit",
    3: "rows that do not fit: none, missing or unseen values",
    4: "the mechanism file was edited or is not one",
    5: "a privacy claim does not hold, or a budget would be exceeded",
    6: "the output could not be written",
    70: "a bug in sfumato",
    130: "interrupted (Ctrl-C)",
    143: "terminated",
}
BUG, INTERRUPTED, TERMINATED = 70, 128 + signal.SIGINT, 128 + signal.SIGTERM


class Terminated(BaseException):
    """The system asked the process to end; raised so that hidden drafts are removed on the way out."""


class Commands(click.Group):
    """A group whose commands are imported on first use, and whose errors end in one message and one exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        found = super().get_command(ctx, name)
        if found is None and name in COMMANDS:
            found = getattr(importlib.import_module(f"sfumato.cli.{HOMES.get(name, name)}"), name)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            near = did_you_mean(args[0], COMMANDS)
            raise click.UsageError(f"{args[0]!r} is not a command ({', '.join(COMMANDS)}). {near}".rstrip(), ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), text) for code, text in EXIT_CODES.items()])

    def main(  # type: ignore[override]  # click declares overloads by standalone_mode; they mean the same
        self, args: Any = None, prog_name: str | None = None, **extra: Any
    ) -> Any:
        if not extra.pop("standalone_mode", True):
            return super().main(args, prog_name, standalone_mode=False, **extra)
        _prepare_streams()
        try:
            code = super().main(args, prog_name, standalone_mode=False, **extra)
            sys.stdout.flush()
        except BaseException as error:
            _leave(error)
        sys.exit(code if isinstance(code, int) else 0)


GROUPS = {
    "Columns and files": (
        "secret", "useful", "keep", "out", "partition", "decode", "raw_cells", "form", "counts", "source", "origin",
        "mechanism", "report", "private_report", "publisher",
    ),
    "The promise": ("epsilon", "at_most", "notion", "confidence", "reads", "releases"),
    "What the mechanism is designed from": (
        "design", "design_epsilon", "design_from", "split", "public", "delta", "counts_in",
    ),
    "How it is designed": (
        "method", "aim", "time_limit", "gap", "distance", "values", "outputs", "columns", "assuming",
    ),
    "How values are read": (
        "bins", "labels", "rare", "missing", "unseen", "numbers", "na", "delimiter", "encoding", "decimal",
        "dates", "sheet",
    ),
    "Releasing more than once": ("people", "budget", "ledger", "same_values", "memoise", "person"),
}


class Grouped(click.Command):
    """A command whose options are listed in GROUPS; those in none come last."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        left = {str(p.name): record for p in self.get_params(ctx) if (record := p.get_help_record(ctx)) is not None}
        for title, names in GROUPS.items():
            found = [left.pop(name) for name in names if name in left]
            if found:
                with formatter.section(title):
                    formatter.write_dl(found)
        if left:
            with formatter.section("Other options"):
                formatter.write_dl(list(left.values()))


def _prepare_streams() -> None:
    """Labels and Greek letters must not stop a command where the terminal cannot show them."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _leave(error: BaseException) -> NoReturn:
    """One message on stderr, and the exit code of the error. Rows are never shown."""
    if isinstance(error, SystemExit):
        raise error
    if isinstance(error, click.ClickException):
        shown = io.StringIO()
        error.show(shown)
        click.echo(printable(shown.getvalue()), err=True, nl=False)
        sys.exit(error.exit_code)
    if isinstance(error, BrokenPipeError):
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - the reader has left; nothing more to flush
        sys.exit(1)
    text, code = _message(error)
    text = printable(text)
    if sys.stderr.isatty():
        text = click.wrap_text(text, min(shutil.get_terminal_size().columns, LONGEST_LINE), preserve_paragraphs=True)
    click.echo(text, err=True)
    sys.exit(code)


def _message(error: BaseException) -> tuple[str, int]:
    if isinstance(error, ModuleNotFoundError):
        error = MissingPackage.after(error) or error
    if isinstance(error, SfumatoError):
        return f"Error: {error.text(shell=True)}", error.exit_code
    if isinstance(error, (click.Abort, KeyboardInterrupt)):
        return "interrupted: what was not finished was discarded.", INTERRUPTED
    if isinstance(error, Terminated):
        return "terminated: what was not finished was discarded.", TERMINATED
    if isinstance(error, MemoryError):
        return _message(out_of_memory())
    if os.environ.get("SFUMATO_TRACEBACK"):
        return "".join(traceback.format_exception(error)), BUG
    return (
        f"Error: {bug(error)}\n\nSet SFUMATO_TRACEBACK=1 to see the traceback; it may contain values of private rows.",
        BUG,
    )


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    raise Terminated


@click.group(
    name="sfumato", cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(__version__, prog_name="sfumato")
def cli() -> None:
    """Release tables so that a secret column cannot be inferred beyond a proved limit.

    \b
    Example:
      sfumato release people.csv --secret diagnosis --epsilon 1 --out released.csv
      sfumato verify released.mechanism.json
      sfumato estimate released.csv
    """


def main() -> None:
    """The entry point."""
    if not sys.warnoptions:
        warnings.simplefilter("ignore")  # warnings of libraries are for developers: python -W default shows them
    signal.signal(signal.SIGTERM, _terminate)
    cli.main(prog_name="sfumato")


WHERE = {
    "bash": 'eval "$(sfumato completion bash)" in ~/.bashrc',
    "zsh": 'eval "$(sfumato completion zsh)" in ~/.zshrc',
    "fish": "sfumato completion fish > ~/.config/fish/completions/sfumato.fish",
}


@cli.command()
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

    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(cli, {}, "sfumato", "_SFUMATO_COMPLETE").source())
