"""estimate: from released rows, or from counts of outputs, to a distribution with intervals; what can be identified
however many rows there are, and what agrees with them where not everything can."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, overload

import numpy as np

from sfumato import estimation
from sfumato.alphabet import Floats, read_only
from sfumato.drawing.manifest import Manifest, manifest_path, mechanism_of, read_manifest
from sfumato.errors import InputError, unknown
from sfumato.estimation import inversion
from sfumato.estimation.models import Model, model_of, prior
from sfumato.estimation.result import Estimate, Marginal
from sfumato.estimation.tally import Tally, checked_answers, counted, tally
from sfumato.joint import Joint
from sfumato.mechanism import Bundle, Mechanism, known
from sfumato.sources import Place, Source, Where, located
from sfumato.tolerances import LEAST, NAMED
from sfumato.uncertainty.polytope import least_cost

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from sfumato.estimation.bundle_tables import BundleEstimate
    from sfumato.sources.source import TableLike

# --- maximum likelihood by expectation–maximisation, for any law that can be applied forwards -------------------------


Apply = Callable[[Floats], Floats]


@dataclass(frozen=True, slots=True)
class Ascent:
    """How long EM goes on."""

    rounds: int = 20_000
    work: int = 500_000_000  # rounds times cells; a table of a million cells gets 500 rounds
    # stop when the log-likelihood of all rows together is proved to be this near its maximum (nats)
    close: float = 1e-2
    least: float = 1e-3  # of a uniform share: a cell that starts at zero in EM would stay there


EM = Ascent()


def most_likely(forward: Apply, adjoint: Apply, f: Floats, n: int, start: Floats) -> tuple[Floats, float]:
    """argmax_p Σ_y f(y) log (Qp)(y) over the simplex, and how far its total log-likelihood is from the maximum at most.

    p ← p·g with g = Qᵀ(f / Qp). The log-likelihood is concave with gradient g and Σ p·g = 1, so the maximum
    is at most max g − 1 away per row: the loop stops on a proof and not on slow progress. Every other
    round tries a longer step along the change of log p (over-relaxed EM), kept only if it is better.
    """
    p, best, stretch = start / start.sum(), -np.inf, 1.0
    seen, gap = f > 0, np.inf
    for _ in range(max(100, min(EM.rounds, EM.work // p.size))):
        q = forward(p)
        if np.any(q[seen] <= 0):
            raise InputError("these counts are impossible under this mechanism: an output it never gives occurs.")
        value = float((f[seen] * np.log(q[seen])).sum())
        g = adjoint(np.divide(f, q, out=np.zeros_like(f), where=seen))
        if value >= best:
            best, kept, slope, stretch = value, p, g, stretch * 1.3
            gap = n * float(max(g.max() - 1, 0.0))
            if gap <= EM.close:
                break
        else:
            stretch = 1.0
        p = kept * np.maximum(slope, 0.0) ** stretch
        p = p / p.sum()
    return kept, gap


def foreseen(mechanism: Mechanism, joint: Joint, n: int, decode: str = "symbols") -> inversion.LawInversion | None:
    """The unbiased estimate of the whole table at the expected frequencies; None when the law is too large to invert.

    It is linear in the output frequencies f, so its covariance is exact: L (diag f − f fᵀ) Lᵀ / n at f = Q p.
    """
    try:
        model = model_of(mechanism, decode)
        return model.invert(model.forward(mechanism.input_law(joint)) * n, n)
    except InputError:
        return None


FORESEEN_LAW = 400_000  # outputs × inputs up to which a law without a closed form is inverted for this


def foreseen_errors(mechanism: Mechanism, joint: Joint, n: int, decode: str = "symbols") -> tuple[float | None, ...]:
    """Root mean square standard errors of the shares of the secret and of the useful variable from n rows.

    They are those of the unbiased linear estimate when the rows follow the joint, so they are known before a row is
    released. ∞ where the rows do not fix the shares, however many there are; None where the law is too large to tell.
    """
    closed = mechanism.law.kind in ("cells", "constant", "unary")
    if not closed and mechanism.outputs * mechanism.inputs > FORESEEN_LAW:
        return (None, None)
    whole = foreseen(mechanism, joint, n, decode)
    if whole is None:
        return (None, None)
    secret = None if mechanism.reads != "both" or joint.secret.size < 2 else spread(whole.marginal(0))
    return secret, spread(whole.marginal(1))


def spread(side: inversion.Inversion) -> float:
    """The root mean square standard error of shares; ∞ where the rows do not fix them."""
    return float(np.sqrt(np.maximum(side.variance, 0).mean())) if side.identified.all() else math.inf


def spread_untouched(p: Floats, n: int) -> float:
    """The same without any protection, from p(1 − p)/n."""
    return float(np.sqrt(np.maximum(p * (1 - p), 0.0).mean() / n))


METHODS = ("auto", "inverse", "em")


@overload
def estimate(
    source: TableLike | npt.ArrayLike, mechanism: Mechanism, *, method: str = ..., project: bool = ...,
    decode: str | None = ..., n: int | None = ...,
) -> Estimate: ...


@overload
def estimate(
    source: TableLike | npt.ArrayLike, mechanism: Bundle, *, method: str = ..., project: bool = ...,
    decode: str | None = ..., n: int | None = ...,
) -> BundleEstimate: ...


@overload
def estimate(
    source: TableLike | npt.ArrayLike, mechanism: str | os.PathLike[str] | None = None, *, method: str = ...,
    project: bool = ..., decode: str | None = ..., n: int | None = ...,
) -> Estimate | BundleEstimate: ...


def estimate(
    source: TableLike | npt.ArrayLike, mechanism: Mechanism | Bundle | str | os.PathLike[str] | None = None, *,
    method: str = "auto", project: bool = True, decode: str | None = None, n: int | None = None,
) -> Estimate | BundleEstimate:
    """The distribution of what the mechanism read, from what it released; of a bundle, every one- and two-way table.

    `source` is the released table (a path, a dataframe, Arrow), a list of answers as `respond` gives them, or an array
    of counts by output: [y], [s, u] for mechanisms that answer with cells, ones by bit with n= for SUE and OUE;
    `mechanism` may be the path of its file; that of a released file is found beside it. How such a file was decoded is
    read from its manifest; `decode` says it for other sources. 'inverse' is unbiased and, with project=True, moved to
    the nearest distribution; 'em' is the maximum of the likelihood; 'auto' takes the inverse when it exists, else EM
    from the design distribution, which where nothing can be identified only repeats it (`.identifiable`).

    >>> from sfumato import Tabular
    >>> e = estimate([600, 400], Tabular([[0.75, 0.25], [0.25, 0.75]]))
    >>> e.p.round(6).tolist(), bool(e.identifiable)
    ([0.7, 0.3], True)
    """
    if method not in METHODS:
        raise unknown("a method of estimation", method, METHODS)
    mechanism = _beside(source) if mechanism is None else known(mechanism)
    source = checked_answers(source, mechanism)
    if isinstance(mechanism, Bundle):
        if method == "em" or decode not in (None, "symbols") or n is not None:
            raise InputError("tables of a bundle are estimated by inversion from answers as they were written.")

        return estimation.estimate_bundle(source, mechanism, project=project)
    return _from_counts(tally(source, mechanism, decode=decode, n=n), mechanism, method, project)


def _beside(source: TableLike | npt.ArrayLike) -> Mechanism | Bundle:
    """The mechanism of a released file."""
    path = source.path if isinstance(source, Source) else source
    if not isinstance(path, (str, os.PathLike, Place)):
        raise InputError("an estimate needs the mechanism of the release", next="Give it, or the path of its file.")
    return mechanism_of(located(path))


def read_release(
    released: Where, mechanism: Mechanism | Bundle
) -> tuple[Estimate | BundleEstimate | None, Manifest | None]:
    """The estimate from a released file, and the manifest beside it if there is one. A law too large to invert gives no
    estimate, as in the release itself."""
    beside = manifest_path(released)
    manifest = read_manifest(beside) if beside.exists() else None
    try:
        if isinstance(mechanism, Mechanism):
            model_of(mechanism, "symbols" if manifest is None else manifest.decode)
    except InputError:
        return None, manifest
    return estimate(released, mechanism), manifest


def estimate_drawn(
    batches: Iterable[pa.RecordBatch], mechanism: Mechanism | Bundle, decode: str
) -> Estimate | BundleEstimate:
    """The same from released rows as they are drawn."""
    if not isinstance(mechanism, Bundle):
        return _from_counts(counted(batches, mechanism, decode), mechanism)
    return estimation.from_answers(batches, mechanism)


def _from_counts(seen: Tally, mechanism: Mechanism, method: str = "auto", project: bool = True) -> Estimate:
    if seen.n <= 0:
        raise InputError("there are no released rows to estimate from.")
    model = model_of(mechanism, seen.decode)
    if seen.counts.size != model.outputs:
        raise InputError(f"there are {seen.counts.size} counts, but the mechanism has {model.outputs} outputs.")
    whole = model.invert(seen.counts, seen.n)
    both = mechanism.reads == "both"
    secret = whole.marginal(0) if both else None
    useful = whole.marginal(1)
    what = identifiable(mechanism, whole, secret, useful)
    if method == "auto":
        method = "inverse" if what or model.adjoint is None else "em"
    p, short = _fitted(model, seen, prior(mechanism), whole) if method == "em" else (whole.raw, "")
    notes = tuple(x for x in ("" if what else what.sentence, short, *_lost(mechanism, seen, whole)) if x)
    p = read_only(inversion.on_simplex(p) if project and method == "inverse" else p)
    limits = None if what else _bounds(model, seen, mechanism)
    by_s, by_u = inversion.sides(mechanism.law.rows, mechanism.law.useful) if limits is not None else (None, None)
    return Estimate(
        p, seen.n, method, seen.decode, what,
        None if secret is None else Marginal.of(mechanism.secret, secret, project, p.sum(1), by_s, limits),
        Marginal.of(mechanism.useful, useful, project, p.sum(0) if both else p, by_u, limits),
        notes, mechanism, whole, limits, project,
    )


def _bounds(model: Model, seen: Tally, mechanism: Mechanism) -> Bounds | None:
    if model.outputs * mechanism.inputs > BOUNDED_CELLS:
        return None
    q = model.matrix()
    return None if q is None else Bounds(q, seen.counts / seen.n, seen.n)


def _fitted(model: Model, seen: Tally, design: Floats, whole: inversion.Inversion) -> tuple[Floats, str]:
    """The most likely table, with a sentence when the search was cut short."""
    if model.adjoint is None:
        raise InputError("SUE and OUE rows are estimated from the frequency of each bit", next="Use method='inverse'.")
    start = design
    if whole.identified.all():  # the inverse is the maximum itself when no value of it is negative
        start = inversion.on_simplex(whole.raw).ravel()
    start = np.maximum(start, EM.least / start.size)
    p, gap = most_likely(model.forward, model.adjoint, seen.counts / seen.n, seen.n, start)
    short = f"The likelihood was raised to within {gap:.2g} nats of its maximum, then the search was stopped."
    return p.reshape(whole.raw.shape), short if gap > EM.close else ""


def _lost(mechanism: Mechanism, seen: Tally, whole: inversion.LawInversion) -> list[str]:
    """What decoding took away, compared with the symbols."""
    if seen.decode == "symbols":
        return []
    symbols = model_of(mechanism)
    best = symbols.invert(symbols.forward(prior(mechanism)) * seen.n, seen.n)
    worse = [f"The rows were decoded ({seen.decode}): {best.rank} dimensions could be identified from the symbols, "
             f"{whole.rank} from the decoded rows."]
    if best.rank == whole.rank:
        spread = float(np.sqrt(whole.variance.sum() / max(float(best.variance.sum()), LEAST)))
        worse.append(f"Errors are about {spread:.2f} times those from the symbols.")
    return worse


# --- what the released rows can tell about the inputs however many there are, and what they cannot --------------------


@dataclass(frozen=True, eq=False)
class Identifiable:
    """True when the whole table is identified; otherwise says which cells and marginals are.

    p can be identified up to the null space of Q: Q p = Q p′ gives the same released rows. A linear functional
    c·p is identified if and only if c lies in the row space of Q.
    """

    rank: int
    inputs: int
    cells: inversion.Mask  # [s, u] or [u]
    secret: inversion.Mask | None  # [s]; None when the mechanism does not read the secret
    useful: inversion.Mask  # [u]
    sentence: str

    def __bool__(self) -> bool:
        return self.rank == self.inputs

    def __str__(self) -> str:
        return self.sentence


def identifiable(
    mechanism: Mechanism, whole: inversion.LawInversion, secret: inversion.Inversion | None, useful: inversion.Inversion
) -> Identifiable:
    """The summary of an inversion and of its two marginals."""
    known = [(mechanism.useful, useful.identified)]
    if secret is not None:
        known.insert(0, (mechanism.secret, secret.identified))
    return Identifiable(
        whole.rank, whole.raw.size, whole.identified, None if secret is None else secret.identified, useful.identified,
        _sentence(mechanism, whole, {", ".join(side.names): mask for side, mask in known}),
    )


def _sentence(mechanism: Mechanism, whole: inversion.LawInversion, known: dict[str, inversion.Mask]) -> str:
    table, inputs = f"p({'; '.join(known)})", whole.raw.size
    if whole.rank == inputs:
        return f"Every cell of {table} can be identified (rank {whole.rank} of {inputs})."
    parts = [f"Of {table} only {whole.rank} of {inputs} dimensions can be identified."]
    for names, mask in known.items() if len(known) > 1 else ():
        verb = "can" if mask.all() else "cannot" if not mask.any() else "can only in part"
        parts.append(f"The distribution of {names} {verb}.")
    return " ".join([*parts, _cells(mechanism, whole.identified)])


def _cells(mechanism: Mechanism, known: inversion.Mask) -> str:
    lost = (~known).ravel().nonzero()[0]
    if lost.size == known.size:
        return "No single cell can."
    places = [divmod(int(x), mechanism.useful.size) for x in lost[:NAMED]]
    shown = [
        (f"{mechanism.secret.text(s)} · " if known.ndim == 2 else "") + mechanism.useful.text(u) for s, u in places
    ]
    more = f" and {lost.size - NAMED} more" if lost.size > NAMED else ""
    return f"These cells cannot: {', '.join(shown)}{more}." if lost.size else "Every cell can."


# --- everything that agrees with the released rows --------------------------------------------------------------------


BOUNDED_CELLS = 40_000  # the largest |Y| × |X| for which the linear programmes are solved
FUNCTIONALS = 300


@dataclass(frozen=True, eq=False)
class Bounds:
    """The distributions p with Qp inside the simultaneous intervals of the output frequencies.

    The truth is among them with the stated probability, so the least and the greatest c·p over them bound any
    number of functionals c at once, whether or not they are identified.
    """
    q: Floats  # [y, x]
    f: Floats  # [y]
    n: int

    def interval(self, sums: Floats, level: float, shown: Floats) -> tuple[Floats, Floats]:
        """(low, high) of each row of `sums`[i, x] around what is shown; [0, 1] if they are too many or no p agrees."""
        low, high = np.zeros(len(sums)), np.ones(len(sums))
        if len(sums) > FUNCTIONALS:
            return low, high
        eye = np.eye(len(self.f))
        outputs = inversion.DenseInversion(eye, self.f, self.n, self.f.shape, eye, eye)
        least, most = inversion.simultaneous(outputs, level, self.f)
        above, limits = np.vstack([self.q, -self.q]), np.concatenate([most, -least])
        total = np.ones((1, self.q.shape[1]))
        for i, c in enumerate(sums):
            ends = [least_cost(sign * c, above, limits, total, [1.0]).x for sign in (1, -1)]
            if ends[0] is not None and ends[1] is not None:
                low[i], high[i] = c @ ends[0], c @ ends[1]
        return np.minimum(np.clip(low, 0, 1), shown), np.maximum(np.clip(high, 0, 1), shown)
