"""Plans: which parts a bundle has, how strongly each answers, how ε or the rows are divided among them, and what would
make its errors smaller."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from sfumato.alphabet import Alphabet, Floats
from sfumato.composing.answers import SECRET
from sfumato.composing.counting import Columns
from sfumato.composing.sharing import PartAnswer, Spec, TurnLayout, answered, merged_groups, shares_of_rows
from sfumato.designers.aiming import HELPS, Help
from sfumato.mechanism import Bundle
from sfumato.mechanism.law import MOST_BITS
from sfumato.tolerances import SLIP

MERGED_CELLS = 256  # of a group of columns that are answered as one
MOST_PARTS = 3000
LEAST_SHARES = (0.3, 0.1, 0.03, 0.01, 0.003)  # of an even share: parts with less are left out,
WORTH_FEWER = 1e-3  # where that costs no more of the error


@dataclass(frozen=True, slots=True, eq=False)
class BundlePlan:
    """Parts that have been chosen: their answers, and the division of the rows among them if they take turns."""

    specs: tuple[Spec, ...]
    answers: tuple[PartAnswer, ...]
    shares: Floats | None
    error: float
    prices: Mapping[tuple[int, ...], float] = field(default_factory=dict)  # of each effect, see `Division`

    @classmethod
    def in_turn(cls, specs: Sequence[Spec], answers: Sequence[PartAnswer], layout: TurnLayout) -> BundlePlan:
        """With the rows divided among these parts."""
        split = shares_of_rows(specs, answers, layout)
        return cls(tuple(specs), tuple(answers), split.shares, split.error, split.prices)


def plans(layout: TurnLayout, epsilon: float) -> dict[str, BundlePlan]:
    """Plans that are private for every distribution, by name."""
    out = {}
    if (turns := turn_plan(layout, epsilon)) is not None:
        out["in turn"] = turns
    if layout.asked is None:
        specs, levels, error = merged_groups(layout, max(epsilon, 1e-9) * (1 - SLIP), MERGED_CELLS)
        if epsilon == 0:
            levels = np.zeros(len(specs))
        answers = tuple(s.answer(layout, _below(float(e))) for s, e in zip(specs, levels, strict=True))
        out["together"] = BundlePlan(tuple(specs), answers, None, error)
    return out


def turn_plan(layout: TurnLayout, epsilon: float) -> BundlePlan | None:
    """The one in which each row answers one part; None where there would be too many of them."""
    specs = turn_specs(layout)
    if len(specs) > MOST_PARTS:
        return None
    return divided(specs, answered(specs, layout, epsilon)[0], layout)


def divided(specs: Sequence[Spec], answers: Sequence[PartAnswer], layout: TurnLayout) -> BundlePlan:
    """The rows divided among as few of the parts as do nearly as well as all."""
    plan = BundlePlan.in_turn(specs, answers, layout)
    assert plan.shares is not None
    for least in LEAST_SHARES if math.isfinite(plan.error) else ():
        busy = np.flatnonzero(plan.shares > least / len(specs)).tolist()
        few = BundlePlan.in_turn([specs[i] for i in busy], [answers[i] for i in busy], layout)
        if few.error <= plan.error * (1 + WORTH_FEWER):
            return few
    return plan


def worth(layout: TurnLayout, epsilon: float) -> float:
    """The share of the rows that a bundle in turn is worth for a column: the harmonic mean over the columns.

    n·E‖p̂ − p‖² of a column is 1 − 1/k without protection, at the even distribution, and 1 / Σ π/m with it.
    """
    plan = turn_plan(layout, epsilon)
    if plan is None:
        return 0.0
    assert plan.shares is not None
    found = []
    for c in [*([SECRET] if layout.with_secret else []), *range(len(layout.sizes))]:
        k, held = layout.size(c), zip(plan.specs, plan.answers, plan.shares, strict=True)
        if k > 1:
            told = sum(x / a.noise((c,), layout.size) for s, a, x in held if c in s.all)
            found.append(1 / ((1 - 1 / k) * told) if told else math.inf)
    return 1 / float(np.mean(found)) if found else 1.0


def _below(level: float) -> float:
    """Rounded down to nine digits, as answers are known by."""
    return math.floor(level * 1e9) / 1e9


def turn_specs(layout: TurnLayout, *, beside: bool = True) -> list[Spec]:
    """Parts that rows may take turns at: one for each wanted table, and the same with the secret `beside` it.

    Which of them get rows is left to the division: with a secret of few values small tables are told better with it
    (the ratio of rows of one secret may be e^{2ε}), large ones without, and single columns get some of their own.
    """
    tables = [(tuple(c for c in t if c != SECRET), SECRET in t) for t in layout.wanted()]
    apart = [Spec(u, reads) for u, reads in tables]
    both = [Spec(u, True) for u, _ in tables] if layout.with_secret and beside else []
    every = dict.fromkeys([*apart, *(both if len(apart) + len(both) <= MOST_PARTS else ())])
    return sorted(every, key=lambda s: (max(s.columns, default=SECRET), s.columns))  # columns in the order given


def useful_of(columns: Columns, spec: Spec) -> Alphabet:
    return Alphabet(tuple(columns.useful[c] for c in spec.columns)) if spec.columns else Alphabet(())


def turns_of(shares: Floats | None) -> tuple[int, ...] | None:
    """Shares as integers that sum to 2^62."""
    if shares is None:
        return None
    whole = [max(1, math.floor(math.ldexp(float(x), MOST_BITS))) for x in shares]
    whole[int(np.argmax(shares))] += 2**MOST_BITS - sum(whole)
    return tuple(whole)


# --- what would make the errors of a bundle smaller -------------------------------------------------------------------


def layout_of(bundle: Bundle) -> TurnLayout:
    """The columns of a bundle by size, and the tables that its parts hold."""
    names = bundle.useful.names
    order = max(len(part.useful.columns) for part in bundle.parts)
    sizes = tuple(c.size for c in bundle.useful.columns)
    return TurnLayout(bundle.secret.size, sizes, (1.0,) * len(names), bundle.reads == "both", min(2, order))


def helps(bundle: Bundle) -> list[Help]:
    """Ways to smaller errors of a share on average, the best first, by plans with and without them."""
    rows = Help("twice as many rows", math.sqrt(0.5))
    if bundle.claim is None or bundle.claim.assuming != "nothing" or not bundle.claim.epsilon:
        return [rows]
    layout, epsilon = layout_of(bundle), bundle.claim.epsilon
    now = least_error(layout, epsilon)
    tried = {f"ε = {2 * epsilon:g} instead of {epsilon:g}": least_error(layout, 2 * epsilon)}
    if (k := len(layout.sizes)) > 2:
        fewest = sorted(range(k), key=lambda c: layout.sizes[c])[: (k + 1) // 2]
        few = replace(layout, sizes=tuple(layout.sizes[c] for c in fewest), weights=(1.0,) * len(fewest))
        tried[f"the {len(fewest)} useful columns with the fewest values"] = least_error(few, epsilon)
    widest = max(range(k), key=lambda c: layout.sizes[c])
    if layout.sizes[widest] > 3:
        half = (layout.sizes[widest] + 1) // 2
        coarse = replace(layout, sizes=tuple(half if c == widest else x for c, x in enumerate(layout.sizes)))
        name = bundle.useful.columns[widest].name
        tried[f"{half} instead of {layout.sizes[widest]} values of {name}"] = least_error(coarse, epsilon)
    found = [Help(what, math.sqrt(x / now)) for what, x in tried.items() if 0 < x < now]
    return sorted([*found, rows], key=lambda h: h.times)[:HELPS]


def least_error(layout: TurnLayout, epsilon: float) -> float:
    """n times the mean square error of a share, by the plan in turn."""
    plan = turn_plan(layout, epsilon)
    return math.inf if plan is None else plan.error
