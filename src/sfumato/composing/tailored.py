"""Tailored: laws made for one part of a bundle, by what the bundle wants of it, and measured by what they tell.

The closed forms (`answers`) treat all values alike. What a part is wanted for does not: of the secret, two columns and
their interactions each has its price, the slope of the bundle's error (`sharing.Division`). The engine that designs
single mechanisms mixes private rows for these prices, and over a set of distributions it may tell far more than what
holds for all of them. A law is taken only where the bundle's expected error becomes smaller, by more than is given for
fewer parts: it stands in the file with all of its weights. Over confidence balls (`ball_bundle`) closed forms too are
made for a part, as strong as its own table's ball allows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sfumato import designers, optimise
from sfumato.alphabet import Floats
from sfumato.certification import certificate, seal
from sfumato.certification.certificate import MARGINS
from sfumato.composing.answers import SECRET, Answer, best_answer
from sfumato.composing.plans import WORTH_FEWER, BundlePlan, Columns, turn_specs, turns_of, useful_of
from sfumato.composing.sharing import PartAnswer, Spec, TurnLayout, held_effects
from sfumato.designers.base import LARGEST
from sfumato.errors import ClaimError
from sfumato.joint import Joint
from sfumato.mechanism import Bundle, Claim, Law, Mechanism, Promise, Table
from sfumato.optimise.budget import Budget
from sfumato.privacy import RLDP, level
from sfumato.tolerances import ALIKE, SLIP
from sfumato.uncertainty import Anything, RenyiBall, UncertaintySet


@dataclass(frozen=True, slots=True)
class Searched:
    """Laws of parts that are searched for by the engine."""

    written: int = 8000  # weights of a law, which stand in the file one by one
    cells: int = 32  # of a part that is searched for: more take long, and their laws are long in the file
    beside: float = 1e-5  # weight of the whole table beside what is wanted, so that all of it stays identified
    digits: int = 1  # digits of the logarithm of prices by which parts of one shape share a law


SEARCHED = Searched()
STRONGEST = 12.0  # nats about a part's own columns, beyond which an answer is the truth for all purposes


@dataclass(frozen=True, slots=True)
class Calibration:
    """How near the greatest parameter of an answer is sought."""

    chords: int = 18  # at most, towards the greatest parameter of a kind; about four are needed
    splits: int = 20  # of ε between the secret and the useful values
    kinds: int = 24  # parameters at which the best kind of answer is asked for
    near: float = 0.002  # relative room that is left to the answer, or to its level


CALIBRATION = Calibration()


def unsealed(answer: PartAnswer, claim: Claim, law: Law | None = None) -> Mechanism:
    """The part that gives an answer about the table its claim is for."""
    assert claim.within is not None
    joint = claim.within.joint
    reads = "both" if answer.rows > 1 else "useful"
    return Mechanism(law or answer.law(), joint.secret, joint.useful, reads, answer.method, claim, joint)


def sealed_part(answer: PartAnswer, claim: Claim) -> Mechanism:
    """The part with integer weights, its own claim about the secret proved."""
    made = unsealed(answer, claim)
    if made.sealed:
        return made
    for margin in MARGINS:  # as sf.seal does, without the levels outside the set, which the bundle states as a whole
        tried = replace(made, law=made.law.rounded(None, margin))
        if certificate(tried, wider=False).holds:
            return tried
    return seal(made, claim)[0]  # which says what is wrong


def proved(answer: Measured, claim: Claim) -> Measured | None:
    """The answer with a sealed law; None where the proof of its claim is looser than its calibration."""
    try:
        return replace(answer, made=sealed_part(answer, claim).law)
    except ClaimError:
        return None


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
        p = np.full(rows.shape[1], 1 / rows.shape[1]) if p is None else p.ravel()
        f = rows @ p
        unit = rows[f > 0] / np.sqrt(f[f > 0])[:, None]
        values, vectors = np.linalg.eigh(unit.T @ unit)
        told, noises = values > SLIP * values[-1], {}
        for effect in held_effects(spec):
            form = effect_form([layout.size(c) for c in columns], [columns.index(c) for c in effect])
            asked = ((vectors.T @ form) * vectors.T).sum(1)
            lost = asked[~told].sum() > SLIP * max(asked.sum(), 1.0)
            noise = float((asked[told] / values[told]).sum() - p @ form @ p)
            noises[tuple(columns.index(c) for c in effect)] = math.inf if lost else noise
        return cls(made, columns, epsilon, method, noises)

    @property
    def rows(self) -> int:
        return self.made.rows

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
        if spec.reads_secret and spec.columns and math.prod(spec.shape(layout)) <= SEARCHED.cells:
            groups.setdefault(i if centred else _kind(plan, i, layout), []).append(i)
    assert plan.shares is not None  # only parts that take turns are searched for
    shares = {key: float(plan.shares[held].sum()) for key, held in groups.items()}
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


def _with(plan: BundlePlan, others: Mapping[int, PartAnswer], layout: TurnLayout) -> BundlePlan:
    answers = tuple(others.get(i, a) for i, a in enumerate(plan.answers))
    again = BundlePlan.in_turn(plan.specs, answers, layout)
    return plan if again.error >= plan.error * (1 - WORTH_FEWER) else again


def _costs(plan: BundlePlan, i: int, layout: TurnLayout) -> dict[tuple[int, ...], float]:
    """What a little noise of each effect costs: its price times the slope of its precision, 1/m²."""
    spec, answer = plan.specs[i], plan.answers[i]
    noises = {e: answer.noise(e, layout.size) for e in held_effects(spec) if e in plan.prices}
    return {e: plan.prices[e] / m**2 if 0 < m < math.inf else 0.0 for e, m in noises.items()}


def _kind(plan: BundlePlan, i: int, layout: TurnLayout) -> object:
    """Parts of one kind have use for the same law."""
    costs = _costs(plan, i, layout)
    total = sum(costs.values()) or 1.0
    told = tuple(round(math.log10(x / total), SEARCHED.digits) if x > 0 else None for x in costs.values())
    return tuple(layout.size(c) for c in plan.specs[i].columns), told


def _searched(
    plan: BundlePlan, i: int, layout: TurnLayout, claim: Claim, centred: bool, budget: Budget
) -> Measured | None:
    """A sealed law of the engine for the prices of a part, beginning with the rows of the one that it has."""
    assert claim.within is not None
    spec, own = plan.specs[i], plan.answers[i].law().matrix()
    near = optimise.filled(claim.within).joint
    coordinates = optimise.goal(near, "joint").coordinates
    at = coordinates.cell[coordinates.p > 0]
    aim = optimise.Goal(coordinates, _form(plan, i, layout)[np.ix_(at, at)])
    known = [] if own is None else [np.asarray(own, float)[:, coordinates.cell]]
    most = claim.also[0].epsilon if claim.also else None
    found = optimise.searched(claim.within, claim.epsilon, aim, "both", budget, known, most)
    if found is None or found.rows.shape[0] * near.p.size > SEARCHED.written:
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
    return np.asarray(form / np.trace(form) + SEARCHED.beside / (r * k) * np.eye(r * k))


# --- parts in turn that are private for every distribution whose small tables lie in confidence balls -----------------


def balls_around(joints: Sequence[Joint], confidence: float, sets: int) -> list[RenyiBall]:
    """Balls that hold together with all sets that might have been chosen instead (Bonferroni).

    They must hold theirs at every n: an asymptotic radius is least true far out in the tail, where an equal share of a
    small risk lies. So bundles take the finite-sample balls of order 1, whose radius grows like log(sets).
    """
    return [RenyiBall(joint, alpha=1, confidence=1 - (1 - confidence) / sets) for joint in joints]


def ball_bundle(
    columns: Columns, layout: TurnLayout, epsilon: float, confidence: float, origin: str, budget: Budget | None,
    at_most: float | None,
) -> tuple[Bundle, BundlePlan]:
    """Each part answers as strongly as its own table's ball allows; the balls hold together.

    There is a part for every wanted table that lies in no other, whatever the rows are: parts that were left out for
    what was seen in the rows would have to share the risk all the same.
    """
    every = turn_specs(layout, beside=False)
    specs = [s for s in every if not any(s.all < other.all for other in every)]
    joints = columns.tables([(columns.secret, useful_of(columns, s)) for s in specs])
    balls = dict(zip(specs, balls_around(joints, confidence, len(specs)), strict=True))

    def claimed(spec: Spec) -> Claim:
        also = () if at_most is None else (Claim("rldp", at_most, Anything(balls[spec].joint)),)
        return Claim("rldp", epsilon, balls[spec], also=also)

    answers = [_plain(s, layout, balls[s], epsilon, STRONGEST if at_most is None else at_most) for s in specs]
    plan = BundlePlan.in_turn(specs, answers, layout)
    for i, s in ((i, s) for i, s in enumerate(specs) if s.reads_secret and s.columns):
        plan = better(plan, i, _side_by_side(s, layout, claimed(s)), layout, claimed(s))
    if budget is not None and 0 < epsilon <= LARGEST:
        plan = tailored(plan, layout, claimed, budget, centred=True)
    parts = tuple(sealed_part(a, claimed(s)) for s, a in zip(plan.specs, plan.answers, strict=True))
    return Bundle(parts, columns.secret, turns_of(plan.shares), Promise(epsilon, "tables"), origin), plan


def _plain(spec: Spec, layout: TurnLayout, ball: RenyiBall, epsilon: float, most: float) -> PartAnswer:
    """Without the secret as strongly as the ball allows, with it as for any distribution, measured at the table."""
    if not spec.reads_secret:
        return strongest(ball, epsilon, most)
    answer = spec.answer(layout, epsilon)
    return Measured.of(answer.law(), spec, layout, ball.joint.p, epsilon, answer.method) or answer


def _side_by_side(spec: Spec, layout: TurnLayout, claim: Claim) -> list[Measured]:
    """What else a part that reads the secret may answer over its ball: about the secret and, independently, about the
    rest (IR), ε divided between them in several ways: over a set of distributions the useful values may be told far
    more clearly than the secret [000, Thm 5]."""

    assert claim.within is not None
    epsilon, (r, k) = claim.epsilon, claim.within.joint.shape
    most = claim.also[0].epsilon if claim.also else None
    strength = designers.strength_rule(designers.Task(claim.within, epsilon, at_most=most), "tight")
    parts = epsilon * np.linspace(0.0, 0.95, CALIBRATION.splits)
    laws = [designers.response(r, k, epsilon - e, float(strength(e))) for e in parts]
    found = [Measured.of(law, spec, layout, claim.within.joint.p, epsilon, "ir") for law in laws]
    return [x for x in found if x is not None]


def strongest(within: UncertaintySet, epsilon: float, most: float = STRONGEST) -> Answer:
    """The answer that does not read the secret and tells most, of those whose level about the secret over the set is ε.

    Of each kind (single values, blocks of an order, sets of a size) that is the best at some parameter up to `most` the
    greatest parameter is looked for, on floats: sealing proves it afterwards, so a slip of the search costs a little
    strength and no privacy.
    """
    k = within.joint.useful.size
    if not 0 < epsilon < most:
        return best_answer(1, k, epsilon)
    best = [best_answer(1, k, round(float(e), 9)) for e in np.geomspace(epsilon, most, CALIBRATION.kinds)]
    found, e = [], epsilon
    for kind in {(a.order, a.chosen): a for a in best}.values():
        found.append(_greatest(kind, within, epsilon, most, e))
        e = found[-1].epsilon
    return min(found, key=lambda a: a.moment(k, secret=False))


def _greatest(answer: Answer, within: UncertaintySet, epsilon: float, most: float, e: float) -> Answer:
    """An answer of this kind with the greatest parameter, by chords of log level over log e, nearly a straight line.

    At ε about its own columns it is ε-private for every distribution, so no less is looked for.
    """
    joint, notion, low, high, slope, before = within.joint, RLDP(within), epsilon, most, 1.0, (0.0, 0.0)
    for _ in range(CALIBRATION.chords):
        made = Mechanism(replace(answer, epsilon=e).law(), joint.secret, joint.useful, "useful")
        found = max(level(made, notion), SLIP)
        low, high = (e, high) if found <= epsilon * (1 - ALIKE) else (low, e)
        near = CALIBRATION.near
        if high - low <= near * high or (low == e and (e == most or found >= epsilon * (1 - near))):
            break
        here = math.log(e), math.log(found)
        if before != (0.0, 0.0) and here[0] != before[0]:
            slope = max((here[1] - before[1]) / (here[0] - before[0]), 0.1)
        before, ahead = here, e * (epsilon * (1 - CALIBRATION.near / 2) / found) ** (1 / slope)
        e = round(min(ahead, most) if low < ahead and (ahead < high or high == most) else math.sqrt(low * high), 9)
    return replace(answer, epsilon=low)
