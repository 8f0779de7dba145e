"""Totals: what all releases about the same people allow to be inferred about each secret, whatever they are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sfumato.alphabet import Alphabet, Column
from sfumato.certification.certificate import proved
from sfumato.certification.linear import about_anything, about_input, power_product
from sfumato.certification.outward import exp_range, log_up
from sfumato.certification.together import about_record, anywhere, bundle_certificate
from sfumato.certification.witness import Attained
from sfumato.composing.joining import joined
from sfumato.mechanism import Bundle, Claim, Mechanism
from sfumato.uncertainty import Anything, Exactly, UncertaintySet


@dataclass(frozen=True, slots=True, eq=False)
class Total:
    """The proved level of everything that was released, about one secret."""

    secret: Alphabet
    level: float
    joint: int  # releases that were proved together
    added: int  # releases whose own level was added, because they cannot be proved together with the others


@dataclass(frozen=True, slots=True, eq=False)
class _Whole:
    """The releases of a group as one mechanism, with the sets that they claim for all its columns; or a bundle, whose
    promise says itself what it rests on."""

    mechanism: Mechanism | Bundle
    sets: tuple[UncertaintySet, ...]


def total_levels(
    groups: Sequence[Sequence[Mechanism | Bundle]], notion: str, target: float = math.inf
) -> tuple[Total, ...]:
    """For every secret, the proved level of all releases together, over the sets that one group of them claims.

    A group holds releases that are known to have had the same input values; between groups values may have changed.
    Within a group the joint mechanism is proved. Between groups, whatever the values were, the secret staying the same,
    the ratios multiply when each is taken for any distribution; one group, that which gains most, is taken over the
    worst of its own sets instead. So the level holds whichever of that group's sets holds for that group's values.
    A bundle is proved by itself, and its ratio multiplies likewise: P(y, y'|s) is a mean of Q(y|s, u) Q'(y'|s, u), so
    that one factor can be taken at its worst u and out of the mean. Releases about another secret, or with other
    labels, count by their level about the whole record, which bounds what they tell about anything.
    """
    secrets = list({m.secret: None for group in groups for m in group})
    return tuple(_total(secret, groups, notion, target) for secret in secrets)


def _total(secret: Alphabet, groups: Sequence[Sequence[Mechanism | Bundle]], notion: str, target: float) -> Total:
    outside: list[Mechanism | Bundle] = []
    wholes: list[_Whole] = []
    known: dict[tuple[int, ...], list[_Whole]] = {}  # many groups hold one release, of one and the same mechanism
    for group in groups:
        own = [m for m in group if m.secret == secret]
        outside += [m for m in group if m.secret != secret]
        key = tuple(id(m) for m in own)
        if key not in known:
            single = [m for m in own if isinstance(m, Mechanism)]
            known[key] = [*(_Whole(m, tuple(_sets(m, single))) for m in _wholes(single)),
                          *(_Whole(b, ()) for b in own if isinstance(b, Bundle))]
        wholes += known[key]
    found = _over_groups(wholes, notion, target)
    if notion in ("lip", "pml") and found.ratio > target:  # which RLDP implies
        other = _over_groups(wholes, "rldp", target)
        found = other if other.ratio < found.ratio else found
    rest = power_product((about_record(m), 1) for m in outside)
    ratio = power_product([(found, 1), (Attained(rest, {}), 1)])
    alone = len(wholes) - 1 + len(outside)
    return Total(secret, math.inf if ratio == math.inf else log_up(ratio), sum(map(len, groups)) - alone, alone)


def _wholes(own: list[Mechanism]) -> list[Mechanism]:
    """The releases as one mechanism; those that do not fit the labels of the first make one of their own."""
    out = []
    while own:
        whole, own = _fitting(own)
        out.append(whole)
    return out


def _fitting(mechanisms: list[Mechanism]) -> tuple[Mechanism, list[Mechanism]]:
    """Those that agree with the first about the labels of every column, as one; and the others."""
    columns: dict[str, Column] = {}
    taken: list[Mechanism] = []
    left: list[Mechanism] = []
    for m in mechanisms:
        if all(columns.get(c.name, c) == c for c in m.useful.columns):
            columns |= {c.name: c for c in m.useful.columns}
            taken.append(m)
        else:
            left.append(m)
    return joined(taken), left


def _over_groups(wholes: list[_Whole], notion: str, target: float) -> Attained:
    """One whole over the sets of its own group, the others for any distribution: the least over which one that is."""
    price = anywhere if notion == "rldp" else about_record
    priced = {id(w): price(w.mechanism) for w in {id(w): w for w in wholes}.values()}
    prices = [priced[id(w)] for w in wholes]
    best = Attained(power_product((p, 1) for p in prices), {})
    if notion == "ldp":
        return best
    tried: set[object] = set()  # releases that look alike are alike as a rule: one of them is enough
    for i, whole in enumerate(wholes):
        alike = prices[i].ratio, whole.mechanism.useful, tuple(map(_key, whole.sets))
        others = math.inf if alike in tried else power_product((p, 1) for j, p in enumerate(prices) if j != i)
        tried.add(alike)
        if others == math.inf:
            continue
        own = _over_own(whole, notion, target / float(others))
        ratio = power_product([(own, 1), (Attained(others, {}), 1)])
        best = Attained(ratio, {}) if ratio < best.ratio else best
    return best


def _sets(whole: Mechanism, group: Sequence[Mechanism]) -> list[UncertaintySet]:
    """The sets that releases of the group claim for all the columns of the whole, each once.

    Those of other groups say nothing here: what a set holds of values at one time need not hold of values at another.
    """
    claims = [c for m in group if m.claim is not None for c in (m.claim, *(c for c in m.claim.also if not _capped(c)))]
    return list({
        _key(s): s for s in (c.within for c in reversed(claims))
        if s is not None and s.joint.useful == whole.useful and s.joint.secret == whole.secret
    }.values())[::-1]


def _capped(claim: Claim) -> bool:
    """A second promise for any distribution: it bounds what is released again, and is no set to be believed in."""
    return claim.notion == "rldp" and isinstance(claim.within, Anything)


def _key(within: UncertaintySet) -> tuple[object, ...]:
    size = getattr(within, "radius", None), getattr(within, "alpha", None)
    same = id(within) if within.kind in ("polytope", "custom") else None
    return (within.kind, *size, within.joint.fingerprint, same)


def _over_own(whole: _Whole, notion: str, target: float) -> Attained:
    """One whole over what its own releases claim."""
    made = whole.mechanism
    if not isinstance(made, Bundle):
        return _over_sets(made, list(whole.sets), notion, target)
    if notion != "rldp" or made.claim is None:
        return anywhere(made) if notion == "rldp" else about_record(made)
    return Attained(float(exp_range(bundle_certificate(made).level)[1]), {})


def _over_sets(whole: Mechanism, sets: list[UncertaintySet], notion: str, target: float) -> Attained:
    """The worst over all the sets, so that the level holds for whoever believed any of the claims."""
    everywhere = about_anything(whole) if notion == "rldp" else about_input(whole)
    worst = Attained(1.0, {})
    if notion == "srlip":
        sets = [within for within in sets if isinstance(within, Exactly)]
    for within in sets:
        worst = worst.or_worse(proved(whole, notion, within, target))
    return worst if sets and worst.ratio < everywhere.ratio else everywhere
