"""Several mechanisms at once: releases of one table, and the parts of a bundle."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Decimal, localcontext
from fractions import Fraction

from sfumato.alphabet import Alphabet
from sfumato.certification.certificate import PROVED, Certificate, certificate, known
from sfumato.certification.outward import EXACT_DIGITS, log_up
from sfumato.certification.proving import check_confidence, confirm, proved, target_of
from sfumato.certification.rationals import Attained, about_anything, about_input, alone, power_product
from sfumato.decimals import BITS, LEVEL, at_most, total
from sfumato.errors import ClaimError, InputError
from sfumato.joint import Noise
from sfumato.mechanism import Bundle, Claim, Law, Mechanism, Product, Unary
from sfumato.mechanism.bundle import part_name
from sfumato.mechanism.law import MOST_BITS, told_apart

# --- bounds of several releases whose joint outputs are too many to list ----------------------------------------------
# Let A be some of the releases and R the rest. For every P, y, and s₁ ≠ s₂,
#
#     P(y_A, y_R|s₁) / P(y_A, y_R|s₂)  ≤  P(y_A|s₁) / P(y_A|s₂) · max_u Q_R(y_R|s₁,u) / min_u' Q_R(y_R|s₂,u'),
#
# because Q_R can be taken out of both sums at its extremes; the last factor is at most the product over R of each
# release's ratio for any distribution. So ε(A over F) + Σ_R ε_j(any distribution) bounds the level over F, for any
# choice of A; for LIP and SRLIP, whose denominators also hold s₁ itself, the same with each release's ratio about the
# input. The sum of the levels over F themselves is no bound: both releases look at the same u. [ours]


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


# --- the level of several mechanisms that answer for the same row, proved from the integers of each -------------------
# P(y₁ … y_k | s) = Σ_u p(u|s) Π_i Q_i(y_i | s, u_i): what may be said about it depends on what is assumed of p(u|s).
# This is the one place where levels of mechanisms with different columns are put together.


MODELS = {
    "star": "proved from the integers IF the columns of different parts are independent given the secret",
    "tree": "proved from the integers IF the columns form the stated tree",
}


def total_up(levels: Sequence[float]) -> float:
    """A float at or above the sum."""
    out = 0.0
    for level in levels:
        out = math.nextafter(out + level, math.inf) if level else out
    return out


def summed(parts: Sequence[Mechanism]) -> float:
    """The level of all answers together for every distribution of all columns (ours).

    P(y|s) is a mean of Π_i Q_i(y_i|s, u_i), so P(y|s)/P(y|s') ≤ Π_i max_u Q_i(y_i|s, u) / min_u Q_i(y_i|s', u): the
    levels about the secret for any distribution add up. It is attained where the parts share a worst pair of secrets,
    by a distribution that gives each secret one record. The product is taken in rationals.
    """
    ratios = _ratios(parts)
    return math.inf if math.inf in ratios else log_up(math.prod((Fraction(x) for x in ratios), start=Fraction(1)))


def _ratios(parts: Sequence[Mechanism]) -> list[Fraction | float]:
    """The worst ratio of each part for any distribution; parts with the same numbers are looked at once."""
    known: dict[object, Fraction | float] = {}
    out = []
    for part in parts:
        key = (part.secret.size, *told_apart(part.law))
        if key not in known:
            known[key] = about_anything(part).ratio
        out.append(known[key])
    return out


def anywhere(made: Mechanism | Bundle) -> Attained:
    """The worst ratio about the secret for any distribution: of a mechanism, or of all answers of a bundle's row."""
    if not isinstance(made, Bundle):
        return about_anything(made)
    return _of_row(made, _ratios([_about(made, part) for part in made.parts]))


def about_record(made: Mechanism | Bundle) -> Attained:
    """The worst ratio about everything that is read."""
    return _of_row(made, [about_input(p).ratio for p in made.parts]) if isinstance(made, Bundle) else about_input(made)


@dataclass(frozen=True, slots=True)
class AnswerLevels:
    """What answers tell at most in nats, whatever the distribution."""

    answers: str
    secret: float  # about the secret
    record: float  # about everything that is read


def bundle_levels(bundle: Bundle) -> tuple[AnswerLevels, ...]:
    """The levels of all answers of a row, and of each part."""
    def levels(name: str, made: Mechanism | Bundle) -> AnswerLevels:
        return AnswerLevels(name, log_up(anywhere(made).ratio), log_up(about_record(made).ratio))

    return levels("all answers of a row", bundle), *map(levels, bundle.names, bundle.parts)


