"""Verdicts: what a file claims, checked field by field, and proved or refused claim by claim."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

from sfumato_kernel import reading
from sfumato_kernel.balls import Ball, over_ball, over_sets
from sfumato_kernel.exact import (
    Table,
    about_anything,
    about_input,
    at_distribution,
    information,
    over_mixtures,
    power_product,
    sets_at_distribution,
    with_side_channels,
)
from sfumato_kernel.laws import SUBSETS, Law, Part, Ratio, Row, checked
from sfumato_kernel.leakage import channel, leakage
from sfumato_kernel.lip import lip_over_ball
from sfumato_kernel.reading import Beyond, Unproved, bad
from sfumato_kernel.rounding import UP, exp_below, gamma_below, level, log, minus, near

NEARLY = Fraction(1, 10**9)  # of a radius: as much as the floats that it was computed with may be off
SEARCHED = 1e-5  # nats: a claim of leakage that is missed by less, where laws are searched, is left undecided
FIELDS = {"exactly": (), "anything": (), "custom": ("name",), "polytope": ("vertices",),
          "chi-square-ball": ("radius", "confidence", "calibration"), "renyi-ball": ("alpha", "radius", "confidence")}
NEEDED = {"chi-square-ball": ("radius",), "renyi-ball": ("alpha", "radius"), "polytope": ("vertices",)}
Claim = dict[str, Any]


@dataclass(frozen=True)
class Mechanism:
    """A law with what its file says about it; counts are whole numbers in proportion to the design distribution."""

    document: dict[str, Any]
    law: Law
    secrets: int
    counts: Table | None

    @property
    def claims(self) -> list[Claim]:
        """The claim with all that it holds besides."""
        out, left = [], [self.document["claim"]] if self.document["claim"] else []
        while left:
            out.append(left.pop(0))
            left += out[-1]["also"]
        return out


@dataclass(frozen=True)
class Verdict:
    """What was proved: a sentence for each claim."""

    proved: list[str] = field(default_factory=list)


def admitted(data: bytes) -> Any:
    """The mechanism or the bundle in the bytes, if every field is within what is stated and every sum is right."""
    from sfumato_kernel.bundles import bundled

    found = reading.parsed(data)
    if found.get("format") == "sfumato/bundle":
        document = reading.BUNDLE(found, "the bundle")
        reading.check_seal(data, found)
        reading.check_parts(data)
        return bundled(document)
    document = reading.MECHANISM(found, "the file")
    reading.check_seal(data, found)
    return mechanism(document)


def verify(data: bytes) -> Verdict:
    """Prove every claim in the bytes, or raise Refused."""
    return judged(admitted(data))


def judged(found: Any) -> Verdict:
    """Prove every claim of what was admitted."""
    from sfumato_kernel.bundles import Bundle, proved_bundle

    try:
        if isinstance(found, Bundle):
            return Verdict([proved_bundle(found)])
        if not found.claims:
            raise Unproved("the file claims nothing")
        return Verdict([proved(found, claim) for claim in found.claims])
    except (ArithmeticError, ValueError) as error:  # only the search for dual points uses floats
        raise Beyond(f"numbers this far apart leave no proof to be found ({error})") from None


def mechanism(document: dict[str, Any]) -> Mechanism:
    """A checked document as a mechanism."""
    secret, useful = (columns(document[name]) for name in ("secret", "useful"))
    names = [c["name"] for c in (*document["secret"], *document["useful"])]
    if len(set(names)) < len(names):
        bad("a column is named twice")
    secrets = math.prod(secret)
    law = checked(document["law"], secrets if document["reads"] == "both" else 1, useful)
    answers = document["answers"]
    if answers is not None:
        columns([answers])
        symbols = law.kind in ("layout", "blocks") or law.numbers.get("meaning") == "symbol"
        if not symbols or len(answers["labels"]) != law.outputs:
            bad("the names of the outputs are not those of this law")
    found = Mechanism(document, law, secrets, _counts(document["design"], secrets, law.useful))
    if len(found.claims) > reading.MANY:
        bad(f"there are more than {reading.MANY} claims")
    for claim in found.claims:
        _check_claim(found, claim)
    return found


def columns(described: list[dict[str, Any]]) -> tuple[int, ...]:
    """The sizes of columns whose labels are all different."""
    for c in described:
        labels, named = c["labels"], [x for x in c["labels"] if x is not None]
        if len(set(labels)) < len(labels) or (c["other"] is not None and c["other"] not in labels):
            bad(f"column {c['name'][:40]!r} lists a label twice, or lacks its catch-all")
        if c["cuts"] is not None and (len(named) != len(c["cuts"]) + 1 or any(
                a >= b for a, b in zip(c["cuts"], c["cuts"][1:], strict=False))):
            bad(f"column {c['name'][:40]!r} has bins that are not its labels")
    return tuple(len(c["labels"]) for c in described)


def _counts(design: dict[str, Any] | None, secrets: int, useful: int) -> Table | None:
    """The design distribution as whole numbers."""
    if design is None or (design["counts"] is None and design["probabilities"] is None):
        return None
    counts, probabilities = design["counts"], design["probabilities"]
    given = counts or probabilities
    if (counts and probabilities) or len(given) != secrets or any(len(row) != useful for row in given):
        bad(f"the design data are no table of {secrets} × {useful}")
    if counts is None:
        exact = [[Fraction(p) for p in row] for row in probabilities]
        if abs(sum((sum(row, Fraction(0)) for row in exact), Fraction(-1))) > NEARLY:
            bad("the probabilities of the design data do not sum to 1")
        scale = math.lcm(*(p.denominator for row in exact for p in row))
        return [[int(p * scale) for p in row] for row in exact]
    n: int = sum(map(sum, counts))
    if not 0 < n <= reading.GREATEST or design["n"] not in (None, n):
        bad("the counts of the design data are not n in all")
    return [list(row) for row in counts]


def _check_claim(m: Mechanism, claim: Claim) -> None:
    """Whether the claim is one that can be made: its notion, its set, its orders, its confidence."""
    notion, within = claim["notion"], claim["within"]
    if (claim["alpha"] is None or claim["beta"] is None) if notion == "leakage" else (claim["alpha"] or claim["beta"]):
        bad(f"a claim of {notion} with orders that it must have, or must not have")
    if within is None:
        if notion not in ("ldp", "leakage"):
            bad(f"a claim of {notion} needs a set of distributions")
        return
    kind = within["kind"]
    if notion == "ldp" or (notion in ("leakage", "mi", "srlip") and kind != "exactly"):
        bad(f"a claim of {notion} cannot be made over a set of kind {kind}")
    if m.counts is None:
        bad("the claim is about a set of distributions, but the design data are missing")
    if m.secrets < 2:
        bad("a claim about the secret needs a secret of two values or more")
    for name, value in within.items():
        known, needed = name in ("kind", *FIELDS[kind]), name in NEEDED.get(kind, ())
        if needed if value is None else not known:
            bad(f"a set of kind {kind} with {name}, or without it")
    if kind == "polytope":
        _vertices(m, within["vertices"])
    if within["confidence"] is not None or within["calibration"] is not None:
        check_radius(kind, within["confidence"], within["calibration"], within["radius"], within["alpha"],
                     m.secrets * m.law.useful, m.document["design"]["counts"])


def _vertices(m: Mechanism, vertices: list[list[list[float]]]) -> list[Table]:
    out = []
    for v in vertices:
        if len(v) != m.secrets or any(len(row) != m.law.useful for row in v):
            bad(f"a vertex is no table of {m.secrets} × {m.law.useful}")
        exact = [[Fraction(p) for p in row] for row in v]
        total = sum((sum(row, Fraction(0)) for row in exact), Fraction(0))
        if abs(total - 1) > NEARLY or any(0 < p < 1e-150 for row in v for p in row):
            bad("a vertex is no distribution")
        scale = math.lcm(*(p.denominator for row in exact for p in row))
        out.append([[int(p * scale) for p in row] for row in exact])
    return out


def check_radius(kind: str, confidence: float | None, calibration: str | None, radius: float, alpha: float | None,
                 cells: int, counts: Table | None) -> None:
    """Whether a ball is large enough for the confidence it is said to have; only counts can tell."""
    how = calibration or "asymptotic"
    if confidence is None or not 0 < confidence < 1 or counts is None:
        raise Unproved("a confidence is stated that cannot be recomputed: it needs the counts behind the ball")
    needed, n = _NEEDED.get((kind, how)), sum(map(sum, counts))
    if needed is None:
        raise Unproved(f"a confidence is stated with a calibration that cannot be recomputed ({how[:40]!r})")
    if cells > 1 and not needed(Fraction(confidence), cells - 1, n, Fraction(radius) * (1 + NEARLY), alpha):
        raise Unproved(f"the claim says {confidence:.4g} confidence, but its radius of {radius:.6g} is too small for "
                       f"that at n = {n}")


def _asymptotic(confidence: Fraction, free: int, n: int, radius: Fraction, alpha: float | None) -> bool:
    """P(χ² of `free` degrees ≤ n·radius) ≥ confidence; beyond 4 standard deviations more it is not computed."""
    x = min(n * radius, Fraction(free + 40 * math.isqrt(free) + 2000)) / 2
    if free > 1_000_000:
        raise Beyond("too many cells for a confidence")
    return x > 0 and gamma_below(free, near(x, UP)) >= near(confidence, UP)


def _markov(confidence: Fraction, free: int, n: int, radius: Fraction, alpha: float | None) -> bool:
    return n * radius * (1 - confidence) >= free


def _finite_sample(confidence: Fraction, free: int, n: int, radius: Fraction, alpha: float | None) -> bool:
    """e^{−t}(et/k)^k ≤ 1 − confidence for t = n·radius ≥ k = |X| − 1, which covers every order α ≤ 1."""
    t = n * radius
    if alpha is None or alpha > 1 or t < free:
        return False
    left = UP.add(UP.multiply(Decimal(free), log(t / free, UP)), near(free - t, UP))
    return bool(left <= minus(log(1 / (1 - confidence), UP)))


_NEEDED: dict[tuple[str, str], Callable[[Fraction, int, int, Fraction, float | None], bool]] = {
    ("chi-square-ball", "asymptotic"): _asymptotic, ("chi-square-ball", "exact"): _markov,
    ("chi-square-ball", "bootstrap"): _asymptotic,  # never below it; what it adds nobody can recompute
    ("renyi-ball", "asymptotic"): _finite_sample,
}


def proved(m: Mechanism, claim: Claim) -> str:
    """A sentence for a claim that was proved; else Unproved, or Beyond."""
    notion, epsilon = claim["notion"], claim["epsilon"]
    if notion in ("mi", "leakage"):
        found = _nats(m, claim)
        holds, shown = found is not None and found <= Fraction(epsilon), math.inf if found is None else float(found)
    else:
        target = exp_below(epsilon)
        ratio = bound(m.law, m.secrets, m.counts, notion, claim["within"], target)
        holds, shown = ratio is not None and ratio <= target, level(ratio)
    if not holds:
        if notion == "leakage" and claim["beta"] < claim["alpha"] < math.inf and shown <= epsilon * 1.001 + SEARCHED:
            raise Beyond(f"leakage of these orders is searched by steps, which came only as close as {shown:.10g}")
        raise Unproved(f"claimed ε ≤ {epsilon:.10g} ({notion}), proved only ε ≤ {shown:.10g}")
    return f"{notion} ≤ {epsilon:.10g} nats{_where(claim)}"


def _where(claim: Claim) -> str:
    within = claim["within"]
    orders = f", orders {claim['alpha']:g} and {claim['beta']:g}" if claim["notion"] == "leakage" else ""
    if within is None:
        return orders + ", about the whole record, for every distribution"
    radius = f" of radius {within['radius']:.6g}" if within["radius"] is not None else ""
    sure = f", a confidence of {within['confidence']:.4g} (recomputed)" if within["confidence"] is not None else ""
    if within["calibration"] == "bootstrap":
        sure = " (as given: what a bootstrap finds cannot be recomputed, and is not called a confidence)"
    return f"{orders}, about the secret, over: {within['kind']}{radius}{sure}"


def _nats(m: Mechanism, claim: Claim) -> Fraction | None:
    if claim["notion"] == "leakage":
        return leakage(channel(m.law, m.counts if claim["within"] else None), claim["alpha"], claim["beta"])
    assert m.counts is not None
    if m.law.listable:
        return information(m.law, m.counts)
    worst = bound(m.law, m.secrets, m.counts, "lip", claim["within"], Fraction(1))  # a mean of logs that LIP bounds
    return None if worst is None else Fraction(log(worst, UP)) if worst > 1 else Fraction(0)


def bound(law: Law, secrets: int, counts: Table | None, notion: str, within: dict[str, Any] | None,
          floor: Fraction) -> Ratio:
    """A ratio, at least `floor` or exact, that bounds the worst one of a notion over a set."""
    if notion == "ldp" or within is None:
        return about_input(law)
    assert counts is not None
    if within["kind"] == "custom":
        raise Beyond("a set that is defined by code is not in the file")
    everywhere = about_anything(law, secrets)
    if within["kind"] != "exactly" and everywhere is not None and everywhere <= floor:
        return everywhere
    if within["kind"] == "anything":
        return everywhere
    if not law.listable and law.kind == "product":
        return _some_together(law, secrets, counts, notion, within, floor)
    if notion == "srlip":
        return with_side_channels(law, counts) if law.listable else about_input(law)
    if within["kind"] == "exactly" or (within["radius"] == 0 and within["kind"] != "polytope"):
        return at_distribution(law, counts, notion)
    found = _over_set(law, secrets, counts, within, floor)
    if found is None or (everywhere is not None and everywhere < found):
        found = everywhere
    belief = notion in ("lip", "pml") and within["kind"] == "chi-square-ball"
    if belief and (found is None or found > floor) and floor > 1:
        return floor if lip_over_ball(law, counts, within["radius"], floor, notion == "lip") else found
    return found


def ball(counts: Table, within: dict[str, Any]) -> Ball:
    if within["kind"] == "renyi-ball":
        return Ball.renyi(counts, within["alpha"], within["radius"])
    return Ball.chi_square(counts, within["radius"])


def _over_set(law: Law, secrets: int, counts: Table, within: dict[str, Any], floor: Fraction) -> Ratio:
    if law.kind == "unary" and law.rows > 1:
        return None  # a set may hold all of one secret and nothing of another: what any distribution allows
    if not law.listable:
        return None if within["kind"] == "polytope" else over_sets(ball(counts, within), *law.odds, floor)
    return _rows_over_set(law.listed, secrets, counts, within, floor)


def _rows_over_set(rows: list[Row], secrets: int, counts: Table, within: dict[str, Any], floor: Fraction) -> Ratio:
    if within["kind"] != "polytope":
        return over_ball(rows, ball(counts, within), floor)
    tables = [[[Fraction(p) for p in row] for row in v] for v in within["vertices"]]
    scale = math.lcm(*(p.denominator for v in tables for row in v for p in row))
    return over_mixtures(rows, secrets, [[[int(p * scale) for p in row] for row in v] for v in tables], floor)


def over_two_levels(ratio: Fraction, secrets: int, counts: Table, within: dict[str, Any]) -> Ratio:
    """A bound of what passes of any law with rows within `ratio` of constant: its extreme rows have two levels."""
    kind, k = within["kind"], len(counts[0])
    if kind == "exactly" or within["radius"] == 0:
        return sets_at_distribution((ratio, Fraction(1)), 1, counts, "rldp")
    if kind in ("anything", "custom") or (kind == "polytope" and k > SUBSETS):
        return ratio
    if k > SUBSETS:
        return over_sets(ball(counts, within), ratio, Fraction(1), Fraction(1))
    high, low = math.ceil(ratio * 2**200), 2**200
    sets = ([u for u in range(k) if y >> u & 1] for y in range(2**k))
    rows = [Row(1, (Part(low, dict.fromkeys(inside, high), k),)) for inside in sets]
    return _rows_over_set(rows, secrets, counts, within, Fraction(1))


def _some_together(law: Law, secrets: int, counts: Table, notion: str, within: dict[str, Any],
                   floor: Fraction) -> Ratio:
    """Releases too many to list: some of them proved together, the others at their worst for any distribution.

    P(y_A, y_R|s) / P(y_A, y_R|s') ≤ P(y_A|s) / P(y_A|s') · max_u Q_R / min_u' Q_R, whatever the set; for lip and srlip,
    whose denominators also hold s itself, with the ratios about the input.
    """
    price = about_input if notion != "rldp" else (lambda part: about_anything(part, secrets))
    prices = [price(part) for part, _, _ in law.releases]
    best = power_product((p, times) for p, (_, _, times) in zip(prices, law.releases, strict=True))
    order = sorted(range(len(prices)), key=lambda j: (prices[j] is None, prices[j] or 0), reverse=True)
    chosen: dict[int, int] = {}
    for j in order:
        times = law.releases[j][2]
        while times and not law.subset({**chosen, j: times}).listable:
            times //= 2
        chosen |= {j: times} if times else {}
    if not chosen:
        chosen = {j: 1 for j in order if law.releases[j][1] == tuple(range(len(law.sizes)))}
        chosen = dict(list(chosen.items())[:1])
    rest = power_product((prices[j], t - chosen.get(j, 0)) for j, (_, _, t) in enumerate(law.releases)
                         if t > chosen.get(j, 0))
    if not chosen or rest is None:
        return best
    least = max(Fraction(1), floor / rest)
    together = bound(law.subset(chosen), secrets, counts, notion, within, least)
    if notion in ("lip", "pml"):
        other = bound(law.subset(chosen), secrets, counts, "rldp", within, least)
        together = other if together is None else together if other is None else min(together, other)
    found = None if together is None else together * rest
    return best if found is None else found if best is None else min(best, found)
