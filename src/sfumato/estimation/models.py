"""Models: how each kind of law, decoded or not, is inverted and applied."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sfumato import drawing
from sfumato.alphabet import Floats, Ints
from sfumato.drawing.manifest import DECODES
from sfumato.errors import InputError, unknown
from sfumato.estimation.inversion import BitsInversion, DenseInversion, LawInversion, Mask
from sfumato.mechanism import Cells, Constant, Mechanism, Unary
from sfumato.tolerances import SLIP, SQUARE


def decoded_law(mechanism: Mechanism, decode: str) -> Floats | None:
    """P(label | x) of decoded rows as [label, x]; None when outputs were written as themselves.

    'likely' writes the mode of the posterior under the design distribution, 'sample' a draw from it. Both are
    fixed by the mechanism file, so the decoded rows went through a known channel D∘Q: coarser than Q, and
    inverted in the same way.
    """
    if decode not in DECODES:
        raise unknown("a way of decoding", decode, DECODES)
    if decode == "symbols":
        return None
    q = mechanism.matrix
    if q is None or mechanism.joint is None:
        reason = "has too many outputs to list" if q is None else "does not carry its design distribution"
        raise InputError(f"rows decoded as {decode!r} cannot be inverted: the mechanism {reason}", next="Use symbols.")
    if decode == "likely":
        out = np.zeros((q.shape[1], q.shape[1]))
        np.add.at(out, drawing.likeliest(mechanism)(_every_output(mechanism), 0), q)  # rows that share a label
        return out
    return np.asarray(drawing.inverted_law(q, mechanism.input_law(mechanism.joint)).T @ q)


def _every_output(mechanism: Mechanism) -> Ints:
    y = np.arange(mechanism.outputs)
    return y if mechanism.law.meaning != "subset" else (y[:, None] >> np.arange(mechanism.inputs)) & 1


# --- inversion of GRR, SRR, IR and every other Cells law in closed form, in time linear in the table ------------------
# Such a law is Q = A·I + B·(I⊗J) + C·(J⊗I) + D·J with J all ones, A = truth − same_secret − same_useful + neither, B =
# same_secret − neither, C = same_useful − neither, D = neither: P(s, u) = A·p(s, u) + B·p(s) + C·p(u) + D. These four
# matrices commute, and split tables into four orthogonal parts on which Q is a number: the constant (1), effects of s
# (A + B|U|), effects of u (A + C|S|) and the interaction (A). The inverse has the same form with the reciprocals; a
# part whose number is zero cannot be identified and is left out.


@dataclass(frozen=True)
class FourWeights:
    """The matrix with entries by agreement: both, s alone, u alone, neither."""

    both: float
    secret: float
    useful: float
    neither: float

    def apply(self, table: Floats) -> Floats:
        """Matrix times tables [..., s, u]."""
        a = self.both - self.secret - self.useful + self.neither
        rows = table.sum(-1, keepdims=True) * (self.secret - self.neither)
        columns = table.sum(-2, keepdims=True) * (self.useful - self.neither)
        return np.asarray(a * table + rows + columns + self.neither * table.sum((-1, -2), keepdims=True))

    def shifted(self) -> FourWeights:
        """Less a constant, so that `neither` is zero: variances do not change, and big tables do not cancel."""
        return FourWeights(self.both - self.neither, self.secret - self.neither, self.useful - self.neither, 0.0)

    def squared(self) -> FourWeights:
        return FourWeights(*(w * w for w in (self.both, self.secret, self.useful, self.neither)))


def forward(law: Cells) -> FourWeights:
    """Q of a cells law in floats."""
    return FourWeights(*law.chances)


def spectrum(law: Cells) -> tuple[float, float, float]:
    """What Q multiplies the effects of s, the effects of u and the interaction by; 0 when only rounding is left.

    A part of dimension zero (a single secret or useful value) repeats the one that is there.

    >>> [round(x, 9) for x in spectrum(Cells(2, 2, 0.5, 0.1, 0.3, 0.1))]
    [0.2, 0.6, 0.2]
    """
    # A part on which Q is smaller than rounding, or than what sealing may leave, is not identified.
    least = max(SLIP, 16 * law.outputs / 2**law.bits if law.bits is not None else 0.0)
    s, u, both = (x if abs(x) > least else 0.0 for x in law.spectrum)
    if law.rows == 1:
        return u, u, u
    return (s, s, s) if law.useful == 1 else (s, u, both)


@dataclass(frozen=True, eq=False)
class CellsInversion:
    """p̂ = Q⁻¹f for a cells law, from frequencies f[s', u']."""
    law: Cells
    f: Floats
    n: int
    kept: int | None = None  # the axis that is left, when this is a marginal

    @cached_property
    def parts(self) -> tuple[float, float, float]:
        return spectrum(self.law)

    @cached_property
    def inverse(self) -> FourWeights:
        s, u, both = (1 / x if x else 0.0 for x in self.parts)
        beta, gamma = (s - both) / self.law.useful, (u - both) / self.law.rows
        delta = (1 - both - beta * self.law.useful - gamma * self.law.rows) / self.f.size
        return FourWeights(both + beta + gamma + delta, beta + delta, gamma + delta, delta)

    def _shape(self, table: Floats) -> Floats:
        return table if self.kept is None else table.reshape(*table.shape[:-2], -1)

    @cached_property
    def _raw(self) -> Floats:
        return self.inverse.apply(self.f)

    @property
    def raw(self) -> Floats:
        return self._shape(self._raw)

    @cached_property
    def variance(self) -> Floats:
        part = self.inverse.shifted()
        spread = part.squared().apply(self.f) - part.apply(self.f) ** 2
        return self._shape(np.maximum(spread, 0.0) / self.n)

    @cached_property
    def jump(self) -> Floats:
        four, copies = self.inverse, self.law.copies
        entries = (four.both, four.secret, four.useful, four.neither)
        used = [w for w, many in zip(entries, copies, strict=True) if many]
        return self._shape(np.max([np.abs(w - self._raw) for w in used], axis=0) / self.n)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Dimensions of the effects of s, of u and of the interaction."""
        r, k = self.law.rows - 1, self.law.useful - 1
        return r, k, r * k

    @property
    def rank(self) -> int:
        return 1 + sum(size for size, x in zip(self.sizes, self.parts, strict=True) if x)

    @property
    def identified(self) -> Mask:
        return np.full(self.raw.shape, self.rank == self.f.size)

    def covariance(self) -> Floats:
        return self.listed().covariance()

    def listed(self) -> DenseInversion:
        """As a matrix; what the law does to each cell and back is the projector on what is seen."""
        cells = self.f.size
        x = np.eye(cells).reshape(-1, *self.f.shape)
        left = self.inverse.apply(x).reshape(cells, -1).T
        seen = self.inverse.apply(forward(self.law).apply(x)).reshape(cells, -1).T
        return DenseInversion(left, self.f.ravel(), self.n, self.raw.shape, seen, np.eye(cells))

    def marginal(self, axis: int) -> CellsInversion:
        """The released s' depends on s alone, so its law is again of this kind with one column, and likewise u'."""
        law, r, k = self.law, self.law.rows, self.law.useful
        if axis == 0:
            own, other = law.truth + (k - 1) * law.same_secret, law.same_useful + (k - 1) * law.neither
            return CellsInversion(Cells(r, 1, own, 0, other, 0, law.bits), self.f.sum(1, keepdims=True), self.n, 0)
        own, other = law.truth + (r - 1) * law.same_useful, law.same_secret + (r - 1) * law.neither
        return CellsInversion(Cells(1, k, own, other, 0, 0, law.bits), self.f.sum(0, keepdims=True), self.n, 1)

    def summed(self, m: Floats, shape: tuple[int, ...]) -> DenseInversion:
        if self.f.size > SQUARE:
            raise InputError(
                f"tables of some columns of {self.f.size:,} cells are too large to sum up",
                next="Use .secret and .useful, or design for fewer columns.",
            )
        return self.listed().summed(m, shape)