def _of_row(bundle: Bundle, ratios: Sequence[Fraction | float]) -> Attained:
    """Of answers together the product; of answers in turn the greatest, for the turn does not depend on the row."""
    if bundle.turns is not None:
        return Attained(max(ratios), {})
    return Attained(power_product((Attained(ratio, {}), 1) for ratio in ratios), {})


def drawn_for(releases: Iterable[Mechanism | Bundle]) -> tuple[float, float]:
    """ε_d and δ of everything that releases tell of a table with noise: both add up (basic composition of (ε, δ)-
    differential privacy).

    Each draw is paid for once, wherever it is used. One draw cannot have made different counts of the same labels, so
    such counts are draws of their own whatever name they bear; those without a name are told apart by the fingerprint
    of their counts, or where only labels were drawn by their own checksums.
    """
    drawn: dict[str, dict[str, tuple[Alphabet, Alphabet, Noise]]] = {}
    for part in (p for made in releases for p in (made.parts if isinstance(made, Bundle) else (made,))):
        if (joint := part.joint) is not None and joint.noise is not None:
            own = joint.fingerprint if joint.noise.counts > 0 else f"{joint.fingerprint} {part.checksum}"
            known = drawn.setdefault(joint.noise.draw or own, {})
            at = joint.fingerprint if joint.noise.counts > 0 else ""
            if at not in known or known[at][2].epsilon < joint.noise.epsilon:
                known[at] = joint.secret, joint.useful, joint.noise
    paid: list[Noise] = []
    for known in drawn.values():
        once = len({(secret, useful) for secret, useful, _ in known.values()}) == len(known)
        every = [noise for _, _, noise in known.values()]
        paid += [max(every, key=lambda x: x.epsilon)] if once else every
    return math.fsum(x.epsilon for x in paid), math.fsum(x.delta for x in paid)


def tell_at_most(releases: Sequence[Mechanism | Bundle]) -> float:
    """What several releases of the same rows tell about the secret at most, whoever looks, by a bound that is quick.

    Levels for any distribution add up, whatever the columns and the counts of each were, where the secret has the same
    labels; labels of one release may merge what another tells apart, and then levels about the whole record do. Noisy
    counts that were used again are paid for once.
    """
    spent, single = drawn_for(releases)[0], [m for m in releases if isinstance(m, Mechanism)]
    same = all(m.secret == releases[0].secret for m in releases)
    if same and len(single) == len(releases):
        return total(summed(single), spent)
    price = anywhere if same else about_record
    return total(log_up(power_product((price(m), 1) for m in releases)), spent)


def _greatest(parts: Sequence[Mechanism]) -> tuple[float, Mechanism]:
    """The greatest level among parts for any distribution, and the part that has it."""
    ratio, part = max(zip(_ratios(parts), parts, strict=True), key=lambda pair: pair[0])
    return log_up(ratio), part


def _over_its_set(part: Mechanism, target: float) -> float:
    """The proved level of one part about what it hangs from, over the set its own claim names."""
    claim = part.claim
    if claim is None or claim.notion != "rldp" or claim.within is None:
        raise ClaimError(f"part {part_name(part)!r} does not say in which set of distributions its table lies.")
    check_confidence(claim.within)
    return log_up(proved(part, "rldp", claim.within, target).ratio)


def stand_in(part: Mechanism, level: float) -> Mechanism:
    """A law over the same useful values whose rows are all two-level functions 1 … e^level, or a little more.

    A ratio Σ p(u|a) g(u) / Σ p(u|a') g(u) over all g with g(u) ≤ e^level g(u') is greatest at such a function: for a
    given ratio λ it is linear in g, and the extreme rays of that cone of two bounds are two-level. So what passes
    through the channel p(u|a) of anything with this level is what passes of the stand-in.
    """
    with localcontext() as context:
        context.prec = EXACT_DIGITS
        half = (Decimal(level) / 2).exp()
        on = int((Decimal(2**MOST_BITS) * half / (1 + half)).to_integral_value(ROUND_CEILING)) + 1
    if on >= 2**MOST_BITS:
        below = f"a level of {at_most(level, BITS)} below {part_name(part)!r}"
        raise ClaimError(f"{below} is too large to be followed up the tree.")
    law = Unary(1, part.useful.size, on, 2**MOST_BITS - on, MOST_BITS)
    return replace(part, law=law, reads="useful", answers=None)


