"""Verdicts: what a file claims, checked against its shape, and proved or refused claim by claim."""

import itertools
import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from sfumato_kernel import documents, exact
from sfumato_kernel.ball_levels import Ball, extremes, over_ball
from sfumato_kernel.documents import Beyond, Document, Unproved, bad
from sfumato_kernel.exact import UP, Table, chi_square_below, everywhere, exp_below, level, log, minus, near, over_sets
from sfumato_kernel.laws import SUBSETS, Law, Part, Ratio, Row, checked
from sfumato_kernel.leaks import channel, leakage, lip_over_ball

if TYPE_CHECKING:
    from sfumato_kernel.bundles import Bundle

NEARLY = Fraction(1, 10**9)  # of a radius: as much as the floats that it was computed with may be off
SEARCHED = 1e-5  # nats: a claim of leakage that is missed by less, where laws are searched, is left undecided
SMALLEST = 1e-150  # of a probability that is not 0
SET_BITS = 200  # of the two levels whose sets are listed
Claim = dict[str, Any]


@dataclass(frozen=True)
class Mechanism:
    """A law with what its file says about it; `table` is the design distribution in whole numbers."""

    document: Document
    law: Law
    secrets: int
    table: Table | None

    @property
    def claims(self) -> list[Claim]:
        """The claim with all that it holds besides."""
        out, left = [], [self.document["claim"]] if self.document["claim"] else []
        while left:
            out.append(left.pop(0))
            left += out[-1]["also"]
        return out


class Verdict(NamedTuple):
    """What was proved: a sentence for each claim."""

    proved: list[str]


def admitted(data: bytes) -> "Mechanism | Bundle":
    """The mechanism or the bundle in the bytes, if every field is within what is stated and every sum is right."""
    from sfumato_kernel.bundles import bundled

    document = documents.document(data)
    return bundled(document) if document["format"] == "sfumato/bundle" else mechanism(document)


def verify(data: bytes) -> Verdict:
    """Prove every claim in the bytes, or raise Refused."""
    return judged(admitted(data))


def judged(found: "Mechanism | Bundle") -> Verdict:
    """Prove every claim of what was admitted."""
    from sfumato_kernel.bundles import Bundle, proved_bundle

    try:
        if isinstance(found, Bundle):
            return Verdict(proved_bundle(found))
        if not found.claims:
            raise Unproved("the file claims nothing")
        return Verdict([proved(found, claim) for claim in found.claims])
    except (ArithmeticError, ValueError) as error:  # only the search for dual points uses floats
        raise Beyond(f"numbers this far apart leave no proof to be found ({error})") from None


def mechanism(document: Document) -> Mechanism:
    """A checked document as a mechanism."""
    secret, useful = document["secret"], document["useful"]
    if len({c["name"] for c in (*secret, *useful)}) < len(secret) + len(useful):
        bad("a column is named twice")
    secrets, sizes = math.prod(len(c["labels"]) for c in secret), tuple(len(c["labels"]) for c in useful)
    law = checked(document["law"], secrets if document["reads"] == "both" else 1, sizes)
    answers = document["answers"]
    if answers is not None:
        symbols = law.kind in ("layout", "blocks") or law.numbers.get("meaning") == "symbol"
        if not symbols or len(answers["labels"]) != law.outputs:
            bad("the names of the outputs are not those of this law")
    found = Mechanism(document, law, secrets, _design(document["design"], secrets, law.useful))
    noise = document["design"] and document["design"]["noise"]
    counted = bool(noise) and document["design"]["counts"] is not None
    if noise and (document["version"] < 2 or not 0 <= noise["counts"] <= noise["epsilon"] > 0 or noise["delta"] == 1
                  or (noise["counts"] > 0) != counted or document["design"]["n"] not in (None, noise["rows"])
                  or (counted and noise["rows"] != sum(map(sum, document["design"]["counts"])))):
        bad("the noise of the design counts is described by numbers that no noise has, or in a file of version 1")
    if len(found.claims) > documents.MANY:
        bad(f"there are more than {documents.MANY} claims")
    for claim in found.claims:
        _check_claim(found, claim)
    return found


