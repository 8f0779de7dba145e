"""Tailored: laws made for one part of a bundle, by what the bundle wants of it, and measured by what they tell.

The closed forms (`answers`) treat all values alike. What a part is wanted for does not: of the secret, two columns and
their interactions each has its price, the slope of the bundle's error (`sharing.Division`). The engine that designs
single mechanisms mixes private rows for these prices, and over a set of distributions it may tell far more than what
holds for all of them. A law is taken only where the bundle's expected error becomes smaller, by more than is given for
fewer parts: it stands in the file with all of its weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sfumato.alphabet import Floats
from sfumato.bundles.answers import SECRET
from sfumato.bundles.calibration import sealed_part
from sfumato.bundles.plans import FEWER, BundlePlan
from sfumato.bundles.sharing import PartAnswer, Spec, TurnLayout, held_effects, shares_of_rows
from sfumato.errors import ClaimError
from sfumato.mechanism import Claim, Law, Table
from sfumato.optimise.budget import Budget

MOST_WRITTEN = 8000  # weights of a law, which stand in the file one by one
CELLS = 32  # of a part that is searched for: more take long, and their laws are long in the file
BESIDE = 1e-5  # weight of the whole table beside what is wanted, so that all of it stays identified
RANK = 1e-12  # of the greatest eigenvalue: below it nothing is told
ALIKE = 1  # digits of the logarithm of prices by which parts of one shape share a law


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """A law of any kind as the answer of a part, with the noise of each effect at a distribution of its input."""

    made: Law
    columns: tuple[int, ...]  # of the input, the secret first if it is read
    epsilon: float
    method: str
    noises: Mapping[tuple[int, ...], float]  # n times the squared error of an effect, by places in the input

    @classmethod
    def of(
        cls, made: Law, spec: Spec, layout: TurnLayout, p: Floats | None, epsilon: float, method: str
    ) -> Measured | None:
        """With noise by least squares at p, the even distribution where there is none; None for laws too large.

        The covariance of all cells is J⁺ − ppᵀ over n, J = Qᵀ diag(1/Qp) Q; an effect is a projection of the cells.
        """
        q = made.matrix()
        if q is None:
            return None
        rows, columns = np.asarray(q, float), input_of(spec)
        even = np.full(rows.shape[1], 1 / rows.shape[1])
        p = even if p is None else p.ravel()
        f = rows @ p
        unit = rows[f > 0] / np.sqrt(f[f > 0])[:, None]
        values, vectors = np.linalg.eigh(unit.T @ unit)
        told, noises = values > RANK * values[-1], {}
        for effect in held_effects(spec):
            form = effect_form([layout.size(c) for c in columns], [columns.index(c) for c in effect])
            asked = ((vectors.T @ form) * vectors.T).sum(1)
            lost = asked[~told].sum() > RANK * max(asked.sum(), 1.0)
            noise = float((asked[told] / values[told]).sum() - p @ form @ p)
            noises[tuple(columns.index(c) for c in effect)] = math.inf if lost else noise
        return cls(made, columns, epsilon, method, noises)

    @property
    def rows(self) -> int:
        return self.made.rows

    @property
    def key(self) -> object:
        return id(self.made)

    def law(self) -> Law:
        return self.made

    def noise(self, effect: Sequence[int], size: Callable[[int], int]) -> float:
        return self.noises[tuple(self.columns.index(c) for c in effect)]


def input_of(spec: Spec) -> tuple[int, ...]:
    """The columns of a part's input in the order of its codes."""
    return (*([SECRET] if spec.reads_secret else []), *spec.columns)


def effect_form(sizes: Sequence[int], axes: Sequence[int]) -> Floats:
    """The quadratic form of ‖effect‖² over all cells: of sums over the other columns, less what fewer columns say."""
    form: Floats = np.ones((1, 1))
    for axis, k in enumerate(sizes):
        form = np.asarray(np.kron(form, np.eye(k) - 1 / k if axis in axes else np.ones((k, k))))
    return form


