"""sfumato studio: the whole road in a browser, on this machine."""

from __future__ import annotations

from pathlib import Path

import click

from sfumato.cli.console import story
from sfumato.errors import InputError


@click.command()
@click.argument("table", type=click.Path(path_type=Path), required=False)
@click.option("--port", type=click.IntRange(1, 65535), help="Where to listen on 127.0.0.1.  [default: any free one]")
@click.option("--no-browser", is_flag=True, help="Print the address, and do not open it.")
@click.option("--ledger", type=click.Path(path_type=Path), metavar="FILE",
              help="The ledger that releases are entered in.  [default: sfumato.ledger beside TABLE]")
def studio(table: Path | None, port: int | None, no_browser: bool, ledger: Path | None) -> None:
    """Open the studio in a browser: look at TABLE, choose columns, choose ε by what it means, release, analyse.

    It serves this machine alone, to the browser that opens the printed address first, until Ctrl-C. What is dropped
    into it lies in a private folder that is removed at the end; nothing is sent anywhere.

    \b
    Example:
      sfumato studio people.csv
    """
    try:
        from sfumato.studio.server import Studio, listening, serve
    except ImportError:
        raise InputError("the studio needs starlette and uvicorn", next="Run pip install 'sfumato[studio]'.") from None
    if table is not None and not table.exists():
        raise InputError("could not be read: No such file or directory", where=table)

    def ready(address: str) -> None:
        click.echo(address)  # on a line of its own, whole
        story("The address works once, in this browser alone. Ctrl-C stops the studio and removes what it held.")
        if not no_browser:
            import webbrowser

            webbrowser.open(address)

    serve(Studio(None if table is None else table.absolute(), ledger), listening(port), ready)