def _design(design: Document | None, secrets: int, useful: int) -> Table | None:
    """The design distribution in whole numbers."""
    if design is None or design["counts"] is design["probabilities"] is None:
        return None
    counts, probabilities = design["counts"], design["probabilities"]
    if counts and probabilities:
        bad("the design data are counts or probabilities, not both")
    if counts is None:
        return whole_table(probabilities, secrets, useful)
    n = sum(map(sum, counts))
    if not 0 < n <= documents.GREATEST or design["n"] not in (None, n):
        bad("the counts of the design data are not n in all")
    return _masses(counts, secrets, useful)


def whole_table(p: list[list[float]], secrets: int, useful: int) -> Table:
    """A distribution in doubles as the whole numbers it is in proportion to."""
    rational = [[Fraction(x) for x in row] for row in p]
    off = sum((sum(row, Fraction(0)) for row in rational), Fraction(-1))
    if abs(off) > NEARLY or any(0 < x < SMALLEST for row in p for x in row):
        bad("the probabilities of a distribution do not sum to 1, or are nearly 0")
    scale = math.lcm(*(x.denominator for row in rational for x in row))
    return _masses([[int(x * scale) for x in row] for row in rational], secrets, useful)


def _masses(rows: list[list[int]], secrets: int, useful: int) -> Table:
    if len(rows) != secrets or any(len(row) != useful for row in rows):
        bad(f"a distribution of the file is no table of {secrets} × {useful}")
    return [{u: n for u, n in enumerate(row) if n} for row in rows]


def _check_claim(m: Mechanism, claim: Claim) -> None:
    """Whether the claim is one that can be made: its notion, its set, its orders, its confidence."""
    notion, within = claim["notion"], claim["within"]
    if [claim["alpha"] is None, claim["beta"] is None] != [notion != "leakage"] * 2:
        bad(f"a claim of {notion} with orders that it must have, or must not have")
    if within is None:
        if notion not in ("ldp", "leakage"):
            bad(f"a claim of {notion} needs a set of distributions")
        return
    kind = within["kind"]
    if notion == "ldp" or (notion in ("leakage", "mi", "srlip") and kind != "exactly"):
        bad(f"a claim of {notion} cannot be made over a set of kind {kind}")
    if m.table is None:
        bad("the claim is about a set of distributions, but the design data are missing")
    if m.secrets < 2:
        bad("a claim about the secret needs a secret of two values or more")
    for vertex in within.get("vertices", []):
        whole_table(vertex, m.secrets, m.law.useful)
    if within.get("confidence") is not None or within.get("calibration") is not None:
        if m.document["design"]["noise"]:
            bad("a confidence follows from counts, and these carry noise")
        check_radius(kind, within["confidence"], within.get("calibration"), within["radius"], within.get("alpha"),
                     m.secrets * m.law.useful, m.document["design"]["counts"])


def check_radius(kind: str, confidence: float | None, calibration: str | None, radius: float, alpha: float | None,
                 cells: int, counts: list[list[int]] | None) -> None:
    """Whether a ball is large enough for the confidence it is said to have; only counts can tell.

    With k = |X| − 1 and t = n·radius, a χ² ball is if P(χ²_k ≤ t) ≥ confidence, or, if it is said to be exact, by
    Markov if t(1 − confidence) ≥ k; a Rényi ball of order α ≤ 1 if t ≥ k and e^{−t}(et/k)^k ≤ 1 − confidence.
    """
    if confidence is None or not 0 < confidence < 1 or counts is None:
        raise Unproved("a confidence is stated that cannot be recomputed: it needs the counts behind the ball")
    sure, k, n, how = Fraction(confidence), cells - 1, sum(map(sum, counts)), calibration or "asymptotic"
    t = n * Fraction(radius) * (1 + NEARLY)
    if k > 1_000_000:
        raise Beyond("too many cells for a confidence")
    match kind, how:
        case "chi-square-ball", "exact":
            enough = t * (1 - sure) >= k
        case "chi-square-ball", "asymptotic" | "bootstrap":  # no less than that; what it adds nobody can recompute
            x = near(min(t, Fraction(k + 40 * math.isqrt(k) + 2000)) / 2, UP)  # far beyond the mean t is not followed
            enough = bool(x) and chi_square_below(k, x) >= near(sure, UP)
        case "renyi-ball", "asymptotic":
            enough = alpha is not None and alpha <= 1 and t >= k and (k == 0 or UP.add(
                UP.multiply(Decimal(k), log(t / k, UP)), near(k - t, UP)) <= minus(log(1 / (1 - sure), UP)))
        case _:
            raise Unproved(f"a confidence is stated with a calibration that cannot be recomputed ({how[:40]!r})")
    if k and not enough:
        raise Unproved(f"the claim says {confidence:.4g} confidence, but its radius of {radius:.6g} is too small for "
                       f"that at n = {n}")