@dataclass(frozen=True, eq=False)
class Model:
    """A law as estimation sees it: how counts are inverted, expected, and made likely."""
    outputs: int  # how many counts there are
    invert: Callable[[Floats, int], LawInversion]
    forward: Callable[[Floats], Floats]  # p, flat → what each count is expected to be, as a share of n
    adjoint: Callable[[Floats], Floats] | None = None  # Qᵀ·w, flat; None when the counts are not the whole output
    matrix: Callable[[], Floats | None] = lambda: None  # Q[y, x], when it can be listed


def prior(mechanism: Mechanism) -> Floats:
    """The design distribution of the input when the file has one, else the uniform: known before any row."""
    if mechanism.joint is not None:
        return mechanism.input_law(mechanism.joint)
    return np.full(mechanism.inputs, 1 / mechanism.inputs)


def input_shape(mechanism: Mechanism) -> tuple[int, ...]:
    law = mechanism.law
    return (law.rows, law.useful) if mechanism.reads == "both" else (law.useful,)


def _cells(mechanism: Mechanism, law: Cells) -> Model:
    shape, kept = (law.rows, law.useful), None if mechanism.reads == "both" else 1
    four = forward(law)

    def apply(p: Floats) -> Floats:
        return four.apply(p.reshape(shape)).ravel()

    return Model(
        law.rows * law.useful, lambda c, n: CellsInversion(law, c.reshape(shape) / n, n, kept), apply, apply,
        law.matrix,
    )


def _constant(mechanism: Mechanism, law: Constant) -> Model:
    even = 1 / law.outputs
    return _cells(mechanism, Cells(law.rows, law.useful, even, even, even, even))


def _unary(mechanism: Mechanism, law: Unary) -> Model:
    shape, (on, off) = input_shape(mechanism), law.chances
    return Model(
        law.inputs, lambda ones, n: BitsInversion.of(law, ones.reshape(shape) / n, n), lambda p: off + (on - off) * p
    )


_STRUCTURED: dict[str, Callable[..., Model]] = {  # (mechanism, its law of this kind) → its model
    Cells.kind: _cells, Constant.kind: _constant, Unary.kind: _unary,
}


def listed(mechanism: Mechanism, q: Floats) -> Model:
    """The model of a matrix Q[y, x]."""
    shape, design = input_shape(mechanism), prior(mechanism)
    return Model(
        len(q), lambda c, n: DenseInversion.of(q, c / n, n, shape, design),
        lambda p: q @ p, lambda w: q.T @ w, lambda: q,
    )


def model_of(mechanism: Mechanism, decode: str = "symbols") -> Model:
    """The model of what was released: the law itself, or the law followed by decoding."""
    decoded = decoded_law(mechanism, decode)
    if decoded is not None:
        return listed(mechanism, decoded)
    if mechanism.law.kind in _STRUCTURED:
        return _STRUCTURED[mechanism.law.kind](mechanism, mechanism.law)
    q = mechanism.matrix
    if q is None:
        raise InputError(
            f"this mechanism has {mechanism.outputs} outputs for {mechanism.inputs} inputs and no closed form: its "
            "matrix is too large to invert", next="Group rare labels before designing.",
        )
    return listed(mechanism, q)
