"""Joining: several mechanisms as one law, and what is proved of all of them together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec

from sfumato.alphabet import Alphabet, Column
from sfumato.certification.outward import exp_range, log_up
from sfumato.certification.proving import proved
from sfumato.certification.rationals import Attained, about_anything, about_input, power_product
from sfumato.certification.together import about_record, anywhere, bundle_certificate
from sfumato.errors import At, InputError, option
from sfumato.mechanism import Bundle, Factor, Mechanism, Product
from sfumato.mechanism.file_records import simple_record
from sfumato.uncertainty import Exactly, UncertaintySet

SAME_LABELS = (
    f"Design them with the same labels ({option('--labels', 'labels=')}, {option('--bins', 'bins=')} with edges); a "
    "ledger adds up what cannot be composed."
)


def joined(mechanisms: Sequence[Mechanism]) -> Mechanism:
    """The joint mechanism: it reads every column that one of them reads, and releases all their outputs.

    Columns are known by name; a column that two mechanisms read must have the same labels in both. Releases with the
    same weights are counted, not repeated, so that k releases of one mechanism cost multisets of outputs, not tuples.
    """
    secret = mechanisms[0].secret
    assert all(m.secret == secret for m in mechanisms)
    columns = _columns(mechanisms, secret)
    useful = Alphabet(tuple(columns.values()))
    rows = secret.size if any(m.law.rows > 1 for m in mechanisms) else 1
    law = Product(_counted(mechanisms, list(columns)), rows, tuple(c.size for c in useful.columns))
    joint = next((m.joint for m in mechanisms if m.joint is not None and m.joint.useful == useful), None)
    known = [m.source for m in mechanisms if m.joint is joint]
    return Mechanism(
        law, secret, useful, "both" if rows == secret.size else "useful", "composed", None, joint,
        known[0] if joint is not None else "unstated",
    )


def shared_secret(releases: Sequence[Mechanism | Bundle]) -> Alphabet | None:
    """The secret of all releases, with the labels that all of them know; None where these are not of the same people.

    Where some have labels that others lack, a row that went through all has one that all have, so the whole is about
    these. Labels of bins that differ, and one that takes others, stand for people whom another release tells apart, and
    of a ratio between these a promise about the secret says nothing.
    """
    if not releases:
        raise InputError("there is nothing to compose", next="Give at least one mechanism.")
    if odd := [type(m).__name__ for m in releases if not hasattr(m, "sealed")]:
        raise InputError(f"only mechanisms can be composed, got a {odd[0]}", next="Load their files with sf.load.")
    if not all(m.sealed for m in releases):
        raise InputError("only sealed mechanisms can be composed: weights must be integers", next="Call sf.seal first.")
    secrets = list(dict.fromkeys(m.secret for m in releases))
    if len({s.names for s in secrets}) > 1:
        names = " and ".join(dict.fromkeys(", ".join(s.names) or "the whole record" for s in secrets))
        raise InputError(
            f"these mechanisms protect different secrets, {names}",
            next="Compose releases about one secret; a ledger adds up what cannot be composed.",
        )
    known = [_known_to_all(each) for each in zip(*(s.columns for s in secrets), strict=True)]
    return None if None in known else Alphabet(tuple(c for c in known if c is not None))


def _known_to_all(columns: Sequence[Column]) -> Column | None:
    first = columns[0]
    if all(c == first for c in columns):
        return first
    if any(c.cuts is not None or c.other is not None or c.dtype != first.dtype for c in columns):
        return None
    labels = [x for x in first.labels if all(x in c.labels for c in columns)]
    if len(labels) < 2:
        raise InputError(
            "is the secret of these mechanisms, which have no two of its labels in common: no table can have gone "
            "through all of them", where=At(first.name), next=SAME_LABELS,
        )
    return replace(first, labels=tuple(labels))


def _columns(mechanisms: Sequence[Mechanism], secret: Alphabet) -> dict[str, Column]:
    columns: dict[str, Column] = {}
    for column in (c for m in mechanisms for c in m.useful.columns):
        if column.name in secret.names:
            raise InputError("is the secret of one mechanism and a useful column of another", where=At(column.name))
        if columns.setdefault(column.name, column) != column:
            raise InputError(
                "has different labels in two of the mechanisms, so it cannot be told which of them are the same",
                next="Design both with the same labels (bins, grouping, missing values).", where=At(column.name),
            )
    return columns


def _counted(mechanisms: Sequence[Mechanism], names: list[str]) -> tuple[Factor, ...]:
    """The releases, equal ones once with the number of times."""
    found: dict[bytes, Factor] = {}
    written: dict[int, bytes] = {}  # laws that are the same object need not be written out to be compared
    for part in (part for m in mechanisms for part in factors_of(m, names)):
        if id(part.law) not in written:
            written[id(part.law)] = msgspec.json.encode((simple_record(part.law), part.law.rows))
        key = written[id(part.law)] + bytes(str(part.columns), "ascii")
        found[key] = replace(found[key], times=found[key].times + part.times) if key in found else part
    return tuple(found.values())


def factors_of(release: Mechanism, names: Sequence[str]) -> Iterator[Factor]:
    """A release as factors, one or those of a product, about columns by their places among these names."""
    own = [names.index(n) for n in release.useful.names]
    inner = release.law.parts if isinstance(release.law, Product) else (Factor(release.law, tuple(range(len(own)))),)
    return (replace(part, columns=tuple(own[c] for c in part.columns)) for part in inner)


# --- what all releases about the same people allow to be inferred about each secret, whatever they are ----------------


@dataclass(frozen=True, slots=True, eq=False)
class Total:
    """The proved level of everything that was released, about one secret."""

    secret: Alphabet
    level: float


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
    return Total(secret, log_up(ratio))


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
    # a second promise for any distribution bounds what is released again, and is no set to be believed in
    claims = [c for m in group if m.claim is not None for c in (m.claim, *(c for c in m.claim.also if not c.anywhere))]
    return list({
        _key(s): s for s in (c.within for c in reversed(claims))
        if s is not None and s.joint.useful == whole.useful and s.joint.secret == whole.secret
    }.values())[::-1]


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
