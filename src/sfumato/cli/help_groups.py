"""Help in groups: a command with many options shows them by what they are about."""

from __future__ import annotations

import click

GROUPS = {
    "Columns and files": (
        "secret", "useful", "keep", "out", "partition", "decode", "raw_cells", "form", "counts", "source", "origin",
        "mechanism", "report", "private_report", "publisher",
    ),
    "The promise": ("epsilon", "at_most", "notion", "confidence", "reads", "releases"),
    "What the mechanism is designed from": (
        "design", "design_epsilon", "design_from", "split", "public", "delta",
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
