"""Reproduce: figures and tables of the papers, one file each; `sfumato reproduce NAME` makes them.

A figure's module has `make(folder, **options) -> list[Path]`: it writes its data (CSV) and its picture into the folder.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from sfumato.errors import unknown

FIGURES: dict[str, tuple[str, str]] = {  # name: (module, what it shows)
    "004-fig1": ("leakage_figure", "Maximal (α, β)-leakage and its relatives over the orders [004, Fig. 1]"),
}


def make(name: str, folder: Path, **options: Any) -> list[Path]:
    """Make a figure in a folder; the files that were written."""
    if name not in FIGURES:
        raise unknown("a figure", name, FIGURES)
    made: list[Path] = importlib.import_module(f"sfumato.reproduce.{FIGURES[name][0]}").make(folder, **options)
    return made
