"""The files of one release: all of them appear, or none; and what earlier ones in their folder tell with it."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import msgspec

from sfumato.certification.outward import log_up
from sfumato.certification.together import anywhere, drawn_for
from sfumato.composing.composition import AS_GOOD_AS_KNOWN
from sfumato.decimals import at_most
from sfumato.drawing.manifest import manifest_path, mechanism_beside
from sfumato.errors import WHOLE, OutputError, SfumatoError
from sfumato.estimation.tally import manifest_beside
from sfumato.mechanism import Bundle, Mechanism, load
from sfumato.mechanism.bundle import any_record
from sfumato.releasing.notices import Notice
from sfumato.releasing.targets import Drafted, all_drafted, check_place
from sfumato.releasing.writing import Made, is_folder, writer_for
from sfumato.sources import Source, Where


@dataclass(frozen=True, slots=True)
class Files:
    """Where everything goes; None for what is not written."""

    table: Where
    manifest: Where
    mechanism: Where | None = None
    report: Where | None = None
    private_report: Path | None = None
    partition: tuple[str, ...] = ()
    raw_cells: bool = False
    tables: Where | None = None  # of estimates, for a spreadsheet

    @classmethod
    def beside(
        cls, table: Where, *, mechanism: bool = True, report: Path | bool = True, private_report: Path | None = None,
        partition: tuple[str, ...] = (), raw_cells: bool = False, tables: bool = False,
    ) -> Files:
        """released.csv → released.manifest.json, .mechanism.json, .report.html and .tables.csv."""
        writer_for(table, partition)  # says now if the suffix is not known
        manifest = manifest_path(table)
        stem = manifest.name.removesuffix(".manifest.json")
        usual = table.with_name(f"{stem}.report.html") if report and can_report() else None
        page = usual if isinstance(report, bool) else report
        own = mechanism_beside(table) if mechanism else None
        figures = table.with_name(f"{stem}.tables.csv") if tables else None
        return cls(table, manifest, own, page, private_report, partition, raw_cells, figures)

    @property
    def folder(self) -> bool:
        """Whether the table is a folder of Parquet files."""
        return is_folder(self.table, self.partition)

    @property
    def writer(self) -> Made:
        return writer_for(self.table, self.partition, raw=self.raw_cells)

    @property
    def written(self) -> dict[str, Where]:
        """Every file by its name, in the order in which they appear: the table is last."""
        named = {
            "mechanism": self.mechanism, "report": self.report, "private_report": self.private_report,
            "tables": self.tables,
            "manifest": self.manifest, "table": self.table,
        }
        return {name: path for name, path in named.items() if path is not None}

    def check(self, inputs: Sequence[Where | None], *, force: bool) -> None:
        """Refuse before any work: outputs that exist, are an input, or are the same file."""
        seen: dict[str, str] = {}
        for name, path in self.written.items():
            folder = self.folder and name == "table"
            for given in (x for x in inputs if x is not None):
                check_place(path, given, force=True, folder=folder)
            check_place(path, None, force=force, folder=folder)
            full = os.path.realpath(path) if isinstance(path, Path) else str(path)
            if full in seen:
                raise OutputError(
                    f"would be both the {seen[full]} and the {name}", next="Choose another name for one.", where=path
                )
            seen[full] = name

    @contextlib.contextmanager
    def drafts(self) -> Iterator[dict[str, Drafted]]:
        """A draft for each file; none is left behind."""
        with all_drafted(list(self.written.values()), folder=self.table if self.folder else None) as made:
            yield dict(zip(self.written, made, strict=True))


def can_report() -> bool:
    """Whether there is what a report needs; where only releases are made (sfumato-release) they come without one."""
    return all(find_spec(name) is not None for name in WHOLE)


def mechanism_bytes(mechanism: Mechanism | Bundle) -> bytes:
    """The content of the file of a mechanism, or of a bundle."""
    return msgspec.json.format(msgspec.json.encode(any_record(mechanism)), indent=1) + b"\n"


# --- earlier releases that lie beside a new one: what they tell together, where no ledger counts them -----------------


LOOKED = 20  # mechanism files that are opened


def released_already(source: Source) -> Notice | None:
    """What to say of a table that is a release itself, by its manifest: the one beside it that fits its size, or that
    which an Arrow table or a frame carries."""
    try:
        found = manifest_beside(source)
    except SfumatoError:  # a manifest of another table, or none
        return None
    if found is None:
        return None
    return Notice("This table is a release already", (
        f"By its manifest {source.name} holds answers of a mechanism ({found.mechanism[:12]}…), not what people said. "
        "Noise on noise protects nobody more, and what is estimated from the new release are the answers in this one.",
        "To publish it, nothing more is needed; for another release, give the table that it was made from.",
    ))


def earlier_releases(files: Files, mechanism: Mechanism | Bundle) -> tuple[str, ...]:
    """A sentence about mechanisms for the same secret in the folder of the release; none where there are none.

    Levels for any distribution add up, whatever the columns and the counts of each were; noisy counts that were used
    again are paid for once.
    """
    folder = files.mechanism.parent if isinstance(files.mechanism, Path) else None
    found: list[tuple[str, Mechanism | Bundle]] = []
    for path in [] if folder is None else sorted(folder.glob("*.mechanism.json"))[:LOOKED]:
        if path == files.mechanism:
            continue
        try:
            other = load(path)
        except SfumatoError:
            continue
        if {*other.secret.names} & {*mechanism.secret.names}:  # whatever labels each of them told
            found.append((path.name, other))
    if not found:
        return ()
    every = [mechanism, *(other for _, other in found)]
    total = math.fsum(log_up(anywhere(m).ratio) for m in every) + drawn_for(every)[0]
    names = ", ".join(name for name, _ in found)
    what = "together they tell it to whoever knows the other values" if total > AS_GOOD_AS_KNOWN else (
        f"together they tell at most {at_most(total, 4)} nats, whoever looks"
    )
    return (f"about the same secret there is {names}: if these are the same people, {what} (sfumato compose)",)
