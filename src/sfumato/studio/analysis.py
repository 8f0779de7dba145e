"""Analysis: somebody's release, verified and read: estimates, tables, odds ratios, synthetic records."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from sfumato.certification import verify
from sfumato.certification.certificate import PROVED
from sfumato.decimals import LEVEL, MISSING, level, near, percent
from sfumato.errors import InputError, SfumatoError, listed
from sfumato.estimation import Estimate, estimate
from sfumato.estimation.result import NOTE
from sfumato.mechanism import load
from sfumato.releasing.writing import output, writer_for
from sfumato.reporting import consequences
from sfumato.sources import Source, open_source
from sfumato.tolerances import LINES

if TYPE_CHECKING:
    from sfumato.alphabet import Label
    from sfumato.estimation.bundle_tables import BundleEstimate
    from sfumato.frames import Record
    from sfumato.mechanism import Bundle, Mechanism

FORMATS = {"sfumato/mechanism": "mechanism", "sfumato/bundle": "mechanism", "sfumato/manifest": "manifest"}
LARGEST_JSON = 1 << 28  # bytes of a mechanism file or manifest
MOST_RECORDS = 10_000_000  # synthetic ones, which are held in memory


def _kind(path: Path) -> str | None:
    if path.suffix.lower() != ".json" or path.stat().st_size > LARGEST_JSON:
        return None
    try:
        found = json.loads(path.read_bytes())
        return FORMATS.get(str(found.get("format")), "unknown") if isinstance(found, dict) else "unknown"
    except (ValueError, RecursionError):
        return "mechanism"  # what is wrong with it is said by whoever reads mechanism files


@dataclass(slots=True, eq=False)
class Analysis:
    """A release that somebody brought, opened."""

    file: Path
    mechanism: Mechanism | Bundle
    source: Source | None  # the released table, if it was brought
    found: Estimate | BundleEstimate | None = None

    @classmethod
    def opened(cls, paths: Iterable[Path]) -> Analysis:
        """Which file is which is told by what it says of itself."""
        kinds = {path: _kind(path) for path in paths}
        tables = [path for path, kind in kinds.items() if kind is None]
        laws = [path for path, kind in kinds.items() if kind == "mechanism"]
        if not laws:
            raise InputError("the mechanism file of the release is missing (NAME.mechanism.json): nothing can be "
                             "verified or estimated without it.")
        if len(tables) > 1:
            raise InputError(f"one released table at a time: {listed([t.name for t in tables])} are {len(tables)}.")
        return cls(laws[-1], load(laws[-1]), open_source(tables[0]) if tables else None)

    def verdict(self) -> Record:
        """What `sfumato verify` says of the mechanism file."""
        made = self.mechanism
        try:
            proof = verify(self.file)
        except SfumatoError as error:
            return {"holds": False, "title": "The claim was not proved", "lines": [error.text(shell=True)]}
        lines = [f"{level(proof.level, LEVEL)}, from the integers in {self.file.name}."]
        lines += [f"{level(other.level, LEVEL)} ({other.within})." for other in proof.also]
        lines += [f"It rests on: {proof.basis}."] if proof.basis != PROVED else []
        lines += consequences(made, proof)
        return {"holds": True, "title": f"Holds: {made.claim.sentence if made.claim else proof.title}", "lines": lines}

    def estimated(self, source: Source, decode: str | None) -> Record:
        """Every column by itself, and what can be asked."""
        self.found = estimate(source, self.mechanism, decode=decode)
        found = self.found
        names = [c.name for c in found.columns] if isinstance(found, Estimate) else list(found.columns)
        return {
            "n": f"{found.n:,}", "names": names, "tables": [self.table([name]) for name in names],
            "notes": list(getattr(found, "notes", ())), "synthetic": NOTE,
        }

    def table(self, names: Sequence[str]) -> Record:
        """The estimated table of some columns; of two also the shares of the first within the second."""
        made = self._found().table(*names)
        low, high = (x.ravel() for x in made.interval())
        cells = zip(product(*(c.labels for c in made.columns)), made.p.ravel(), low, high, strict=True)
        place = [made.names.index(n) for n in names]
        rows = [_row([labels[i] for i in place], *x) for labels, *x in sorted(cells, key=lambda cell: -cell[1])]
        out: Record = {"names": list(names), "rows": rows[:LINES], "more": max(len(rows) - LINES, 0),
                       "within": [], "identified": made.identified, "test": ""}
        if len(names) == 2 and made.identified:
            within = made.shares(names[1], together=True)
            out["within"] = [
                _row([str(x[n]) for n in names], e, a, b) for x, e, a, b in
                zip(within.labels, within.estimate, within.low, within.high, strict=True) if e == e
            ][:LINES]
            out["test"] = repr(made.independence()).strip("<>")
        return out

    def odds(self, names: Sequence[str]) -> Record:
        """Odds ratios of two columns."""
        found = self._found().table(*names).odds_ratios()
        rows = [
            {"labels": [str(x[n]) for n in names], "words": f"{_odds(e)} ({_odds(a)} to {_odds(b)})"} for x, e, a, b in
            zip(found.labels, found.estimate.tolist(), found.low.tolist(), found.high.tolist(), strict=True)
        ]
        return {"names": list(names), "rows": rows[:LINES], "more": max(len(rows) - LINES, 0)}

    def synthetic(self, rows: int, to: Path) -> Path:
        """Synthetic records in a file."""
        found = self._found()
        if not 0 < rows <= MOST_RECORDS:
            raise InputError(f"the number of records must be a whole number from 1 to {MOST_RECORDS:,}", value=rows)
        with output(writer_for(to), lambda name: pa.OSFile(str(to), "wb"), to) as write:
            for batch in found.synthesise(rows).to_batches():
                write(batch)
        return to

    def _found(self) -> Estimate | BundleEstimate:
        if self.found is None:
            raise InputError("there is no released table to estimate from", next="Add it to the mechanism file.")
        return self.found


def _row(labels: Sequence[Label], share: float, low: float, high: float) -> Record:
    return {"label": " · ".join(x or MISSING for x in labels), "share": float(share), "low": float(low),
            "high": float(high), "words": f"{percent(share, 1)} ({percent(low, 1)} to {percent(high, 1)})"}


def _odds(x: float) -> str:
    return "unknown" if math.isnan(x) else near(x, 3)
