"""The files of one release: all of them appear, or none."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sfumato.atomic import Draft, as_output_error, check_target, drafts
from sfumato.errors import OutputError
from sfumato.releasing.manifest import manifest_path


@dataclass(frozen=True, slots=True)
class Files:
    """Where everything goes; None for what is not written."""

    table: Path
    manifest: Path
    mechanism: Path | None
    report: Path | None
    private_report: Path | None = None

    @classmethod
    def beside(
        cls, table: Path, *, mechanism: bool = True, report: Path | None = None, private_report: Path | None = None
    ) -> Files:
        """released.csv → released.manifest.json, released.mechanism.json and released.report.html."""
        manifest = manifest_path(table)
        stem = manifest.name.removesuffix(".manifest.json")
        page = table.with_name(f"{stem}.report.html") if report is None else report
        own = table.with_name(f"{stem}.mechanism.json") if mechanism else None
        return cls(table, manifest, own, page, private_report)

    @property
    def written(self) -> dict[str, Path]:
        """Every file by its name, in the order in which they appear: the table is last."""
        named = {
            "mechanism": self.mechanism, "report": self.report, "private_report": self.private_report,
            "manifest": self.manifest, "table": self.table,
        }
        return {name: path for name, path in named.items() if path is not None}

    def check(self, inputs: Sequence[Path], *, force: bool) -> None:
        """Refuse before any work: outputs that exist, are an input, or are the same file."""
        seen: dict[str, str] = {}
        for name, path in self.written.items():
            for given in inputs:
                check_target(path, given, force=True)
            check_target(path, None, force=force)
            full = os.path.realpath(path)
            if full in seen:
                raise OutputError(f"{path} would be both the {seen[full]} and the {name}; choose another name for one.")
            seen[full] = name

    @contextlib.contextmanager
    def drafts(self) -> Iterator[dict[str, Draft]]:
        """A draft for each file; none is left behind."""
        with drafts(*self.written.values()) as made:
            yield dict(zip(self.written, made, strict=True))


def fill(draft: Draft, content: bytes, *, private: bool = False) -> None:
    """Write a draft; a private one can be read by its owner alone."""
    with as_output_error(draft.target), open(draft.descriptor, "wb", closefd=False) as file:
        if private:
            os.fchmod(draft.descriptor, 0o600)
        file.write(content)


def publish(made: dict[str, Draft], *, replace: bool) -> None:
    """Name every draft, the table last; when one cannot be named, take back those that were."""
    for draft in made.values():
        with as_output_error(draft.target):
            draft.settle()
    named: list[Path] = []
    try:
        for draft in made.values():
            new = not draft.target.exists()
            with as_output_error(draft.target):
                draft.publish(replace=replace)
            if new:
                named.append(draft.target)
    except BaseException:
        for path in named:
            path.unlink(missing_ok=True)
        raise
