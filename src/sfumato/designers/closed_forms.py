"""Closed forms: GRR, SRR, IR, SUE, OUE and CR, calibrated without a search, and made recoverable.

How much each may tell is the greatest parameter for which the notion holds. All of them have rows of the form
1 + t·(mass of some inputs), so a ratio stays within E = e^ε as long as t·(mass given s₁ − E·mass given s₂) ≤ E − 1: t
is a minimum of (E − 1) over positive differences, without root finding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import permutations

import numpy as np
from numpy.typing import ArrayLike

from sfumato.alphabet import Floats
from sfumato.decimals import percent, share_at_most
from sfumato.designers.base import Draft, Task
from sfumato.errors import InputError
from sfumato.joint import Joint
from sfumato.mechanism import Cells, Conditional, Constant, Law, Table, Unary
from sfumato.optimise.arrays import xlogx
from sfumato.tolerances import LEAST, SUBSETS
from sfumato.tolerances import LISTED as MATRIX_CELLS
from sfumato.uncertainty import Anything, ChiSquareBall, Exactly, RenyiBall
from sfumato.uncertainty.sets import UncertaintySet, greatest_gap

# --- how much each may tell -------------------------------------------------------------------------------------------


PAIRS_AT_ONCE = 2_000_000  # of secrets, times values, that are looked at together

def least_quotient(top: ArrayLike, bottom: ArrayLike) -> float:
    """min top / bottom over positive bottoms; ∞ when there are none."""
    above, below = np.broadcast_arrays(np.asarray(top, float), np.asarray(bottom, float))
    positive = below > 0
    return float((above[positive] / below[positive]).min()) if positive.any() else math.inf


def reachable(task: Task) -> tuple[Floats, Floats]:
    """The least and greatest P(u|s) over F, for the secrets that F allows to occur."""
    secrets, (low, high) = task.within.possible, task.within.spikes()
    return low[secrets], high[secrets]


def single_values(spikes: tuple[Floats, Floats], epsilon: ArrayLike) -> Floats:
    """t for rows 1 + t·1{u = u₀} common to all secrets over F, at some levels: GRR on U, IR's tight rule (ours)."""
    (low, high), level = spikes, np.asarray(epsilon, float)
    if len(low) < 2:
        return np.full(level.shape, np.inf)
    gap = greatest_gap(high, low, np.exp(level)[..., None]).max(-1)
    return np.where(gap > 0, np.expm1(level) / np.where(gap > 0, gap, 1.0), np.inf)


def given_secrets(task: Task) -> Floats:
    """p(x|s) over the inputs that the mechanism reads."""
    q = task.joint.useful_given_secret
    return q if task.reads == "useful" else (np.eye(len(q))[:, :, None] * q[:, None, :]).reshape(len(q), -1)


def lip_value(task: Task, offset: ArrayLike = 1.0) -> float:
    """t for ε-LIP of rows offset_u + t·1{u = u₀}, read from U alone [001, root finding replaced].

    (c + t·p(u|s)) / (c + t·p(u)) ≤ E and its inverse, for every s and u.
    """
    q, p, E = task.joint.useful_given_secret[task.within.possible], task.joint.p_useful, math.exp(task.epsilon)
    return least_quotient(math.expm1(task.epsilon) * np.asarray(offset), np.maximum(q - E * p, p - E * q))


def subsets(task: Task) -> float:
    """t for rows 1 + t·1{x ∈ H} over every subset H (SUE, OUE) [001, C = 1 is unsafe here].

    Sets gather mass: max_H P(H|s₁) − E·P(H|s₂) = Σ_x (p(x|s₁) − E·p(x|s₂))₊. A mechanism that reads the secret has
    sets with all of s₁ and none of s₂, so t = E − 1 as for LDP.
    """
    if len(task.promises) > 1:
        return min(map(subsets, task.promises))
    E, rise, secrets = math.exp(task.epsilon), math.expm1(task.epsilon), task.within.possible
    alone = task.rows * task.joint.useful.size == 1  # nothing to tell, whatever the bits
    if alone or task.notion == "ldp" or (task.reads == "both" and task.notion == "rldp" and len(secrets) > 1):
        return rise
    if task.notion == "lip":
        q = given_secrets(task)
        p = task.joint.p_secret @ q
        return least_quotient(rise, [np.maximum(x, 0).sum(1) for x in (q[secrets] - E * p, p - E * q[secrets])])
    return least_quotient(rise, _gathered(task.within, E))


