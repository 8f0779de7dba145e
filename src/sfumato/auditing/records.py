"""Records: inputs and the outputs that came back, from a black box or from a released table beside its truth."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sfumato.alphabet import Alphabet, Column, Ints
from sfumato.drawing.randomness import Stream
from sfumato.drawing.sampling import Sampler
from sfumato.errors import DataError, InputError
from sfumato.estimation.tally import manifest_beside
from sfumato.joint import Joint
from sfumato.mechanism import Mechanism
from sfumato.sources import open_source

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.sources.source import TableLike

Box = Callable[[Ints], npt.ArrayLike]  # codes of inputs, one per record → codes of outputs, one per record
LISTED_CELLS = 4_000_000  # the largest table of outputs by inputs that is counted


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """Codes of inputs, secrets and outputs, row by row; `drawn` says whether the auditor chose the inputs."""

    inputs: Ints
    secrets: Ints
    outputs: Ints
    drawn: bool


def check_size(mechanism: Mechanism) -> None:
    if mechanism.law.meaning == "subset" or mechanism.outputs * mechanism.inputs > LISTED_CELLS:
        raise InputError(
            f"an audit counts every output for every input, at most {LISTED_CELLS:,} pairs; this law of kind "
            f"{mechanism.law.kind!r} has more",
            next="Pass a function of its outputs as the box, with its own mechanism.",
        )


def as_box(given: Any, seed: int | None) -> Box:
    """A callable as it is; a sealed mechanism through the sampler that releases use."""
    if isinstance(given, Mechanism):
        if not given.sealed:
            raise InputError("only a sealed mechanism can answer; design() and seal() return sealed ones.")
        sampler = Sampler(given.law, Stream.of(seed))
        return lambda codes: sampler.draw(codes, 0)
    if not callable(given):
        raise InputError(
            "audit takes a function from codes of inputs to codes of outputs, a sealed mechanism, or a released table "
            "with truth="
        )
    box: Box = given
    return box


def asked(
    box: Box, mechanism: Mechanism, joint: Joint | None, records: int, rng: np.random.Generator, *, about_secret: bool,
    at_joint: bool,
) -> Records:
    """Query with inputs of the auditor's choice.

    About the record: uniform inputs. About the secret: s uniform, u from p(u|s), so that every secret is heard equally
    often at a distribution the promise covers; at_joint draws s from p(s) as well.
    """
    k = mechanism.useful.size
    if about_secret:
        assert joint is not None
        seen = np.flatnonzero(joint.p_secret > 0)
        weight = joint.p_secret[seen] if at_joint else np.ones(seen.size)
        secrets = rng.choice(seen, size=records, p=weight / weight.sum())
        edges = np.cumsum(joint.useful_given_secret, axis=1)
        edges[:, -1] = 1.0
        draws, useful = rng.random(records), np.empty(records, np.int64)
        for s in seen:
            here = secrets == s
            useful[here] = np.searchsorted(edges[s], draws[here], side="right")
        inputs = secrets * k + useful if mechanism.reads == "both" else useful
    else:
        inputs = rng.integers(mechanism.inputs, size=records)
        secrets = inputs // k if mechanism.reads == "both" else np.zeros(records, np.int64)
    heard = np.asarray(box(inputs))
    if heard.shape != inputs.shape or not np.issubdtype(heard.dtype, np.integer):
        raise InputError(f"the box must answer {records:,} inputs with as many whole numbers", value=heard.shape)
    if heard.min() < 0 or heard.max() >= mechanism.outputs:
        raise InputError(
            f"the box answered with an output outside 0 … {mechanism.outputs - 1}: it is not the mechanism it says "
            "it is."
        )
    return Records(inputs, secrets, heard.astype(np.int64), True)


def paired(released: TableLike, truth: TableLike, mechanism: Mechanism) -> Records:
    """A released table beside the table it came from, row by row; a release keeps the order of rows."""
    manifest = manifest_beside(released)
    if manifest is not None and manifest.decode != "symbols":
        raise InputError(
            f"the table was written as {manifest.decode!r}, which hides the outputs themselves",
            next="Audit a release made with --decode symbols.",
        )
    written = {"cell": [mechanism.secret, mechanism.useful], "useful": [mechanism.useful]}
    symbols = [Alphabet.of(Column.of("symbol", [f"y{y}" for y in range(mechanism.outputs)]))]
    outputs = _codes(released, _as_written(written.get(mechanism.law.meaning, symbols)))
    secrets, useful = _codes(truth, mechanism.secret), _codes(truth, mechanism.useful)
    if len(outputs) != len(useful):
        raise DataError(
            f"the released table has {len(outputs):,} rows and the true one {len(useful):,}: an audit needs them side "
            "by side, in the same order."
        )
    inputs = secrets * mechanism.useful.size + useful if mechanism.reads == "both" else useful
    return Records(inputs, secrets, outputs, False)


def _as_written(alphabets: list[Alphabet]) -> Alphabet:
    """Labels as a release writes them: bins by their text, nothing but what is listed."""
    return Alphabet.of(*(replace(c, cuts=None, other=None) for alphabet in alphabets for c in alphabet.columns))


def _codes(table: pa.Table, alphabet: Alphabet) -> Ints:
    source = open_source(os.fspath(table) if isinstance(table, os.PathLike) else table).verbatim()
    parts, row = [], 0
    for batch in source.batches(list(alphabet.names)):
        parts.append(np.asarray(alphabet.encode(batch, first_row=row), np.int64))
        row += batch.num_rows
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)
