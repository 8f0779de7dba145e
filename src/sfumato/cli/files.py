"""The files of one release: all of them appear, or none."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sfumato.errors import OutputError
from sfumato.releasing.manifest import manifest_path
from sfumato.releasing.targets import Drafted, all_drafted, check_place, publish_all
from sfumato.releasing.writing import Made, is_folder, writer_for
from sfumato.sources import Where


@dataclass(frozen=True, slots=True)
class Files:
    """Where everything goes; None for what is not written."""

    table: Where
    manifest: Where
    mechanism: Where | None
    report: Where | None
    private_report: Path | None = None
    partition: tuple[str, ...] = ()
    raw_cells: bool = False

    @classmethod
    def beside(
        cls, table: Where, *, mechanism: bool = True, report: Path | None = None, private_report: Path | None = None,
        partition: tuple[str, ...] = (), raw_cells: bool = False,
    ) -> Files:
        """released.csv → released.manifest.json, released.mechanism.json and released.report.html."""
        manifest = manifest_path(table)
        stem = manifest.name.removesuffix(".manifest.json")
        page = table.with_name(f"{stem}.report.html") if report is None else report
        own = table.with_name(f"{stem}.mechanism.json") if mechanism else None
        return cls(table, manifest, own, page, private_report, partition, raw_cells)

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
            "manifest": self.manifest, "table": self.table,
        }
        return {name: path for name, path in named.items() if path is not None}

    def check(self, inputs: Sequence[Where], *, force: bool) -> None:
        """Refuse before any work: outputs that exist, are an input, or are the same file."""
        seen: dict[str, str] = {}
        for name, path in self.written.items():
            folder = self.folder and name == "table"
            for given in inputs:
                check_place(path, given, force=True, folder=folder)
            check_place(path, None, force=force, folder=folder)
            full = os.path.realpath(path) if isinstance(path, Path) else str(path)
            if full in seen:
                raise OutputError(f"{path} would be both the {seen[full]} and the {name}; choose another name for one.")
            seen[full] = name

    @contextlib.contextmanager
    def drafts(self) -> Iterator[dict[str, Drafted]]:
        """A draft for each file; none is left behind."""
        with all_drafted(list(self.written.values()), folder=self.table if self.folder else None) as made:
            yield dict(zip(self.written, made, strict=True))


def fill(draft: Drafted, content: bytes, *, private: bool = False) -> None:
    """Write a draft; a private one can be read by its owner alone."""
    draft.fill(content, private=private)


def publish(made: Mapping[str, Drafted], *, replace: bool) -> None:
    """Name every draft, the table last; when one cannot be named, take back those that were."""
    publish_all(list(made.values()), replace=replace)
