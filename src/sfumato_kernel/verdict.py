"""Verdicts: what a file claims, checked against its shape, and proved or refused claim by claim."""

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from sfumato_kernel import documents, exact
from sfumato_kernel.ball_levels import Ball, check_radius, extremes, over_ball
from sfumato_kernel.documents import Beyond, Document, Unproved, bad
from sfumato_kernel.exact import UP, everywhere, exp_below, level, log, over_sets, power_product
from sfumato_kernel.laws import UNARY_SETS, ExactLaw, Part, Ratio, Row, Table, checked, masses_of, whole_table, worse
from sfumato_kernel.leaks import channel, leakage, lip_over_ball

UNDECIDED = 1e-5  # nats: a claim of leakage that is missed by less, where laws are searched, is left undecided
SET_BITS = 200  # of the two levels whose sets are listed
Claim = Document


@dataclass(frozen=True)
class Admitted:
    """A law with what its file says about it; `table` is the design distribution in whole numbers."""

    document: Document
    law: ExactLaw
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


@dataclass(frozen=True)
class AdmittedBundle:
    """Several mechanisms for one row under one promise about the secret, P(y|s) ≤ e^ε P(y|s') for all answers y."""

    document: Document
    parts: list[Admitted]
    parents: list[int]  # for each part the part it hangs from; −1 for the secret


class Verdict(NamedTuple):
    """What was proved: a sentence for each claim."""

    proved: list[str]


def limit(x: float) -> str:
    """A level in ten digits, or in all of its own where ten would be less than it is."""
    text = f"{x:.10g}"
    return text if float(text) >= x else repr(x)


def admitted(data: bytes) -> Admitted | AdmittedBundle:
    """The mechanism or the bundle in the bytes, if every field is within what is stated and every sum is right."""
    document = documents.document(data)
    return bundled(document) if document["format"] == "sfumato/bundle" else mechanism(document)


def verify(data: bytes) -> Verdict:
    """Prove every claim in the bytes, or raise Refused."""
    return judged(admitted(data))


def judged(found: Admitted | AdmittedBundle) -> Verdict:
    """Prove every claim of what was admitted."""
    try:
        if isinstance(found, AdmittedBundle):
            return Verdict(proved_bundle(found))
        if not found.claims:
            raise Unproved("the file claims nothing")
        return Verdict([proved(found, claim) for claim in found.claims])
    except (ArithmeticError, ValueError) as error:  # only the search for dual points uses floats
        raise Beyond(f"numbers this far apart leave no proof to be found ({error})") from None


def mechanism(document: Document) -> Admitted:
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
    found = Admitted(document, law, secrets, _design(document["design"], secrets, law.useful))
    noise = document["design"] and document["design"]["noise"]
    counted = bool(noise) and document["design"]["counts"] is not None
    if noise and (document["version"] < 2 or not 0 <= noise["counts"] <= noise["epsilon"] > 0 or noise["delta"] == 1
                  or (noise["counts"] > 0) != counted or document["design"]["n"] not in (None, noise["rows"])
                  or (counted and noise["rows"] != sum(map(sum, document["design"]["counts"])))):
        bad("the noise of the design counts is described by numbers that no noise has, or in a file of version 1")
    if len(found.claims) > documents.SIZES.claims:
        bad(f"there are more than {documents.SIZES.claims} claims")
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
    return masses_of(counts, secrets, useful)


def _check_claim(m: Admitted, claim: Claim) -> None:
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


