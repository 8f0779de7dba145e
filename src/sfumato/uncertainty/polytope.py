"""Polytope: mixtures of listed distributions, or all distributions that satisfy linear inequalities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from sfumato.alphabet import Floats, Ints, read_only
from sfumato.errors import InputError
from sfumato.joint import Joint
from sfumato.libraries import scipy
from sfumato.tolerances import LEAST, SLIP, SUMS_TO_ONE
from sfumato.uncertainty.sets import Extreme, FromPairs, Pairs, quotient
from sfumato_kernel.laws import SMALLEST

if TYPE_CHECKING:
    from sfumato.alphabet import Bools


@dataclass(frozen=True, slots=True, eq=False)
class Polytope(FromPairs):
    """F = the mixtures of `vertices` [v, s, u], or {P in the simplex : A·P ≤ b} for inequalities=(A [k, s, u], b [k]).

    P(y|s) is a quotient of linear functions of P, so its range over mixtures is attained at vertices where P(s) > 0.
    P(y|s₁)/P(y|s₂) is not: with P(s) free to vary it may be greatest inside. For a fixed P(y|s₂) the greatest P(y|s₁)
    is a linear-fractional programme with one constraint, so its optimum mixes at most two vertices: the worst case is a
    maximum over pairs of vertices (neighbours or not) of a quotient of quadratics on [0, 1] (ours). Where all vertices
    agree on P(s) the vertices alone suffice. A secret that no vertex lets occur is not looked at; where P(s) = 0 at
    one end of a segment, its conditional is that of the other end.

    Over inequalities the level is the product of the two ranges, each by a linear programme (Charnes–Cooper): an upper
    bound. Levels are proved, and mechanisms released, for vertices only.

    >>> joint = Joint.from_probabilities([[0.3, 0.2], [0.1, 0.4]])
    >>> Polytope(joint, vertices=[joint.p, [[0.2, 0.3], [0.2, 0.3]]]).spikes()[1].round(3).tolist()
    [[0.6, 0.6], [0.4, 0.8]]
    """

    joint: Joint
    vertices: Floats | None
    inequalities: tuple[Floats, Floats] | None
    kind: ClassVar[str] = "polytope"

    def __init__(
        self, joint: Joint, *, vertices: Sequence[npt.ArrayLike | Joint] | None = None,
        inequalities: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    ) -> None:
        if (vertices is None) == (inequalities is None):
            raise InputError("give either vertices= or inequalities=.")
        listed = None if vertices is None else _checked_vertices(vertices, joint.shape)
        limits = None if inequalities is None else _checked_inequalities(inequalities, joint.shape)
        for name, value in zip(self.__slots__, (joint, listed, limits), strict=True):
            object.__setattr__(self, name, value)
        if limits is not None and _linear(self, np.zeros(joint.shape)) is None:
            raise InputError("no distribution satisfies the inequalities.")

    @property
    def possible(self) -> Ints:
        if self.vertices is not None:
            return np.flatnonzero(self.vertices.sum(2).max(0) > 0)
        most = [self.support(np.eye(self.joint.shape[0])[:, [s]] * np.ones(self.joint.shape)).value
                for s in range(self.joint.shape[0])]
        return np.flatnonzero(np.array(most) > SLIP)

    def ranges_of(self, values: Floats, s: Ints) -> tuple[Floats, Floats]:
        if self.vertices is None:
            ends = [_fractional(self, v, int(t)) for v, t in zip(values, s, strict=True)]
            return np.array([e[0].value for e in ends]), np.array([e[1].value for e in ends])
        top = np.einsum("iu,viu->iv", values, self.vertices[:, s])
        mass = self.vertices.sum(2)[:, s].T
        seen = mass > 0
        means = np.divide(top, mass, out=np.zeros(top.shape), where=seen)
        low, high = np.where(seen, means, np.inf).min(1), np.where(seen, means, -np.inf).max(1)
        absent = ~seen.any(1)  # a secret that cannot occur tells nothing
        return np.where(absent, values.min(1), low), np.where(absent, values.max(1), high)

    def spikes(self) -> tuple[Floats, Floats]:
        """P(u|s) at the vertices themselves, without a row for each cell."""
        if self.vertices is None:
            return FromPairs.spikes(self)
        mass = self.vertices.sum(2, keepdims=True)
        seen = np.broadcast_to(mass > 0, self.vertices.shape)
        share = np.divide(self.vertices, mass, out=np.zeros(self.vertices.shape), where=seen)
        low, high = np.where(seen, share, np.inf).min(0), np.where(seen, share, -np.inf).max(0)
        absent = ~seen.any(0)
        return np.where(absent, float(self.joint.shape[1] == 1), low), np.where(absent, 1.0, high)

    def pairs(self, first: Floats, second: Floats, s1: Ints, s2: Ints, close: float = 0.0) -> Pairs:
        if self.vertices is None:
            top = [_fractional(self, v, int(s))[1] for v, s in zip(first, s1, strict=True)]
            low = [_fractional(self, v, int(s))[0] for v, s in zip(second, s2, strict=True)]
            ratio = quotient(np.array([x.value for x in top]), np.array([x.value for x in low]))
            ends = [np.array([x.p[t] for x, t in zip(of, s, strict=True)]) for of, s in ((top, s1), (low, s2))]
            return Pairs(ratio, *ends)
        ratio, i, j, t = self._pairs(first, second, s1, s2)
        given = []
        for s in (s1, s2):
            a, b, far = self.vertices[i, s], self.vertices[j, s], t[:, None]
            here, there = (x.sum(1, keepdims=True) > 0 for x in (a, b))
            r = np.asarray((1 - far) * np.where(here, a, b) + far * np.where(there, b, a))
            given.append(r / np.maximum(r.sum(1, keepdims=True), LEAST))
        return Pairs(ratio, *given)

    def _pairs(self, first: Floats, second: Floats, s1: Ints, s2: Ints) -> tuple[Floats, Ints, Ints, Floats]:
        """The greatest ratio along every segment between two vertices: value, ends and place."""
        assert self.vertices is not None
        mass = self.vertices.sum(2)
        n1, d1 = np.einsum("iu,viu->iv", first, self.vertices[:, s1]), mass[:, s1].T
        n2, d2 = np.einsum("iu,viu->iv", second, self.vertices[:, s2]), mass[:, s2].T
        i, j = np.triu_indices(len(self.vertices))
        ends = [e for n, d in ((n1, d1), (n2, d2)) for e in segment_ends(n, d, d > 0, i, j)]
        places = np.stack([*stationary(*ends), np.zeros(ends[0][0].shape), np.ones(ends[0][0].shape)])
        a, b, c, d = ((1 - places) * x + places * y for x, y in ends)
        alive = (b > 0) & (d > 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            value = np.where(alive, quotient(a * d, b * c), 0.0)
        flat = value.transpose(1, 0, 2).reshape(len(first), -1)
        best = flat.argmax(1)
        place, pair = np.unravel_index(best, value.shape[::2])
        return flat.max(1), i[pair], j[pair], places[place, np.arange(len(first)), pair]

    def support(self, c: Floats) -> Extreme:
        if self.vertices is not None:
            values = (self.vertices * c).sum((1, 2))
            return Extreme(float(values.max()), self.vertices[int(values.argmax())])
        found = _linear(self, c)
        assert found is not None
        return found


Ends = tuple[Floats, Floats]  # at both ends of segments, or below and above


def segment_ends(n: Floats, d: Floats, seen: Bools, i: Ints, j: Ints) -> tuple[Ends, ...]:
    """N and D at both ends of segments; an end where the secret is absent takes the values of the other, since on the
    open segment its conditional is that of the other end."""
    first, second = seen[:, i], seen[:, j]
    return tuple((np.where(first, x[:, i], x[:, j]), np.where(second, x[:, j], x[:, i])) for x in (n, d))


def stationary(n1: Ends, d1: Ends, n2: Ends, d2: Ends) -> tuple[Floats, Floats]:
    """The t in [0, 1] where n₁d₂/(d₁n₂) along a segment stands still: the roots of a quadratic, clipped."""

    def product(x: Ends, y: Ends) -> tuple[Floats, Floats, Floats]:
        dx, dy = x[1] - x[0], y[1] - y[0]
        return x[0] * y[0], x[0] * dy + y[0] * dx, dx * dy

    a, b = product(n1, d2), product(d1, n2)
    # (a₀ + a₁t + a₂t²)/(b₀ + b₁t + b₂t²) has derivative zero where c₀ + c₁t + c₂t² = 0.
    c0, c1, c2 = a[1] * b[0] - a[0] * b[1], 2 * (a[2] * b[0] - a[0] * b[2]), a[2] * b[1] - a[1] * b[2]
    root = np.sqrt(np.maximum(c1 * c1 - 4 * c0 * c2, 0))
    half = -(c1 + np.where(c1 >= 0, root, -root)) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        first, second = half / c2, c0 / half
    inside = [np.clip(np.nan_to_num(t, nan=0.0, posinf=1.0, neginf=0.0), 0.0, 1.0) for t in (first, second)]
    return inside[0], inside[1]


def _checked_vertices(vertices: Sequence[npt.ArrayLike | Joint], shape: tuple[int, int]) -> Floats:
    listed = read_only(np.asarray([getattr(v, "p", v) for v in vertices], float))
    if listed.ndim != 3 or listed.shape[1:] != shape or len(listed) == 0:
        raise InputError(f"vertices are tables of shape {shape[0]} × {shape[1]}, got shape {listed.shape}.")
    if not np.all(np.isfinite(listed)) or np.any(listed < 0) or np.any(np.abs(listed.sum((1, 2)) - 1) > SUMS_TO_ONE):
        raise InputError("every vertex must be a distribution: not negative, with sum 1.")
    if np.any((listed > 0) & (listed < SMALLEST)):
        raise InputError(f"probabilities of a vertex must be 0 or at least {SMALLEST:g}.")
    return np.asarray(listed)


def _checked_inequalities(given: tuple[npt.ArrayLike, npt.ArrayLike], shape: tuple[int, int]) -> tuple[Floats, Floats]:
    a, b = (read_only(np.asarray(x, float)) for x in given)
    if a.ndim != 3 or a.shape[1:] != shape or b.shape != (len(a),):
        raise InputError(f"inequalities are (A, b) with A of shape k × {shape[0]} × {shape[1]} and b of length k.")
    if not (np.all(np.isfinite(a)) and np.all(np.isfinite(b))):
        raise InputError("inequalities must be finite.")
    return a, b


@dataclass(frozen=True, slots=True, eq=False)
class LeastCost:
    """x ≥ 0 of least cost, or whether there is none."""

    x: Floats | None
    empty: bool  # no x satisfies the limits; where there is neither, the programme has no end or the solver failed


def least_cost(
    cost: Floats, above: Floats, limits: Floats, equal: Floats | None = None, to: Sequence[float] | None = None
) -> LeastCost:
    """The x ≥ 0 with above·x ≤ limits and equal·x = to that costs least."""
    found = scipy.optimize.linprog(cost, above, limits, equal, to, method="highs")
    return LeastCost(np.asarray(found.x) if found.status == 0 else None, found.status == 2)


def _solved(cost: Floats, a: Floats, b: Floats, equal: Floats, to: Sequence[float]) -> Floats | None:
    """The same, or None where there is none: what a solver fails at says nothing about the set."""
    found = least_cost(cost, a, b, equal, to)
    if found.x is None and not found.empty:
        raise InputError("the linear programme over the polytope failed.")
    return found.x


def _linear(polytope: Polytope, c: Floats) -> Extreme | None:
    """max ⟨c, P⟩ over {P in the simplex : A·P ≤ b}, or None when that is empty."""
    assert polytope.inequalities is not None
    a, b = polytope.inequalities
    x = _solved(-c.ravel(), a.reshape(len(a), -1), b, np.ones((1, c.size)), [1.0])
    return None if x is None else Extreme(float(c.ravel() @ x), x.reshape(c.shape))


def _fractional(polytope: Polytope, v: Floats, s: int) -> tuple[Extreme, Extreme]:
    """Least and greatest Σ_u P(u|s) v_u, each with a member scaled so that P(s) = 1.

    x = P/P(s), t = 1/P(s): A·x ≤ bt, Σx = t, Σ_u x_{s,u} = 1 [Charnes–Cooper].
    """
    assert polytope.inequalities is not None
    (a, b), shape = polytope.inequalities, polytope.joint.shape
    own, goal = np.zeros(shape), np.zeros(shape)
    own[s], goal[s] = 1, v
    limits = np.column_stack([a.reshape(len(a), -1), -b])
    equal = np.stack([np.append(np.ones(own.size), -1.0), np.append(own.ravel(), 0.0)])
    ends = []
    for sign in (1.0, -1.0):
        x = _solved(np.append(sign * goal.ravel(), 0.0), limits, np.zeros(len(a)), equal, [0.0, 1.0])
        p = np.zeros(shape)
        p[s, np.argmin(sign * v)] = 1  # of a secret that cannot occur
        p = p if x is None else x[:-1].reshape(shape)
        ends.append(Extreme(float((goal * p).sum()), p))
    return ends[0], ends[1]
