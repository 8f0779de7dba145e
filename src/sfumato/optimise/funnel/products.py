"""Product mechanisms for several attributes under ε-SRLIP: a valid construction, and the paper's for comparison.

Theorem 4 of the paper, that a product of ε^j-LIP mechanisms is Σε^j-SRLIP, is false. docs/funnel.md proves what holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations

import numpy as np

from sfumato.errors import InputError
from sfumato.optimise.arrays import Floats, information, least_share
from sfumato.optimise.budget import FREE, Budget
from sfumato.optimise.funnel.posteriors import as_matrix, conditional_gain
from sfumato.optimise.funnel.rays import Degenerate, TooManyRays, extreme_rays
from sfumato.optimise.linear import best_cover

Mechanisms = tuple[Floats, ...]
Level = Callable[[Floats, Sequence[Floats]], float]  # the true SRLIP level of a product at the table p[s, x¹, …, x^m]
RISE = 1e-5  # nats that a round must add for another to follow
FAVOURED = 0.8  # of the budget, for one attribute, in the starts that favour one


@dataclass(frozen=True, slots=True, eq=False)
class ProductMechanism:
    """Mechanisms Q^j[y^j, x^j] applied attribute by attribute, I(X;Y) of the whole, and its true SRLIP level."""

    mechanisms: Mechanisms
    value: float
    level: float


def product(p: Floats, mechanisms: Sequence[Floats], level: Level) -> ProductMechanism:
    """Any product mechanism with its information and its exact level."""
    value = information(whole(mechanisms), p.sum(axis=0).ravel())
    return ProductMechanism(tuple(mechanisms), value, level(p, mechanisms))


def whole(mechanisms: Sequence[Floats]) -> Floats:
    """Q¹ ⊗ … ⊗ Q^m on the flat index of (x¹, …, x^m)."""
    return reduce(lambda first, second: np.asarray(np.kron(first, second), float), mechanisms)


def _subsets(items: Sequence[int]) -> list[tuple[int, ...]]:
    return [known for size in range(len(items) + 1) for known in combinations(items, size)]


def srlip_rows(p: Floats, epsilon: float) -> Floats:
    """Rows A with A v ≤ 0 iff a posterior v of x = (x¹, …, x^m) moves no P(s|x^J) by more than e^{±ε}.

    P(y|s,x^J)/P(y|x^J) = Σ_{x ∋ x^J} p(s|x) v_x / (p(s|x^J) Σ_{x ∋ x^J} v_x): two rows for each J, x^J, s. Knowing all
    attributes leaves nothing to be told, so J is a proper subset.
    """
    flat, place = p.reshape(len(p), -1), np.indices(p.shape[1:]).reshape(p.ndim - 1, -1)
    given = flat / np.where(flat.any(axis=0), flat.sum(axis=0), 1.0)
    rows = []
    for known in _subsets(range(p.ndim - 1))[:-1]:
        _, key = np.unique(np.vstack([np.zeros_like(place[:1]), place[list(known)]]), axis=1, return_inverse=True)
        cell = key.ravel() == np.arange(key.max() + 1)[:, None]  # [x^J, x]
        rows.append(shift_rows(cell[:, None, :] * given, cell @ flat.T, epsilon))
    return np.concatenate(rows)


def shift_rows(tables: Floats, prior: Floats, epsilon: float) -> Floats:
    """Rows A with A r ≤ 0 iff e^{−ε} ≤ P(s, k, y)·P(k) / (P(k, y)·prior(s, k)) ≤ e^ε.

    tables[k, s, x] = P(k, s, x) up to a factor per k; prior[k, s] the law of s that the posterior is compared with.
    """
    occurs = prior > 0.0
    total = tables.sum(axis=1, keepdims=True)
    given = tables / np.where(occurs, prior, 1.0)[:, :, None] * prior.sum(axis=1)[:, None, None]
    size = np.maximum(np.abs(given).max(axis=(1, 2), keepdims=True), total.max(axis=2, keepdims=True))
    scale = np.where(size > 0.0, size, 1.0)
    given, total = given / scale, np.broadcast_to(total / scale, given.shape)
    rows = np.concatenate([(given - np.exp(epsilon) * total)[occurs], (np.exp(-epsilon) * total - given)[occurs]])
    return np.asarray(rows[rows.max(axis=1) > 0.0])


def _views(p: Floats, mechanisms: Sequence[Floats], j: int) -> Iterable[tuple[Floats, Floats]]:
    """For each J without j, the empty one first: P(k, s, x^j) with k = (x^J, y^K), and P(x^J, s)."""
    others = [i for i in range(p.ndim - 1) if i != j]
    for known in _subsets(others):
        seen = p
        for i in others:
            if i not in known:
                seen = np.moveaxis(np.tensordot(seen, mechanisms[i], axes=(i + 1, 1)), -1, i + 1)
        hidden = tuple(i + 1 for i in range(p.ndim - 1) if i not in known)
        prior = np.broadcast_to(p.sum(axis=hidden, keepdims=True), seen.shape)  # whatever x^j is
        order = [i + 1 for i in others] + [0, j + 1]
        tables, prior = (x.transpose(order).reshape(-1, p.shape[0], p.shape[j + 1]) for x in (seen, prior))
        yield tables, prior[:, :, 0]


def _best(p: Floats, done: Sequence[Floats], j: int, epsilon: float, *, alone: bool = False) -> Floats:
    """The Q^j that adds most to what the mechanisms there are tell, by extreme rows and an LP: under the true ε-SRLIP
    of the product [ours], by the block theorem (docs/funnel.md), or `alone` under ε-LIP given what is known of others.
    """
    views = list(_views(p, done, j))
    size, gain = p.shape[j + 1], conditional_gain(views[0][0].sum(axis=1))  # P(k, x^j), k the outputs there are
    rows = [shift_rows(tables, tables.sum(axis=2) if alone else prior, epsilon) for tables, prior in views]
    try:
        rays = extreme_rays(np.concatenate(rows), dimension=size)
    except (TooManyRays, Degenerate):
        what = f"a part with {p.shape[j + 1]} values and {len(p)} secrets has too many extreme rows to list"
        raise InputError(what, next="Group rare values, or use lip for one column.") from None
    points = np.concatenate([rays, np.full((1, size), 1.0 / size)])
    return as_matrix(best_cover(np.ones(size), points, gain(points)))


def sequential(p: Floats, budgets: Sequence[float], order: Iterable[int]) -> Mechanisms:
    """Q^j in turn, each ε^j-LIP for the law of (S, X^j) given any x^J and the outputs y^K of earlier k ∉ J [errata]:
    valid by the sequential theorem (docs/funnel.md)."""
    done = [np.ones((1, size)) for size in p.shape[1:]]  # those to come always say the same
    for j in order:
        done[j] = _best(p, done, j, budgets[j], alone=True)
    return tuple(done)


def ascent(p: Floats, mechanisms: Sequence[Floats], epsilon: float, level: Level, budget: Budget) -> ProductMechanism:
    """Improve one attribute after another until a whole round adds next to nothing; never worse, always valid."""
    best = mixed_to_level(p, mechanisms, epsilon, level)
    while True:  # each round but the last adds RISE, and H(X) limits what can be added
        before = best.value
        for j in range(len(best.mechanisms)):
            matrices = list(best.mechanisms)
            matrices[j] = _best(p, matrices, j, epsilon)
            trial = mixed_to_level(p, matrices, epsilon, level)
            if trial.value > best.value and trial.level <= epsilon:
                best = trial
        if best.value < before + RISE or budget.over:
            return best


def mixed_to_level(p: Floats, mechanisms: Sequence[Floats], epsilon: float, level: Level) -> ProductMechanism:
    """The product with as little of a constant law mixed into each as brings the true level to ε or below."""

    def blend(share: float) -> Mechanisms:
        return tuple((1.0 - share) * m + share * m.mean(axis=1, keepdims=True) for m in mechanisms)

    return product(p, blend(least_share(lambda share: level(p, blend(share)) <= epsilon)), level)


def best_product(
    p: Floats, epsilon: float, level: Level, *, starts: int = 4, budget: Budget = FREE
) -> ProductMechanism:
    """A product mechanism with high I(X;Y) and a true SRLIP level of at most ε: block ascent, which moves budget
    between attributes by itself, from sequential constructions with the budget shared equally, and mostly for one."""
    p = p / p.sum()
    count = p.ndim - 1
    rest = (1.0 - FAVOURED) * epsilon / max(1, count - 1)
    splits = [np.full(count, epsilon / count), *np.where(np.eye(count, dtype=bool), FAVOURED * epsilon, rest)]
    found = []
    for shares in splits[: starts if count > 1 else 1]:
        order = np.argsort(-shares, kind="stable").tolist()
        found.append(ascent(p, sequential(p, shares.tolist(), order), epsilon, level, budget))
        if budget.over:
            break
    return max(found, key=lambda made: made.value)


def paper_product(p: Floats, epsilon: float, level: Level) -> ProductMechanism:
    """The paper's design: Q^j is (ε/m)-LIP for p_{S,X^j|x^J}, all J [001, Thm 4 (false)]; its level may exceed ε."""
    p, count = p / p.sum(), p.ndim - 1
    return product(p, [sequential(p, [epsilon / count] * count, [j])[j] for j in range(count)], level)
