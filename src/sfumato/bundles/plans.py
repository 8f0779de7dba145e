"""Plans: which parts a bundle has, how strongly each answers, and how ε or the rows are divided among them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from sfumato.alphabet import Floats
from sfumato.bundles.answers import Answer
from sfumato.bundles.sharing import LEAST, SECRET, Spec, TurnLayout, merged_groups, shares_of_rows

MERGED_CELLS = 256  # of a group of columns that are answered as one
MOST_PARTS = 3000
IDLE = 10 * LEAST  # a part with a smaller share of the rows tells nothing that others do not


@dataclass(frozen=True, slots=True, eq=False)
class BundlePlan:
    """Parts that have been chosen: their answers, and the division of the rows among them if they take turns."""

    specs: tuple[Spec, ...]
    answers: tuple[Answer, ...]
    shares: Floats | None
    error: float


def plans(layout: TurnLayout, epsilon: float) -> dict[str, BundlePlan]:
    """Plans that are private for every distribution, by name."""
    out = turn_plans(layout, epsilon)
    if layout.asked is None:
        specs, levels, error = merged_groups(layout, max(epsilon, 1e-9) * (1 - 1e-12), MERGED_CELLS)
        if epsilon == 0:
            levels = np.zeros(len(specs))
        answers = tuple(s.answer(layout, _below(float(e))) for s, e in zip(specs, levels, strict=True))
        out["together"] = BundlePlan(tuple(specs), answers, None, error)
    return out


def turn_plans(layout: TurnLayout, epsilon: float) -> dict[str, BundlePlan]:
    """Those in which each row answers one part."""
    out = {}
    for name, wanted in turn_specs(layout).items():
        if len(wanted) <= MOST_PARTS:
            out[f"in turn: {name}"] = divided(wanted, [s.answer(layout, epsilon) for s in wanted], layout)
    return out


def divided(specs: Sequence[Spec], answers: Sequence[Answer], layout: TurnLayout) -> BundlePlan:
    """The rows divided among parts; those that would get next to none are left out."""
    split = shares_of_rows(specs, answers, layout)
    busy = [i for i, share in enumerate(split.shares) if share > IDLE]
    if len(busy) < len(specs) and math.isfinite(split.error):
        return divided([specs[i] for i in busy], [answers[i] for i in busy], layout)
    return BundlePlan(tuple(specs), tuple(answers), split.shares, split.error)


def least_error(layout: TurnLayout, epsilon: float) -> float:
    """n times the squared error of all wanted tables, by the best plan in turn."""
    return min(plan.error for plan in turn_plans(layout, epsilon).values())


def worth(layout: TurnLayout, epsilon: float) -> float:
    """The share of the rows that a bundle in turn is worth for a column: the harmonic mean over the columns.

    n·E‖p̂ − p‖² of a column is 1 − 1/k without protection, at the even distribution, and 1 / Σ π/m with it.
    """
    plan = min(turn_plans(layout, epsilon).values(), key=lambda p: p.error)
    assert plan.shares is not None
    found = []
    for c in [*([SECRET] if layout.with_secret else []), *range(len(layout.sizes))]:
        k, held = layout.size(c), zip(plan.specs, plan.answers, plan.shares, strict=True)
        if k > 1:
            told = sum(x / a.effect(k - 1, k, secret=c == SECRET) for s, a, x in held if c in s.all)
            found.append(1 / ((1 - 1 / k) * told) if told else math.inf)
    return 1 / float(np.mean(found)) if found else 1.0


def _below(level: float) -> float:
    """Rounded down to nine digits, as answers are known by."""
    return math.floor(level * 1e9) / 1e9


def turn_specs(layout: TurnLayout) -> dict[str, list[Spec]]:
    """Which parts rows may take turns at: one for each wanted table, or tables that all hold the secret.

    Parts of both kinds and of single columns beside them were tried: the best division left those of one kind alone.
    """
    if layout.asked is not None:
        useful = [tuple(c for c in t if c != SECRET) for t in layout.asked]
        apart = dict.fromkeys(Spec(u, SECRET in t) for u, t in zip(useful, layout.asked, strict=True))
        largest = [u for u in dict.fromkeys(useful) if not any(set(u) < set(v) for v in useful)]
        held = {"tables with the secret": [Spec(u, True) for u in largest]} if layout.with_secret else {}
        return {**held, "one part for each table": list(apart)}
    every = range(len(layout.sizes))
    groups = [c for k in {min(layout.order, len(layout.sizes))} for c in combinations(every, k)]
    if not layout.with_secret:
        return {"without the secret": [Spec(g) for g in groups]}
    beside = [Spec((c,), True) for c in every]
    alone = [*(Spec(g) for g in groups if len(g) > 1), *beside]
    return {"tables with the secret": [Spec(g, True) for g in groups], "the secret in tables of its own": alone}
