"""Product mechanisms for several attributes under ε-SRLIP: a valid construction, and the paper's for comparison.

Theorem 4 of the paper, that a product of ε^j-LIP mechanisms is Σε^j-SRLIP, is false. docs/funnel.md proves what holds.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, combinations

import numpy as np

from sfumato.alphabet import Floats
from sfumato.designers.posteriors import information
from sfumato.designers.row_cones import as_matrix, best_rows, conditional_gain
from sfumato.privacy.srlip import product_level

Mechanisms = tuple[Floats, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Product:
    """Mechanisms Q^j[y^j, x^j] applied attribute by attribute, I(X;Y) of the whole, and its true SRLIP level."""

    mechanisms: Mechanisms
    value: float
    level: float


def product(p: Floats, mechanisms: Sequence[Floats]) -> Product:
    """Any product mechanism with its information and its exact level."""
    whole: Floats = np.ones((1, 1))
    for matrix in mechanisms:
        whole = np.asarray(np.kron(whole, matrix), float)
    value = information(whole, p.sum(axis=0).ravel())
    return Product(tuple(mechanisms), value, product_level(p, mechanisms))


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
    rows = np.concatenate(
        [(given - np.exp(epsilon) * total)[occurs], (np.exp(-epsilon) * total - given)[occurs]]
    )
    return np.asarray(rows[rows.max(axis=1) > 0.0])


def _views(p: Floats, mechanisms: Sequence[Floats | None], j: int) -> Iterable[tuple[Floats, Floats]]:
    """For each J without j: P(k, s, x^j) with k = (x^J, y^K), and P(x^J, s); attributes without one are dropped."""
    others = [i for i in range(p.ndim - 1) if i != j]
    subsets = chain.from_iterable(combinations(others, size) for size in range(len(others) + 1))
    for known in subsets:
        seen = p
        for i in others:
            if i not in known:
                matrix = mechanisms[i]
                matrix = np.ones((1, p.shape[i + 1])) if matrix is None else matrix
                seen = np.moveaxis(np.tensordot(seen, matrix, axes=(i + 1, 1)), -1, i + 1)
        hidden = tuple(i + 1 for i in range(p.ndim - 1) if i not in known)
        shape = [1 if i == j + 1 else seen.shape[i] for i in range(seen.ndim)]
        prior = np.broadcast_to(p.sum(axis=hidden, keepdims=True), shape)
        order = [i + 1 for i in others] + [0, j + 1]
        yield (
            seen.transpose(order).reshape(-1, p.shape[0], p.shape[j + 1]),
            prior.transpose(order).reshape(-1, p.shape[0]),
        )


def _context(p: Floats, mechanisms: Sequence[Floats | None], j: int) -> Floats:
    """P(k, x^j) with k the outputs of the mechanisms there are."""
    seen = p.sum(axis=0)
    for i, matrix in enumerate(mechanisms):
        if i != j:
            matrix = np.ones((1, p.shape[i + 1])) if matrix is None else matrix
            seen = np.moveaxis(np.tensordot(seen, matrix, axes=(i, 1)), -1, i)
    return np.asarray(np.moveaxis(seen, j, -1).reshape(-1, p.shape[j + 1]))


def sequential(p: Floats, budgets: Sequence[float], order: Sequence[int]) -> Mechanisms:
    """Q^j in turn, each ε^j-LIP for the law of (S, X^j) given any x^J and the outputs y^K of earlier k ∉ J [errata].

    Valid by the chain rule: P(y|s,x^J)/P(y|x^J) = Π_{j∉J} P(y^j|s,x^J,y^K)/P(y^j|x^J,y^K), each within e^{±ε^j}.
    """
    done: list[Floats | None] = [None] * (p.ndim - 1)
    for j in order:
        rows = []
        for tables, _ in _views(p, done, j):
            rows.append(shift_rows(tables, tables.sum(axis=2), budgets[j]))
        gain = conditional_gain(_context(p, done, j))
        done[j] = as_matrix(best_rows(np.concatenate(rows), gain, dimension=p.shape[j + 1]))
    return tuple(matrix for matrix in done if matrix is not None)


def improved(p: Floats, mechanisms: Sequence[Floats], j: int, epsilon: float) -> Floats:
    """The best Q^j for the other mechanisms as they are, under the true ε-SRLIP of the product [ours].

    With the others fixed, every condition e^{−ε} ≤ P(y|s,x^J)/P(y|x^J) ≤ e^ε with j ∉ J is linear in Q^j(y^j|·),
    those with j ∈ J do not contain Q^j, and I(X;Y) = const + I(X^j;Y^j|Y^others): again extreme rows and an LP.
    """
    rows = np.concatenate([shift_rows(tables, prior, epsilon) for tables, prior in _views(p, mechanisms, j)])
    gain = conditional_gain(_context(p, mechanisms, j))
    return as_matrix(best_rows(rows, gain, dimension=p.shape[j + 1]))


def ascent(
    p: Floats, mechanisms: Sequence[Floats], epsilon: float, *, rounds: int = 20, rise: float = 1e-5,
    deadline: float = math.inf,
) -> Product:
    """Improve one attribute after another until a whole round adds less than `rise` nats; never worse, always valid."""
    best = product(p, mechanisms)
    for _ in range(rounds):
        before = best.value
        for j in range(len(best.mechanisms)):
            matrices = list(best.mechanisms)
            matrices[j] = improved(p, matrices, j, epsilon)
            trial = product(p, mixed_to_level(p, matrices, epsilon))
            if trial.value > best.value and trial.level <= epsilon:
                best = trial
        if best.value < before + rise or time.monotonic() > deadline:
            break
    return best


def mixed_to_level(p: Floats, mechanisms: Sequence[Floats], epsilon: float) -> Mechanisms:
    """The mechanisms with as little of a constant law mixed into each as brings the true level to ε or below."""
    current = tuple(mechanisms)
    for power in range(-50, 1, 2):
        if product_level(p, current) <= epsilon:
            break
        eta = 2.0**power
        current = tuple((1.0 - eta) * m + eta * m.mean(axis=1, keepdims=True) for m in mechanisms)
    return current


def best_product(p: Floats, epsilon: float, *, starts: int = 4, deadline: float = math.inf) -> Product:
    """A product mechanism with high I(X;Y) whose true SRLIP level is at most ε.

    Starts: the sequential construction with the budget shared equally, and given to one attribute each; every start
    is improved by block ascent, which moves budget between attributes by itself, so no split has to be guessed.
    """
    p = p / p.sum()
    count = p.ndim - 1
    splits = [np.full(count, epsilon / count)]
    splits += [
        np.where(np.arange(count) == j, 0.8 * epsilon, 0.2 * epsilon / max(1, count - 1)) for j in range(count)
    ]
    best: Product | None = None
    for budgets in splits[: starts if count > 1 else 1]:
        order = np.argsort(-budgets, kind="stable").tolist()
        first = mixed_to_level(p, sequential(p, budgets.tolist(), order), epsilon)
        found = ascent(p, first, epsilon, deadline=deadline)
        if best is None or found.value > best.value:
            best = found
        if time.monotonic() > deadline:
            break
    assert best is not None
    return best


def paper_product(p: Floats, epsilon: float) -> Product:
    """The paper's design: Q^j is (ε/m)-LIP for p_{S,X^j|x^J}, all J [001, Thm 4 (false)]; its level may exceed ε."""
    p = p / p.sum()
    count = p.ndim - 1
    nothing: list[Floats | None] = [None] * count
    found = []
    for j in range(count):
        rows = [shift_rows(t, t.sum(axis=2), epsilon / count) for t, _ in _views(p, nothing, j)]
        gain = conditional_gain(_context(p, nothing, j))
        found.append(as_matrix(best_rows(np.concatenate(rows), gain, dimension=p.shape[j + 1])))
    return product(p, found)