def proved(m: Mechanism, claim: Claim) -> str:
    """A sentence for a claim that was proved; else Unproved, or Beyond."""
    notion, epsilon, within = claim["notion"], claim["epsilon"], claim["within"]
    target = exp_below(epsilon)
    found = nats(m, claim) if notion in ("mi", "leakage") else bound(m.law, m.table, notion, within, target)
    if found is None or found > (Fraction(epsilon) if notion in ("mi", "leakage") else target):
        shown = math.inf if found is None else float(found) if notion in ("mi", "leakage") else level(found)
        if notion == "leakage" and claim["beta"] < claim["alpha"] < math.inf and shown <= epsilon * 1.001 + SEARCHED:
            raise Beyond(f"leakage of these orders is searched by steps, which came only as close as {shown:.10g}")
        raise Unproved(f"claimed ε ≤ {epsilon:.10g} ({notion}), proved only ε ≤ {shown:.10g}")
    orders = f", orders {claim['alpha']:g} and {claim['beta']:g}" if notion == "leakage" else ""
    where = f"about the secret, over: {_set(within)}" if within else "about the whole record, for every distribution"
    return f"{notion} ≤ {epsilon:.10g} nats{orders}, {where}"


def _set(within: Document) -> str:
    radius = f" of radius {within['radius']:.6g}" if "radius" in within else ""
    if within.get("calibration") == "bootstrap":
        return f"{within['kind']}{radius} (as given: what a bootstrap finds cannot be recomputed, and is no confidence)"
    sure = f", a confidence of {within['confidence']:.4g} (recomputed)" if within.get("confidence") is not None else ""
    return f"{within['kind']}{radius}{sure}"


def nats(m: Mechanism, claim: Claim) -> Fraction | None:
    """At or above a leakage, or I(S;Y)."""
    if claim["notion"] == "leakage":
        return leakage(channel(m.law, m.table if claim["within"] else None), claim["alpha"], claim["beta"])
    if m.law.listable:
        return exact.information(m.law, m.table or [])
    worst = bound(m.law, m.table, "lip", claim["within"], Fraction(1))  # a mean of logs that LIP bounds
    return None if worst is None else Fraction(log(worst, UP)) if worst > 1 else Fraction(0)


def bound(law: Law, table: Table | None, notion: str, within: Document | None, floor: Fraction) -> Ratio:
    """A ratio, at least `floor` or exact, that bounds the worst one of a notion over a set."""
    if within is None or table is None:
        return everywhere(law, apart=False)
    kind = within["kind"]
    if kind == "custom":
        raise Beyond("a set that is defined by code is not in the file")
    anyhow = None if kind == "exactly" else everywhere(law)
    if kind == "anything" or (anyhow is not None and anyhow <= floor):
        return anyhow
    if law.kind == "product" and not law.listable:
        return _some_together(law, table, notion, within, floor)
    if notion == "srlip":
        return exact.with_side_channels(law, table) if law.listable else everywhere(law, apart=False)
    if kind == "exactly" or within.get("radius") == 0:
        if law.listable:
            return exact.at_distribution(law, table, notion)
        return over_sets(exact.laws_given(table, law.rows, law.useful, notion), *law.odds, floor)
    telling = law.kind == "unary" and law.rows > 1  # a set may hold all of one secret and nothing of another
    found = least(anyhow, rldp_over(within, table, law.listed if law.listable and not telling else [], floor))
    if not law.listable and law.rows == 1 and kind != "polytope":
        found = least(found, over_sets(extremes(Ball(table, within), law.useful), *law.odds, floor))
    if notion in ("lip", "pml") and kind == "chi-square-ball" and floor > 1 and (found is None or found > floor):
        return floor if lip_over_ball(law, table, within["radius"], floor, notion == "lip") else found
    return found