def _gathered(within: UncertaintySet, E: float) -> Floats:
    """An upper bound of Σ_u (R₁ − E·R₂)₊ over F for each ordered pair of secrets that occur; exact for one distribution
    and for any."""
    secrets, (low, high) = within.possible, within.spikes()
    q, (s1, s2) = within.joint.useful_given_secret, np.array([*permutations(secrets, 2)], int).reshape(-1, 2).T

    def most(upper: Floats, lower: Floats) -> Floats:
        parts = np.array_split(np.arange(len(s1)), len(s1) * q.shape[1] // PAIRS_AT_ONCE + 1)
        return np.concatenate([np.maximum(upper[s1[k]] - E * lower[s2[k]], 0).sum(1) for k in parts])

    each: Floats = np.minimum(most(high, low), 1.0)
    if not isinstance(within, ChiSquareBall) or low.shape[1] > SUBSETS:  # proofs list no more
        return each
    radii = l1_radius(within)
    return np.asarray(np.minimum(each, most(q, q) + (radii[s1] + E * radii[s2]) / 2))


def l1_radius(ball: ChiSquareBall) -> Floats:
    """√(C_s − 1) ≥ max ‖R − P̂(·|s)‖₁ given s [000, Prop. 2 item 3, as the upper bound it is], at most 2."""
    return np.minimum(np.sqrt(ball.spread() - 1), 2.0)


# --- generalised randomised response, the truth or any other value with equal chance ----------------------------------


def grr_response(rows: int, useful: int, t: float) -> Law:
    """Q(y|x) ∝ 1 + t if y = x, 1 otherwise; t = 0 ignores the input, t = ∞ tells the truth."""
    if t == 0:
        return Constant(rows, useful)
    if math.isinf(t):
        return Cells(rows, useful, 1.0, 0.0, 0.0, 0.0)
    other = 1 / (rows * useful + t)
    return Cells(rows, useful, (1 + t) * other, other, other, other)


def strength(task: Task) -> float:
    """t = e^α − 1 for one promise.

    Where the secret is read only the secret of x₀ moves, so that t·max P(u|s) ≤ E − 1 over F; at P̂ its P(y|s) is
    compared with P(y), and P(y) with that of the other secrets.
    """
    rise, secrets = math.expm1(task.epsilon), task.within.possible
    if task.notion == "ldp":
        return rise if task.rows * task.joint.useful.size > 1 else math.inf
    if task.reads == "useful":
        return lip_value(task) if task.notion == "lip" else float(single_values(reachable(task), task.epsilon))
    if len(secrets) < 2:
        return math.inf
    if task.notion == "lip":
        p, q = task.joint.p, task.joint.useful_given_secret
        return least_quotient(rise, np.concatenate([(q - (1 + rise) * p)[secrets], p]))
    return least_quotient(rise, reachable(task)[1])


def grr(task: Task) -> Draft:
    """Generalised randomised response over what the mechanism reads [000, (56)], of the `strength` that is allowed."""
    t = min(map(strength, task.promises))
    return Draft(grr_response(task.rows, task.joint.useful.size, t), "grr", details={"strength": math.log1p(t)})


# --- secret randomised response ---------------------------------------------------------------------------------------


def srr_response(rows: int, useful: int, alpha: float) -> Law:
    """Q(y|x) ∝ e^α if y = x, e^{−α} if only the secret agrees, 1 otherwise [000, Def. 4]."""
    if alpha == 0:
        return Constant(rows, useful)
    up, down = math.exp(alpha), math.exp(-alpha)
    total = up + down * (useful - 1) + (rows - 1) * useful
    return Cells(rows, useful, up / total, down / total, 1 / total, 1 / total)


def srr(task: Task, *, fit: bool = False) -> Draft:
    """Secret randomised response: lies about S cost 1, lies about U within the same S cost e^{−ε} [000, Def. 4].

    Ratios reach e^{2ε} only between inputs with the same secret, so the level is ε for any F [000, Prop. 3], also under
    LIP (ε-RLDP implies it); for LDP the parameter is ε/2. With fit=True it grows until the level over this F is ε.
    """
    if task.reads != "both":
        raise InputError("srr reads the secret; ask for reads='both', or use grr or ir with reads='useful'.")
    alpha = task.epsilon
    if task.notion == "ldp" and task.joint.useful.size > 1:
        alpha = task.epsilon / 2
    elif fit and task.notion == "rldp":
        alpha = fitted(task) if task.at_most is None else min(fitted(task), task.at_most)
    return Draft(srr_response(*task.joint.shape, alpha), "srr", details={"strength": alpha})


def fitted(task: Task) -> float:
    """The greatest α with e^{−α}(1 − R) + e^α R within [e^{−ε}, e^ε] for every reachable R = P(u|s) (ours).

    Both are quadratics in x = e^α: R x² − E x + 1 − R ≤ 0 at the greatest R, R x² − x/E + 1 − R ≥ 0 at every R.
    """
    E, (low, high) = math.exp(task.epsilon), reachable(task)
    x = float(((E + np.sqrt(np.maximum(E * E - 4 * high * (1 - high), 0))) / np.maximum(2 * high, LEAST)).min())
    for r in (low, high):
        inner = 1 / E**2 - 4 * r * (1 - r)
        root = np.where(inner > 0, 2 * (1 - r) / (1 / E + np.sqrt(np.maximum(inner, 0))), np.inf)
        x = min(x, float(root.min()))
    return math.log(max(x, E))


# --- independent reporting: randomised response on S and on U side by side, between which ε is split ------------------


SPLITS = 65, 17, 9  # the objective is not unimodal in the split [000, (82)]: a grid with both ends, then finer and
# finer grids around its best point, each an eighth as wide: 2⁻³³ of ε apart at the end
COARSE_SPLITS = 9, 9, 3  # the same where a table is larger than this:
SPLITS_AT_ONCE = 200_000  # cells × splits that are evaluated together
RULES = ("tight", "paper")
Strength = Callable[[ArrayLike], Floats]  # of a response to U, at some levels


def response(rows: int, useful: int, epsilon1: float, t: float) -> Law:
    """GRR at ε₁ on S and, independently, 1 + t against 1 on U."""
    if epsilon1 == 0 and t == 0:
        return Constant(rows, useful)
    e, z = math.exp(epsilon1), math.exp(epsilon1) + rows - 1
    hit, miss = (1.0, 0.0) if math.isinf(t) else ((1 + t) / (useful + t), 1 / (useful + t))
    return Cells(rows, useful, e / z * hit, e / z * miss, hit / z, miss / z)


def total_variation(task: Task) -> float:
    """d = min{2, 2·max rad_s + max ‖P̂(·|s) − P̂(·|s')‖₁} [000, (62)], with rad_s from the exact range of every set."""
    within, q = task.within, task.joint.useful_given_secret
    if isinstance(within, Anything):
        return 2.0
    radii = np.zeros(len(q))
    if isinstance(within, ChiSquareBall):
        radii = l1_radius(within) if q.shape[1] > 2 else 2 * np.abs(np.stack(within.spikes()) - q).max((0, 2))
    elif isinstance(within, RenyiBall):
        radii = within.rad()
    elif not isinstance(within, Exactly):
        raise InputError(f"rule='paper' is not defined over a set of kind {within.kind!r}.")
    apart = max(float(np.abs(q - row).sum(1).max()) for row in q)
    return min(2.0, float(2 * radii.max()) + apart)


def strength_rule(task: Task, rule: str) -> Strength:
    """ε₂ ↦ t, how strongly U may be reported when ε₂ of the budget is left for it; takes many ε₂ at once.

    For any distribution the level is ε₁ + log(1 + t), so a cap of κ leaves 1 + t ≤ e^{κ − ε₁}.
    """
    if task.at_most is not None and task.joint.useful.size > 1:
        over_the_set, room = strength_rule(replace(task, at_most=None), rule), task.at_most - task.epsilon
        return lambda epsilon2: np.minimum(over_the_set(epsilon2), np.expm1(room + np.asarray(epsilon2, float)))
    if rule not in RULES:
        raise InputError(f"rule must be one of {', '.join(RULES)}, got {rule!r}.")
    if task.notion == "ldp":
        return lambda epsilon2: np.expm1(np.asarray(epsilon2, float))
    if rule == "tight":
        return partial(single_values, reachable(task))
    d = total_variation(task)
    return lambda epsilon2: np.asarray(2 * np.expm1(epsilon2) / d if d > 0 else np.full(np.shape(epsilon2), np.inf))


def ir(task: Task, *, rule: str = "tight") -> Draft:
    """Independent reporting: ε₁-LDP response on S and t-strong response on U, ε₁ + ε₂ = ε [000, Thm 5, corrected].

    rule='tight' (default, ours) takes t from max (1 + t·max P(u|s)) / (1 + t·min P(u|s')) = e^{ε₂};
    rule='paper' takes δ₂ = log(1 + 2(e^{ε₂} − 1)/d). Read from U alone there is nothing to split, and it is GRR on U.
    """
    strength = strength_rule(task, rule)
    rows, useful = task.rows, task.joint.useful.size
    if task.reads == "useful":
        law = grr_response(1, useful, float(strength(task.epsilon)))
        return Draft(law, "ir", details={"rule": rule, "split": task.epsilon})
    split, _ = best_split(task.joint, task.epsilon, strength)
    law = response(rows, useful, task.epsilon - split, float(strength(split)))
    note = "the split of ε between S and U comes from a search; only the ceiling bounds what another split could reach"
    return Draft(law, "ir", task.ceiling, (note,), {"rule": rule, "split": split})


def best_split(joint: Joint, epsilon: float, strength: Strength) -> tuple[float, float]:
    """The ε₂ with the highest mutual information, and that information."""
    first, then, turns = SPLITS if joint.p.size <= SPLITS_AT_ONCE else COARSE_SPLITS
    low, high, points, best = 0.0, epsilon, first, (0.0, -math.inf)
    for _ in range(turns + 1):
        splits = np.linspace(low, high, points)
        found = kept(joint, np.maximum(epsilon - splits, 0.0), strength(splits))
        i = int(np.argmax(found))
        best = max(best, (float(splits[i]), float(found[i])), key=lambda pair: pair[1])
        low, high, points = float(splits[max(i - 1, 0)]), float(splits[min(i + 1, points - 1)]), then
    return best


def kept(joint: Joint, epsilon1: Floats, t: Floats) -> Floats:
    """I(S, U; Y) of `response` at every pair of ε₁ and t: H(Y) minus the entropies of the two responses.

    P(y) is bilinear in what S and U answer: Σ_x p(x) a(s', s) b(u', u) with a = a₀ + (a₁ − a₀)·1{s' = s}, likewise b.
    """
    rows, useful = joint.shape
    e = np.exp(-epsilon1)
    own = 1 / (1 + (rows - 1) * e)
    with np.errstate(invalid="ignore"):
        match = np.where(np.isinf(t), 1.0, (1 + t) / (useful + t))
    other, miss = own * e, (1 - match) / max(useful - 1, 1)
    given = -(xlogx(own) + (rows - 1) * xlogx(other) + xlogx(match) + (useful - 1) * xlogx(miss))
    ps, pu = joint.p_secret[:, None], joint.p_useful[None, :]
    step, out = max(1, SPLITS_AT_ONCE // joint.p.size), []
    for i in range(0, len(t), step):
        a1, a0, b1, b0 = (x[i : i + step, None, None] for x in (own, other, match, miss))
        mean = a0 * b0 + (a1 - a0) * b0 * ps + a0 * (b1 - b0) * pu + (a1 - a0) * (b1 - b0) * joint.p
        out.append(-xlogx(mean).sum((1, 2)))
    return np.asarray(np.concatenate(out) - given)


# --- a noisy bit for every value --------------------------------------------------------------------------------------


def sue(task: Task) -> Draft:
    """Symmetric unary encoding: on = √r / (√r + 1), off = 1 − on, with r = 1 + t the ratio a bit may carry."""
    ratio = 1 + subsets(task)
    on = 1.0 if math.isinf(ratio) else math.sqrt(ratio) / (math.sqrt(ratio) + 1)
    return Draft(Unary(task.rows, task.joint.useful.size, on, 1 - on), "sue", details={"strength": math.log(ratio)})


def oue(task: Task) -> Draft:
    """Optimised unary encoding: on = ½, off = 1 / (r + 1) [001, (30)], with r = 1 + t the ratio a bit may carry."""
    ratio = 1 + subsets(task)
    law = Unary(task.rows, task.joint.useful.size, 0.5, 1 / (ratio + 1))
    return Draft(law, "oue", details={"strength": math.log(ratio)})


# --- conditional reporting, the truth or a draw as if S were another secret -------------------------------------------


def cr_response(task: Task, keep: float) -> Law:
    """Q(y|s,u) ∝ κ·1{y = u} + Σ_{s'} p(y|s') − min(κ, 1)·p(y|s).

    κ = e^α ≥ 1 is conditional reporting [001, Alg. 1, (46) corrected]; 0 ≤ κ < 1 continues it down to a law that
    ignores the input, so that every ε can be reached over every set.
    """
    q = task.joint.useful_given_secret
    if math.isinf(keep):
        return Conditional(np.ones(len(q)), np.zeros(q.shape))
    base = np.maximum(q.sum(0) - min(keep, 1.0) * q, 0.0)
    total = base.sum(1) + keep
    return Conditional(keep / total, base / total[:, None])


def cr(task: Task) -> Draft:
    """Conditional reporting: S is masked by randomised response; where the mask slips U is told, elsewhere it is
    redrawn from P̂(U|s̃) [001, Alg. 1]. The notion's inequality is linear in κ = e^α, so the calibration is closed."""
    if task.reads != "both":
        raise InputError("cr reads the secret; ask for reads='both', or use grr with reads='useful'.")
    keep = min(map(_keeping, task.promises))
    return Draft(cr_response(task, keep), "cr", details={"strength": math.log(keep) if keep > 0 else -math.inf})


def _keeping(task: Task) -> float:
    """max κ with (c_y − min(κ,1)p₁ + κR₁) ≤ E(c_y − min(κ,1)p₂ + κR₂) for all reachable R₁, R₂ of two secrets; where
    inputs are compared these are 0 and 1, and the secrets may be the same."""
    q, E, inputs = task.joint.useful_given_secret, math.exp(task.epsilon), task.notion == "ldp"
    total, secrets = q.sum(0), np.arange(len(q)) if inputs else task.within.possible
    if task.notion == "lip":
        return 1 + lip_value(task, total)
    if len(total if inputs else secrets) < 2:
        return math.inf
    q, (low, high) = q[secrets], (np.zeros(q.shape), np.ones(q.shape)) if inputs else task.within.spikes()
    low, high = low[secrets], high[secrets]
    small = large = math.inf
    for i in range(len(secrets)):
        others = inputs | (np.arange(len(secrets)) != i)
        small = min(small, least_quotient((E - 1) * total, (high[i] - q[i]) + E * (q - low)[others]))
        large = min(large, least_quotient(E * (total - q[others]) - (total - q[i]), high[i] - E * low[others]))
    return small if small < 1 else max(1.0, large)


# --- now and then an answer from which the whole table can be estimated -----------------------------------------------


SHARE = 0.05  # of the answers, when none is given


def recoverable(task: Task, draft: Draft, share: float = SHARE) -> Draft:
    """The design with probability 1 − λ, else GRR, and the output says which (ours; docs/robust.md, section 9).

    GRR is a multiple of the identity plus a constant, so it has full rank, and so has the mixture (SRR has not when
    e^ε = |U| − 1). The cost is λ·(value − value of GRR).
    """
    rows, useful = task.rows, task.joint.useful.size
    if 2 * (rows * useful) ** 2 > MATRIX_CELLS:
        raise InputError(f"recoverable designs list a matrix; {rows} × {useful} inputs are too many.")
    plain = grr(task)
    first, second = draft.law.matrix(), plain.law.matrix()
    if first is None or second is None or task.epsilon == 0:
        raise InputError("this design cannot be made recoverable: its outputs are too many to list, or ε is 0.")
    law = Table(np.vstack([(1 - share) * first, share * second]), rows)
    kept, other = draft.value(task), plain.value(task)
    cost = share * (kept - other)
    part, price = percent(share, 0), share_at_most(cost / kept if kept > 0 else 0.0, 2)
    note = f"recoverable: {part} of the answers come from grr, at a cost of {price} of what is kept"
    bound = None if draft.bound is None else (1 - share) * draft.bound + share * other
    return replace(draft, law=law, bound=bound, details={**draft.details, "cost": cost}).with_note(note)
