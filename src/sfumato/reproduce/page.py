"""What was reproduced, as a page: captions, verdicts and pictures."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path

from sfumato.reproduce import FIGURES

PAPERS = {
    "000": "Robust local differential privacy (000)",
    "001": "The privacy funnel with worst-case guarantees (001)",
    "002": "Robust optimisation for distortion (002)",
    "003": "Hamming distortion over source sets (003)",
    "004": "The alphabet of leakage measures (004)",
}
_HEAD = """# The papers, reproduced

Made by `make reproduce` (quick versions; `sfumato reproduce NAME --full` takes the papers' counts). Every entry is one
command, which writes data, a picture and the verdict below, computed in that run. Where a verdict names a correction,
[corrections](corrections.md) says what is wrong in print and why.
"""


def write_page(path: Path, verdicts: Mapping[str, str], folder: Path) -> None:
    """The page in Markdown, with links to the pictures that were made in the folder."""
    parts = [_HEAD]
    for paper, names in groupby(sorted(verdicts), lambda name: name[:3]):
        parts.append(f"## {PAPERS[paper]}\n")
        parts += [_entry(name, verdicts[name], folder, path.parent) for name in names]
    path.write_text("\n".join(parts), encoding="utf-8")


def _entry(name: str, verdict: str, folder: Path, here: Path) -> str:
    caption = (importlib.import_module(FIGURES[name]).__doc__ or "").strip().splitlines()[0]
    caption = re.sub(r"^\[?\d{3},? (Fig\. \d|Figure \d|Table \d|Example \d)\]?: ", "", caption)
    caption = caption[0].upper() + caption[1:]
    made = folder / f"{name}.png"
    picture = f"\n![{caption}]({Path(os.path.relpath(made, here)).as_posix()})\n" if made.exists() else ""
    return f"### {name}\n\n{caption}\n\n> {verdict.removeprefix(name + ': ')}\n{picture}"