def rldp_over(within: Document, table: Table, rows: list[Row], floor: Fraction) -> Ratio:
    """What listed rows tell over a ball or a polytope; nothing is known of none."""
    if not rows:
        return None
    if within["kind"] == "polytope":
        return exact.over_mixtures(rows, [whole_table(v, len(v), len(v[0])) for v in within["vertices"]], floor)
    return over_ball(rows, Ball(table, within), floor)


def least(a: Ratio, b: Ratio) -> Ratio:
    return b if a is None else a if b is None else min(a, b)


def _some_together(law: Law, table: Table, notion: str, within: Document, floor: Fraction) -> Ratio:
    """Releases too many to list: some of them proved together, the others at their worst for any distribution.

    P(y_A, y_R|s) / P(y_A, y_R|s') ≤ P(y_A|s) / P(y_A|s') · max_u Q_R / min_u' Q_R, whatever the set; for lip, pml and
    srlip, whose denominators also hold s itself, with the ratios about the input.
    """
    prices = [everywhere(part, apart=notion == "rldp") for part, _, _ in law.releases]
    best = exact.power_product((p, times) for p, (_, _, times) in zip(prices, law.releases, strict=True))
    dearest = sorted(range(len(prices)), key=lambda j: (prices[j] is None, prices[j] or 0), reverse=True)
    chosen: dict[int, int] = {}
    for j in dearest:
        times = law.releases[j][2]
        while times and not law.subset({**chosen, j: times}).listable:
            times //= 2
        chosen |= {j: times} if times else {}
    if not chosen:  # a law that cannot be listed, but proved otherwise
        chosen = {j: 1 for j in dearest if law.releases[j][1] == tuple(range(len(law.sizes)))}
        chosen = dict(itertools.islice(chosen.items(), 1))
    left = [times - chosen.get(j, 0) for j, (_, _, times) in enumerate(law.releases)]
    rest = exact.power_product((p, times) for p, times in zip(prices, left, strict=True) if times)
    if not chosen or rest is None:
        return best
    for wanted in ("rldp", notion) if notion in ("lip", "pml") else (notion,):
        if best is None or best > floor:
            together = bound(law.subset(chosen), table, wanted, within, max(Fraction(1), floor / rest))
            best = least(best, None if together is None else together * rest)
    return best


def over_two_levels(ratio: Fraction, m: Mechanism, within: Document) -> Ratio:
    """A bound of what passes of any law with rows within `ratio` of constant: its extreme rows have two levels."""
    kind, k, one = within["kind"], m.law.useful, Fraction(1)
    if m.table is None or kind in ("anything", "custom"):
        return ratio
    if kind == "exactly" or within.get("radius") == 0:
        return least(ratio, over_sets(exact.laws_given(m.table, 1, k, "rldp"), ratio, one, one))
    if k <= SUBSETS:
        high, low = math.ceil(ratio * 2**SET_BITS), 2**SET_BITS
        rows = [Row(1, (Part(low, {u: high for u in range(k) if y >> u & 1}, k),)) for y in range(2**k)]
        return least(ratio, rldp_over(within, m.table, rows, one))
    return ratio if kind == "polytope" else least(ratio, over_sets(extremes(Ball(m.table, within), k), ratio, one, one))
