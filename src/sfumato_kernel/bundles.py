"""Bundles: several mechanisms for one row under one promise about the secret, P(y|s) ≤ e^ε P(y|s') for all answers y.

Ratios of answers that are independent given the record multiply; what may be multiplied depends on what is assumed.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

from sfumato_kernel.documents import Document, Unproved, bad
from sfumato_kernel.exact import everywhere, exp_below, level, power_product
from sfumato_kernel.laws import Ratio, worse
from sfumato_kernel.verdict import Mechanism, bound, mechanism, over_two_levels, proved

TURNS = 2**62


@dataclass(frozen=True)
class Bundle:
    document: Document
    parts: list[Mechanism]
    parents: list[int]  # for each part the part it hangs from; −1 for the secret


def bundled(document: Document) -> Bundle:
    """A checked document as a bundle."""
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
    if turns is not None and (len(turns) != len(parts) or sum(turns) != TURNS):
        bad("turns are a weight for each part, 2^62 in all")
    if (assuming == "tables" and turns is None) or (assuming in ("star", "tree") and turns is not None):
        bad(f"a promise that assumes {assuming!r} is not for parts answered this way")
    if assuming != "tree" and any(p.document["secret"] != secret for p in parts):
        bad("every part must be about the bundle's secret; only in a tree it hangs from another part")
    return Bundle(document, parts, _parents(parts, secret))


def _parents(parts: list[Mechanism], secret: list[Document]) -> list[int]:
    homes = {str(p.document["useful"]): i for i, p in reversed(list(enumerate(parts)))} | {str(secret): -1}
    out = [homes.get(str(p.document["secret"]), len(parts)) for p in parts]
    if len(parts) in out:
        bad("a part hangs from columns that are neither the secret nor another part")
    roots = list(range(len(parts)))
    for _ in parts:
        roots = [at if at < 0 else out[at] for at in roots]
    return out if max(roots) < 0 else bad("the parts hang from each other in a circle")


def proved_bundle(bundle: Bundle) -> list[str]:
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
        raise Unproved(f"promised ε ≤ {epsilon:.10g}, proved only ε ≤ {level(ratio):.10g}")
    each = [f"part {i}: {proved(part, claim)}" for i, part in enumerate(bundle.parts, 1) for claim in part.claims]
    return [f"rldp ≤ {epsilon:.10g} nats, about the secret, for all parts together, assuming: {assuming}", *each]


def _all(ratios: list[Ratio], turns: list[int] | None) -> Ratio:
    """Of answers together the product; of answers in turn, which part does not depend on the row, the greatest."""
    if turns is None:
        return power_product((r, 1) for r in ratios)
    worst: Ratio = Fraction(1)
    for ratio in ratios:
        worst = worse(worst, ratio)
    return worst


def _over_its_set(part: Mechanism, floor: Fraction) -> Ratio:
    claim = part.document["claim"]
    if claim is None or claim["within"] is None:
        bad("a part does not say in which set of distributions its table lies")
    return bound(part.law, part.table, "rldp", claim["within"], floor)


def _below(bundle: Bundle, at: int) -> Ratio:
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