def level_below(bundle: Bundle, at: int) -> float:
    """The level of all answers in the subtree of a part about what the part hangs from (ours).

    m(a) = Σ_u p(u|a) Q(y|u) Π_c m_c(u). The logarithm of Q·Πm_c varies by at most the part's level about its own
    input and the levels of its children about it, and the channel p(u|a), whichever it is in the edge's set, lets
    through of that what it lets through of the stand-in. A leaf's own rows are compared directly.
    """
    part, below = bundle.parts[at], [i for i, parent in enumerate(bundle.parents) if parent == at]
    if not below:
        return _over_its_set(part, math.inf)
    levels = [level_below(bundle, i) for i in below]
    if part.reads == "both":  # rows differ between secrets: nothing is gained from the channel
        return total_up([summed([part]), *levels])
    whole = total_up([log_up(about_input(part).ratio), *levels])
    return math.inf if whole == math.inf else min(whole, _over_its_set(stand_in(part, whole), math.inf))


def _for_tables(bundle: Bundle) -> float:
    """Which part a row answers does not depend on the row, so the ratio of an answer is that of its part."""
    assert bundle.claim is not None
    target = target_of(bundle.claim.epsilon)
    return max(_over_its_set(part, target) for part in bundle.parts)


def _for_tree(bundle: Bundle) -> float:
    """Branches of the tree are independent given the secret: their levels add up."""
    return total_up([level_below(bundle, i) for i, parent in enumerate(bundle.parents) if parent == -1])


_LEVELS: dict[str, Callable[[Bundle], float]] = {
    "tables": _for_tables, "star": _for_tree, "tree": _for_tree,
}


def bundle_certificate(bundle: Bundle) -> Certificate:
    """The certificate of a bundle's promise, whether or not it holds."""
    if bundle.claim is None:
        raise InputError("the bundle carries no promise", next="Give one, or design it with sf.bundle.")
    claim, parts = bundle.claim, [_about(bundle, part) for part in bundle.parts]
    worst, part = _greatest(parts)
    anyhow = worst if bundle.turns is not None else summed(parts)
    level = anyhow if claim.assuming == "nothing" else min(anyhow, _LEVELS[claim.assuming](bundle))
    outside = {} if claim.assuming == "nothing" else {"any distribution": anyhow}
    witness = {"part": part_name(part)} if bundle.turns is not None and claim.assuming == "nothing" else {}
    basis = MODELS.get(claim.assuming, PROVED)
    proof = known((level, witness))
    return Certificate("rldp", claim.assuming, claim.epsilon, proof, known(outside), claim.title, (), basis)


def _about(bundle: Bundle, part: Mechanism) -> Mechanism:
    """The part as one about the bundle's secret, whatever it hangs from; what it reads stays the same."""
    return replace(part, secret=bundle.secret, joint=None, claim=None) if part.reads == "useful" else part


def certify_bundle(bundle: Bundle) -> Certificate:
    """Prove the promise from the integer weights alone, and what the parts claim of themselves, or raise ClaimError."""
    made = bundle_certificate(bundle)
    if not made.holds:
        raise ClaimError(
            f"claimed ε ≤ {at_most(made.epsilon, LEVEL)} ({made.title}), proved only ε ≤ "
            f"{at_most(made.level, LEVEL)} for all parts {bundle.asks}", next="Nothing was released.",
        )
    for part, claim in () if confirm(bundle) else _left_to_prove(bundle, made):
        if not (found := certificate(part, claim, wider=False)).holds:
            raise ClaimError(
                f"part {part_name(part)!r} claims ε ≤ {at_most(found.epsilon, LEVEL)} ({found.title}), proved only ε ≤ "
                f"{at_most(found.level, LEVEL)}", next="Nothing was released.",
            )
    return made


def _left_to_prove(bundle: Bundle, made: Certificate) -> Iterator[tuple[Mechanism, Claim]]:
    """What parts claim beyond what the promise has shown of each: taking turns, its level over its own set."""
    shown = made.level if bundle.turns is not None else math.inf
    for part in bundle.parts:
        if part.claim is not None:
            check_confidence(part.claim.within)
            known = part.claim.notion == "rldp" and part.claim.within is not None and shown <= part.claim.epsilon
            yield from ((part, claim) for claim in (part.claim.also if known else (part.claim,)))