def proved(m: Admitted, claim: Claim) -> str:
    """A sentence for a claim that was proved; else Unproved, or Beyond."""
    notion, epsilon, within = claim["notion"], claim["epsilon"], claim["within"]
    target = exp_below(epsilon)
    found = nats(m, claim) if notion in ("mi", "leakage") else bound(m.law, m.table, notion, within, target)
    if found is None or found > (Fraction(epsilon) if notion in ("mi", "leakage") else target):
        shown = math.inf if found is None else float(found) if notion in ("mi", "leakage") else level(found)
        if notion == "leakage" and claim["beta"] < claim["alpha"] < math.inf and shown <= epsilon * 1.001 + UNDECIDED:
            raise Beyond(f"leakage of these orders is searched by steps, which came only as close as {limit(shown)}")
        raise Unproved(f"claimed ε ≤ {limit(epsilon)} ({notion}), proved only ε ≤ {limit(shown)}")
    orders = f", orders {claim['alpha']:g} and {claim['beta']:g}" if notion == "leakage" else ""
    where = f"about the secret, over: {_set(within)}" if within else "about the whole record, for every distribution"
    return f"{notion} ≤ {limit(epsilon)} nats{orders}, {where}"


def _set(within: Document) -> str:
    radius = f" of radius {within['radius']:.6g}" if "radius" in within else ""
    if within.get("calibration") == "bootstrap":
        return f"{within['kind']}{radius} (as given: what a bootstrap finds cannot be recomputed, and is no confidence)"
    sure = f", a confidence of {within['confidence']} (recomputed)" if within.get("confidence") is not None else ""
    return f"{within['kind']}{radius}{sure}"


def nats(m: Admitted, claim: Claim) -> Fraction | None:
    """At or above a leakage, or I(S;Y)."""
    if claim["notion"] == "leakage":
        return leakage(channel(m.law, m.table if claim["within"] else None), claim["alpha"], claim["beta"])
    if m.law.listable:
        return exact.information(m.law, m.table or [])
    worst = bound(m.law, m.table, "lip", claim["within"], Fraction(1))  # a mean of logs that LIP bounds
    return None if worst is None else Fraction(log(worst, UP)) if worst > 1 else Fraction(0)


def bound(law: ExactLaw, table: Table | None, notion: str, within: Document | None, floor: Fraction) -> Ratio:
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


def _some_together(law: ExactLaw, table: Table, notion: str, within: Document, floor: Fraction) -> Ratio:
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


def over_two_levels(ratio: Fraction, m: Admitted, within: Document) -> Ratio:
    """A bound of what passes of any law with rows within `ratio` of constant: its extreme rows have two levels."""
    kind, k, one = within["kind"], m.law.useful, Fraction(1)
    if m.table is None or kind in ("anything", "custom"):
        return ratio
    if kind == "exactly" or within.get("radius") == 0:
        return least(ratio, over_sets(exact.laws_given(m.table, 1, k, "rldp"), ratio, one, one))
    if k <= UNARY_SETS:
        high, low = math.ceil(ratio * 2**SET_BITS), 2**SET_BITS
        rows = [Row(1, (Part(low, {u: high for u in range(k) if y >> u & 1}, k),)) for y in range(2**k)]
        return least(ratio, rldp_over(within, m.table, rows, one))
    return ratio if kind == "polytope" else least(ratio, over_sets(extremes(Ball(m.table, within), k), ratio, one, one))


def bundled(document: Document) -> AdmittedBundle:
    """A checked document as a bundle. Ratios of answers that are independent given the record multiply; what may be
    multiplied depends on what is assumed."""
    secret, turns, promise = document["secret"], document["turns"], document["promise"]
    assuming, parts = promise["assuming"] if promise else "nothing", [mechanism(part) for part in document["parts"]]
    known, own = {c["name"]: c for c in secret}, {c["name"] for c in secret}
    if len(own) < len(secret):
        bad("a column is named twice")
    for part in parts:
        if part.law.kind == "product" or (part.law.kind == "unary" and part.law.inputs > 1):
            bad("a part of a bundle answers with a single value, so it is no product and no set of bits")
        if part.document["reads"] == "both" and part.document["secret"] != secret:
            bad("a part reads another secret than the bundle's")
        if any(known.setdefault(c["name"], c) != c or c["name"] in own for c in part.document["useful"]):
            bad("two parts know a column by different labels, or one reads the secret as useful")
    shapes = [(p.document["reads"], [c["name"] for c in p.document["useful"]]) for p in parts]
    names = [name for _, columns in shapes for name in columns]
    if any(shapes.count(x) > 1 for x in shapes) or (turns is None and len(set(names)) < len(names)):
        bad("two parts read the same columns")
    if turns is not None and (len(turns) != len(parts) or sum(turns) != documents.GREATEST):
        bad("turns are a weight for each part, 2^62 in all")
    if (assuming == "tables" and turns is None) or (assuming in ("star", "tree") and turns is not None):
        bad(f"a promise that assumes {assuming!r} is not for parts answered this way")
    if assuming != "tree" and any(p.document["secret"] != secret for p in parts):
        bad("every part must be about the bundle's secret; only in a tree it hangs from another part")
    return AdmittedBundle(document, parts, _parents(parts, secret))


