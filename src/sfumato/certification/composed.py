"""Bounds of several releases whose joint outputs are too many to list.

Let A be some of the releases and R the rest. For every P, y, and s₁ ≠ s₂,

    P(y_A, y_R|s₁) / P(y_A, y_R|s₂)  ≤  P(y_A|s₁) / P(y_A|s₂) · max_u Q_R(y_R|s₁,u) / min_u' Q_R(y_R|s₂,u'),

because Q_R can be taken out of both sums at its extremes; the last factor is at most the product over R of each
release's ratio for any distribution. So ε(A over F) + Σ_R ε_j(any distribution) bounds the level over F, for any choice
of A; for LIP and SRLIP, whose denominators also hold s₁ itself, the same with each release's ratio about the input.
The sum of the levels over F themselves is no bound: both releases look at the same u. [ours]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sfumato.certification.linear import about_anything, about_input, alone, power_product
from sfumato.certification.witness import Attained
from sfumato.mechanism import Law, Mechanism, Product

Proof = Callable[[Mechanism], Attained]  # of a mechanism that can be listed or has a form of its own


def bounded(mechanism: Mechanism, proof: Proof, *, whole_record: bool) -> Attained:
    """The least bound among: every release for any distribution, and some of them proved jointly with the rest so."""
    law = mechanism.law
    assert isinstance(law, Product)
    price = about_input if whole_record else about_anything
    prices = [price(alone(mechanism, p)) for p in law.parts]
    best = Attained(power_product((found, p.times) for found, p in zip(prices, law.parts, strict=True)), {})
    order = sorted(range(len(prices)), key=lambda j: -prices[j].ratio)
    chosen = _chosen(law, order)
    if not chosen:
        return best
    together = proof(_some(mechanism, law, chosen))
    rest = power_product((prices[j], p.times - chosen.get(j, 0)) for j, p in enumerate(law.parts))
    ratio = power_product([(together, 1), (Attained(rest, {}), 1)])
    return Attained(ratio, {k: v for k, v in together.where.items() if k != "output"}) if ratio < best.ratio else best


def _chosen(law: Product, order: list[int]) -> dict[int, int]:
    """How often each release goes into the joint proof: as many as can be listed, dearest first; else one alone that
    has a form of its own."""
    chosen: dict[int, int] = {}
    for j in order:
        times = law.parts[j].times
        while times and not _product(law, {**chosen, j: times}).listed:
            times //= 2
        if times:
            chosen[j] = times
    if not chosen:
        whole = [j for j in order if law.parts[j].columns == tuple(range(len(law.sizes)))]
        return {whole[0]: 1} if whole else {}
    return chosen


def _product(law: Product, chosen: dict[int, int]) -> Product:
    parts = tuple(replace(law.parts[j], times=times) for j, times in chosen.items())
    return Product(parts, max(p.law.rows for p in parts), law.sizes)


def _some(mechanism: Mechanism, law: Product, chosen: dict[int, int]) -> Mechanism:
    """Some of the releases; one alone that reads every column is that law itself, of whatever form."""
    some: Law = _product(law, chosen)
    if len(chosen) == 1 and sum(chosen.values()) == 1:
        only = law.parts[next(iter(chosen))]
        some = only.law if only.columns == tuple(range(len(law.sizes))) else some
    reads = "both" if some.rows == mechanism.secret.size else "useful"
    return replace(mechanism, law=some, reads=reads, claim=None)
