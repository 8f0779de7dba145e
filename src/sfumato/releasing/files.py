"""The files of one release: all of them appear, or none; and what earlier ones in their folder tell with it."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.atomic import (
    ELSEWHERE,
    OTHERWISE,
    Drafted,
    FileDraft,
    FolderDraft,
    as_output_error,
    check_folder,
    check_target,
    drafts,
    publish_all,
)
from sfumato.certification.together import tell_at_most
from sfumato.composing.composition import AS_GOOD_AS_KNOWN
from sfumato.decimals import BITS, nats
from sfumato.drawing.manifest import file_beside
from sfumato.errors import WHOLE, OutputError, SfumatoError, listed
from sfumato.estimation.result import NOTE
from sfumato.estimation.tally import manifest_beside
from sfumato.mechanism import Bundle, Mechanism, load
from sfumato.releasing.wishes import Notice
from sfumato.releasing.writing import Made, is_folder, output, writer_for
from sfumato.sources import Source, Where
from sfumato.sources.places import Place, files_below, kind_of, size_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import NativeFile

    from sfumato.estimation.bundle_tables import BundleEstimate
    from sfumato.estimation.result import Estimate


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
        inputs: Sequence[Where | None] | None = None, force: bool = False,
    ) -> Files:
        """released.csv → released.manifest.json, .mechanism.json, .report.html and .tables.csv; nothing may be in the
        way of these, least of all the `inputs`, unless nobody says what they are."""
        writer_for(table, partition)  # says now if the suffix is not known
        usual = file_beside(table, "report.html") if report and can_report() else None
        made = cls(
            table, file_beside(table, "manifest.json"), file_beside(table, "mechanism.json") if mechanism else None,
            usual if isinstance(report, bool) else report, private_report, partition, raw_cells,
            file_beside(table, "tables.csv") if tables else None,
        )
        if inputs is not None:
            made._check([x for x in inputs if x is not None], force)
        return made

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

    def _check(self, inputs: Sequence[Where], force: bool) -> None:
        """Refuse before any work: outputs that exist, are an input, or are the same file."""
        seen: dict[str, str] = {}
        for name, path in self.written.items():
            folder = self.folder and name == "table"
            for given in inputs:
                _check_apart(path, given)
            check_place(path, force=force, folder=folder)
            full = os.path.realpath(path) if isinstance(path, Path) else str(path)
            if full in seen:
                raise OutputError(
                    f"would be both the {seen[full]} and the {name}", next="Choose another name for one.", where=path
                )
            seen[full] = name

    @contextlib.contextmanager
    def drafts(self) -> Iterator[dict[str, Drafted]]:
        """A draft for each file; none is left behind."""
        wanted = [(path, _maker(path, self.folder and name == "table")) for name, path in self.written.items()]
        with drafts(wanted) as made:
            yield dict(zip(self.written, made, strict=True))

    def publish(self, table: pa.Table, described: Callable[[int], bytes], *, force: bool) -> None:
        """A table that is there already, and the manifest that is said of so many bytes."""
        with self.drafts() as made:
            with output(self.writer, made["table"].open, made["table"].target) as write:
                for batch in table.to_batches():
                    write(batch)
            made["manifest"].fill(described(made["table"].size))
            publish_all(list(made.values()), replace=force)


def synthesised(
    found: Estimate | BundleEstimate, law: Mechanism | Bundle, rows: int, files: Files, *, seed: int | None = None,
    force: bool = False,
) -> pa.Table:
    """Records drawn from an estimate, written with a manifest that says that they are synthetic."""
    table = found.synthesise(rows, seed=seed)
    told = {
        "format": "sfumato/synthetic", "version": 1, "rows": rows, "columns": table.column_names,
        "estimated_from": found.n, "mechanism": law.checksum, "note": NOTE,
    }
    files.publish(table, lambda size: (json.dumps(told, indent=1, ensure_ascii=False) + "\n").encode(), force=force)
    return table


def can_report() -> bool:
    """Whether there is what a report needs; where only releases are made (sfumato-release) they come without one."""
    return all(find_spec(name) is not None for name in WHOLE)


# --- where they go: nothing may be in the way, and objects in a store are drafted too ---------------------------------


def check_place(target: Where, *, force: bool, folder: bool = False) -> None:
    """Refuse to write over something without force, or where nothing can be written."""
    if isinstance(target, Path) and not folder:
        check_target(target, None, force=force)
        return
    found = kind_of(target)
    if found == "nothing":
        if isinstance(target, Path):
            check_folder(target)
        return
    if folder != (found == "folder"):
        raise OutputError(f"is a {found}", next="Give another name.", where=target)
    if folder and isinstance(target, Path) and not any(target.iterdir()):
        return
    if not force:
        raise OutputError("exists", next=OTHERWISE, where=target)
    if folder:
        _check_replaceable(target)


def _check_apart(target: Where, source: Where) -> None:
    """Neither may be the other, nor lie in it: a folder that is replaced would take the input with it."""
    if isinstance(target, Path) != isinstance(source, Path):
        return
    if isinstance(target, Path) and isinstance(source, Path):
        if target.exists() and source.exists() and os.path.samefile(target, source):
            raise OutputError("is the input", next=ELSEWHERE, where=target)
        ends = [str(p.resolve()) for p in (target, source)]
    else:
        assert isinstance(target, Place) and isinstance(source, Place)
        if target.filesystem != source.filesystem:
            return
        ends = [target.path, source.path]
    out, given = ends
    if out == given or given.startswith(f"{out}/"):
        raise OutputError("is the input", next=ELSEWHERE, where=target)
    if out.startswith(f"{given}/"):
        raise OutputError(
            f"lies inside the input {source}", next="Choose a place outside; nothing was released.", where=target
        )


def _check_replaceable(target: Where) -> None:
    """A folder is replaced only if it holds Parquet files and nothing else."""
    odd = [parts for parts in files_below(target) if not parts[-1].lower().endswith(".parquet")]
    if odd:
        raise OutputError(
            f"holds other files than Parquet ones, such as {'/'.join(odd[0])}: it is not replaced",
            next="Remove it yourself, or choose another name.", where=target,
        )


@dataclass(slots=True)
class StoreDraft:
    """Files being written in a store under a hidden name, and moved one by one.

    A single object appears whole. A folder in a store is a set of objects: they appear one after the other.
    """

    target: Place
    folder: bool = False
    names: list[str] = field(default_factory=list)
    moved: list[Place] = field(default_factory=list)
    streams: list[NativeFile] = field(default_factory=list)
    token: str = field(default_factory=lambda: secrets.token_hex(6))

    @property
    def hidden(self) -> Place:
        return self.target.with_name(f".{self.target.name}.{self.token}.part")

    def _draft(self, name: str) -> Place:
        return self.hidden / name if name else self.hidden

    @property
    def size(self) -> int:
        with as_output_error(self.target):
            return sum(size_of(self._draft(name)) for name in self.names)

    def open(self, name: str) -> NativeFile:
        place = self._draft(name)
        if name:
            place.filesystem.create_dir(place.path.rpartition("/")[0], recursive=True)
        stream = place.filesystem.open_output_stream(place.path)
        self.names.append(name)
        self.streams.append(stream)
        return stream

    def fill(self, content: bytes, *, private: bool = False) -> None:
        with as_output_error(self.target), self.open("") as stream:
            stream.write(content)

    def settle(self) -> None:
        """A closed stream is what a store calls settled."""

    def publish(self, *, replace: bool) -> None:
        if not replace and self.target.exists():
            raise FileExistsError(str(self.target))
        if replace and self.folder and self.target.exists():
            self.target.filesystem.delete_dir(self.target.path)
        for name in self.names:
            place = self.target / name if name else self.target
            if name:
                place.filesystem.create_dir(place.path.rpartition("/")[0], recursive=True)
            place.filesystem.move(self._draft(name).path, place.path)
            self.moved.append(place)

    def withdraw(self) -> None:
        for place in self.moved:
            with contextlib.suppress(OSError):
                place.filesystem.delete_file(place.path)

    def drop(self) -> None:
        """Close what is open (a store cannot abort an upload through Arrow) and delete it."""
        for stream in self.streams:
            with contextlib.suppress(OSError, ValueError):
                stream.close()
        for name in self.names:
            with contextlib.suppress(OSError):
                self.target.filesystem.delete_file(self._draft(name).path)
        if self.folder:
            with contextlib.suppress(OSError):
                self.hidden.filesystem.delete_dir(self.hidden.path)


def _maker(target: Where, folder: bool) -> Callable[[], Drafted]:
    """What makes the draft of a target: a file or a folder here, or objects in a store."""
    if isinstance(target, Place):
        return partial(StoreDraft, target, folder)
    return partial(FolderDraft.beside if folder else FileDraft.beside, target)


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
    """A sentence about mechanisms for the same secret in the folder of the release; none where there are none."""
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
    total, names = tell_at_most([mechanism, *(other for _, other in found)]), [name for name, _ in found]
    what = "together they tell it to whoever knows the other values" if total > AS_GOOD_AS_KNOWN else (
        f"together they tell at most {nats(total, BITS)}, whoever looks"
    )
    there = f"there {'is' if len(names) == 1 else 'are'} {listed(names)}"
    return (f"about the same secret {there}: if these are the same people, {what} (sfumato compose)",)