def tailored(
    plan: BundlePlan, layout: TurnLayout, claimed: Callable[[Spec], Claim], budget: Budget, *, centred: bool = False
) -> BundlePlan:
    """The plan with laws of its small parts searched for by their prices, each taken where the error becomes smaller.

    Parts of one shape and with nearly the same prices share a search where their claims are about any distribution, and
    not `centred`, at a table of their own. Parts that read the secret alone or not at all are left: there the closed
    forms are what the search finds.
    """
    groups: dict[object, list[int]] = {}
    for i, spec in enumerate(plan.specs):
        if spec.reads_secret and spec.columns and math.prod(spec.shape(layout)) <= CELLS:
            groups.setdefault(i if centred else _kind(plan, i, layout), []).append(i)
    shares = {key: sum(float(plan.rows_of(i)) for i in held) for key, held in groups.items()}
    order = sorted(groups, key=lambda key: -shares[key])
    for turn, key in enumerate(order):
        claim, least = claimed(plan.specs[groups[key][0]]), budget.part(1 / (len(order) - turn))
        found = _searched(plan, groups[key][0], layout, claim, centred, least)
        if found is not None:
            plan = _with(plan, {i: replace(found, columns=input_of(plan.specs[i])) for i in groups[key]}, layout)
    return plan


def better(plan: BundlePlan, i: int, others: Sequence[Measured], layout: TurnLayout, claim: Claim) -> BundlePlan:
    """The plan with the answer of a part that lowers the error most, of those that are proved."""
    tried = [(_with(plan, {i: other}, layout).error, n, other) for n, other in enumerate(others)]
    for error, _, other in sorted(tried):
        if error >= plan.error:
            break
        if (made := proved(other, claim)) is not None:
            return _with(plan, {i: made}, layout)
    return plan


def proved(answer: Measured, claim: Claim) -> Measured | None:
    """The answer with a sealed law; None where the proof of its claim is looser than its calibration."""
    try:
        return replace(answer, made=sealed_part(answer, claim).law)
    except ClaimError:
        return None


def _with(plan: BundlePlan, others: Mapping[int, PartAnswer], layout: TurnLayout) -> BundlePlan:
    answers = tuple(others.get(i, a) for i, a in enumerate(plan.answers))
    again = shares_of_rows(plan.specs, answers, layout)
    if again.error >= plan.error * (1 - FEWER):
        return plan
    return replace(plan, answers=answers, shares=again.shares, error=again.error, prices=again.prices)


def _costs(plan: BundlePlan, i: int, layout: TurnLayout) -> dict[tuple[int, ...], float]:
    """What a little noise of each effect costs: its price times the slope of its precision, 1/m²."""
    spec, answer = plan.specs[i], plan.answers[i]
    noises = {e: answer.noise(e, layout.size) for e in held_effects(spec) if e in plan.prices}
    return {e: plan.prices[e] / m**2 if 0 < m < math.inf else 0.0 for e, m in noises.items()}


def _kind(plan: BundlePlan, i: int, layout: TurnLayout) -> object:
    """Parts of one kind have use for the same law."""
    costs = _costs(plan, i, layout)
    total = sum(costs.values()) or 1.0
    told = tuple(round(math.log10(x / total), ALIKE) if x > 0 else None for x in costs.values())
    return tuple(layout.size(c) for c in plan.specs[i].columns), told


def _searched(
    plan: BundlePlan, i: int, layout: TurnLayout, claim: Claim, centred: bool, budget: Budget
) -> Measured | None:
    """A sealed law of the engine for the prices of a part, beginning with the rows of the one that it has."""
    from sfumato.optimise.estimates.goal import Goal, goal
    from sfumato.optimise.estimates.searching import filled, searched

    assert claim.within is not None
    spec, own = plan.specs[i], plan.answers[i].law().matrix()
    near = filled(claim.within).joint
    coordinates = goal(near, "joint").coordinates
    at = coordinates.cell[coordinates.p > 0]
    aim = Goal(coordinates, _form(plan, i, layout)[np.ix_(at, at)])
    known = None if own is None else np.asarray(own, float)[:, coordinates.cell]
    most = claim.also[0].epsilon if claim.also else None
    found = searched(claim.within, claim.epsilon, aim, "both", budget, known, most)
    if found is None or found.rows.shape[0] * near.p.size > MOST_WRITTEN:
        return None
    full = coordinates.full(found.rows)
    p = claim.within.joint.p if centred else None
    made = Measured.of(Table(full / full.sum(0), near.shape[0]), spec, layout, p, claim.epsilon, "searched")
    return None if made is None else proved(made, claim)


def _form(plan: BundlePlan, i: int, layout: TurnLayout) -> Floats:
    """The squared error that is minimised: of each effect by its cost, and a little of everything."""
    columns, (r, k) = input_of(plan.specs[i]), plan.specs[i].shape(layout)
    sizes, form = [layout.size(c) for c in columns], np.zeros((r * k, r * k))
    for effect, cost in _costs(plan, i, layout).items():
        form += cost * effect_form(sizes, [columns.index(c) for c in effect])
    return np.asarray(form / np.trace(form) + BESIDE / (r * k) * np.eye(r * k))
