"""Adapting: which tables of two columns are worth their rows, seen through noisy counts that were paid for.

A table that is not asked about is taken to be independent, which costs the square of its dependence; one that is asked
about costs its noise, and rows of the others. So the tables with most dependence are asked about, as many as make the
expected error of all least.
"""

from __future__ import annotations

import math
import random
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sfumato.alphabet import Alphabet, Floats
from sfumato.bundles.answers import SECRET
from sfumato.bundles.counting import Columns
from sfumato.bundles.sharing import Spec, TurnLayout
from sfumato.errors import InputError, option
from sfumato.joint import Joint
from sfumato.noise import SEEDED, Below, noisy_counts


@dataclass(frozen=True, slots=True, eq=False)
class Adapted:
    """The tables that are asked about, and the noisy counts behind each part that will be, with what they cost."""

    layout: TurnLayout
    joints: dict[Spec, Joint]
    note: str


def adapted(columns: Columns, layout: TurnLayout, spent: float, epsilon: float, seed: int | None = None) -> Adapted:
    """Tables chosen by counts with noise, ε_d in all for every person; ε is what is left for the rows.

    Each part's table is counted with an equal share of ε_d, those that are then left out too: what was paid for them is
    entered with those that stay, so that the file tells all of it.
    """
    if spent <= 0:
        raise InputError(f"{option('--design-epsilon', 'design_epsilon=')} must be positive", value=spent)
    pairs = [t for t in layout.wanted() if len(t) == 2 and SECRET not in t]
    singles = [Spec((c,), True) for c in range(len(layout.sizes))]
    specs = [*(Spec(pair, True) for pair in pairs), *singles]
    exact = columns.tables([(columns.secret, Alphabet(tuple(columns.useful[c] for c in s.columns))) for s in specs])
    share = math.floor(spent / len(specs) * 1e9) / 1e9
    below: Below = secrets.randbelow if seed is None else random.Random(seed).randrange
    drawn = {s: noisy_counts(joint, share, public=True, below=below) for s, joint in zip(specs, exact, strict=True)}
    chosen = _worth_their_rows({pair: drawn[Spec(pair, True)] for pair in pairs}, layout, epsilon)
    held = {c for pair in chosen for c in pair}
    parts = [*(Spec(pair, True) for pair in chosen), *(s for s in singles if s.columns[0] not in held)]
    every = range(len(layout.sizes))
    asked = [*((c,) for c in (SECRET, *every)), *((SECRET, c) for c in every), *chosen]
    joints = {s: _charged(drawn[s], share * len(specs) / len(parts), seed is not None) for s in parts}
    note = (
        f"ε_d = {share * len(specs):g} went to noisy counts of {len(specs)} tables, by which {len(chosen)} of "
        f"{len(pairs)} tables of two columns are worth their rows; another design draws anew, and costs as much again"
    )
    return Adapted(replace(layout, asked=tuple(asked), with_secret=True), joints, note)


def _charged(joint: Joint, spent: float, seeded: bool) -> Joint:
    """The counts with what was paid for them, and for those that are left out."""
    assert joint.noise is not None
    noise = replace(joint.noise, epsilon=spent)
    return replace(joint, noise=replace(noise, sampler=SEEDED) if seeded else noise)


def _worth_their_rows(
    tables: dict[tuple[int, ...], Joint], layout: TurnLayout, epsilon: float
) -> list[tuple[int, ...]]:
    """As many of the most dependent pairs as make a²·m/n + Σ_left δ² least: a of them share the rows."""
    told = {pair: _dependence(joint, [layout.size(c) for c in pair]) for pair, joint in tables.items()}
    order = sorted(told, key=lambda pair: -told[pair])
    n = next(iter(tables.values())).n or 1
    costs = np.cumsum([_moment(pair, layout, epsilon) for pair in order])
    left = sum(told.values()) - np.cumsum([told[pair] for pair in order])
    every = [sum(told.values()), *((a + 1) * costs[a] / n + left[a] for a in range(len(order)))]
    return sorted(order[: int(np.argmin(every))])


def _moment(pair: Sequence[int], layout: TurnLayout, epsilon: float) -> float:
    return Spec(tuple(pair), True).answer(layout, epsilon).noise(pair, layout.size)


def _dependence(joint: Joint, sizes: Sequence[int]) -> float:
    """‖p(a, b) − p(a) p(b)‖² less what noise and rows add to it on average, at least 0."""
    assert joint.noise is not None and joint.n is not None
    p: Floats = joint.p.sum(0).reshape(sizes)
    away = float(((p - np.outer(p.sum(1), p.sum(0))) ** 2).sum())
    cell = 2 * joint.noise.scale**2 * joint.shape[0] / joint.n**2 + 1 / (joint.n * p.size)
    return max(0.0, away - math.prod(k - 1 for k in sizes) * cell)