def _parents(parts: list[Admitted], secret: list[Document]) -> list[int]:
    homes = {str(p.document["useful"]): i for i, p in reversed(list(enumerate(parts)))} | {str(secret): -1}
    out = [homes.get(str(p.document["secret"]), len(parts)) for p in parts]
    if len(parts) in out:
        bad("a part hangs from columns that are neither the secret nor another part")
    roots = list(range(len(parts)))
    for _ in parts:
        roots = [at if at < 0 else out[at] for at in roots]
    return out if max(roots) < 0 else bad("the parts hang from each other in a circle")


def proved_bundle(bundle: AdmittedBundle) -> list[str]:
    """Sentences for a promise that was proved, and for what its parts claim."""
    promise, turns = bundle.document["promise"], bundle.document["turns"]
    if promise is None:
        raise Unproved("the bundle promises nothing")
    if math.prod(len(c["labels"]) for c in bundle.document["secret"]) < 2:
        bad("a promise about the secret needs a secret of two values or more")
    epsilon, assuming, target = promise["epsilon"], promise["assuming"], exp_below(promise["epsilon"])
    ratio = _all([everywhere(p.law) for p in bundle.parts], turns)
    if (ratio is None or ratio > target) and assuming == "tables":
        ratio = _all([_over_its_set(part, target) for part in bundle.parts], turns)
    elif (ratio is None or ratio > target) and assuming != "nothing":
        ratio = _all([_below(bundle, i) for i, parent in enumerate(bundle.parents) if parent == -1], None)
    if ratio is None or ratio > target:
        raise Unproved(f"promised ε ≤ {limit(epsilon)}, proved only ε ≤ {limit(level(ratio))}")
    each = [f"part {i}: {proved(part, claim)}" for i, part in enumerate(bundle.parts, 1) for claim in part.claims]
    return [f"rldp ≤ {limit(epsilon)} nats, about the secret, for all parts together, assuming: {assuming}", *each]


def _all(ratios: list[Ratio], turns: list[int] | None) -> Ratio:
    """Of answers together the product; of answers in turn, which part does not depend on the row, the greatest."""
    if turns is None:
        return power_product((r, 1) for r in ratios)
    worst: Ratio = Fraction(1)
    for ratio in ratios:
        worst = worse(worst, ratio)
    return worst


def _over_its_set(part: Admitted, floor: Fraction) -> Ratio:
    claim = part.document["claim"]
    if claim is None or claim["within"] is None:
        bad("a part does not say in which set of distributions its table lies")
    return bound(part.law, part.table, "rldp", claim["within"], floor)


def _below(bundle: AdmittedBundle, at: int) -> Ratio:
    """All answers in the subtree of a part, about what the part hangs from.

    Σ_u p(u|a) Q(y|u) Π m_c(u): Q·Πm_c varies with u by at most its ratio about the input times those of the children,
    and the channel p(u|a) lets through of it what it lets through of the two-level rows with that ratio.
    """
    part, below = bundle.parts[at], [i for i, parent in enumerate(bundle.parents) if parent == at]
    if not below:
        return _over_its_set(part, Fraction(1))
    apart = part.law.rows > 1
    whole = _all([everywhere(part.law, apart), *(_below(bundle, i) for i in below)], None)
    claim = part.document["claim"]
    if whole is None or apart or claim is None or claim["within"] is None:
        return whole
    return over_two_levels(whole, part, claim["within"])
