"""Bundles: several mechanisms for one row under one promise about the secret, P(y|s) ≤ e^ε P(y|s') for all answers y.

Ratios of answers that are independent given the record multiply; what may be multiplied depends on what is assumed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sfumato_kernel.exact import about_anything, about_input, power_product
from sfumato_kernel.laws import Ratio
from sfumato_kernel.reading import Unproved, bad
from sfumato_kernel.rounding import exp_below, level
from sfumato_kernel.verdict import Mechanism, bound, columns, mechanism, over_two_levels

TURNS = 2**62


@dataclass(frozen=True)
class Bundle:
    document: dict[str, Any]
    parts: list[Mechanism]
    parents: list[int]  # for each part the part it hangs from; −1 for the secret


def bundled(document: dict[str, Any]) -> Bundle:
    """A checked document as a bundle."""
    secret, turns, promise = document["secret"], document["turns"], document["promise"]
    assuming = promise["assuming"] if promise else "nothing"
    columns(secret)
    parts = [mechanism(part) for part in document["parts"]]
    known = {c["name"]: c for c in secret}
    names: list[str] = []
    for part in parts:
        d = part.document
        if part.law.kind == "product" or (part.law.kind == "unary" and part.law.inputs > 1):
            bad("a part of a bundle answers with a single value, so it is no product and no set of bits")
        if d["reads"] == "both" and d["secret"] != secret:
            bad("a part reads another secret than the bundle's")
        if any(known.setdefault(c["name"], c) != c or c["name"] in {x["name"] for x in secret} for c in d["useful"]):
            bad("two parts know a column by different labels, or one reads the secret as useful")
        names += [c["name"] for c in d["useful"]]
    shapes = [(p.document["reads"], [c["name"] for c in p.document["useful"]]) for p in parts]
    if any(shapes.count(x) > 1 for x in shapes) or (turns is None and len(set(names)) < len(names)):
        bad("two parts read the same columns")
    if turns is not None and (len(turns) != len(parts) or sum(turns) != TURNS):
        bad("turns are a weight for each part, 2^62 in all")
    if (assuming == "tables" and turns is None) or (assuming in ("star", "tree") and turns is not None):
        bad(f"a promise that assumes {assuming!r} is not for parts answered this way")
    if assuming != "tree" and any(p.document["secret"] != secret for p in parts):
        bad("every part must be about the bundle's secret; only in a tree it hangs from another part")
    return Bundle(document, parts, _parents(parts, secret))


def _parents(parts: list[Mechanism], secret: list[dict[str, Any]]) -> list[int]:
    out = []
    for part in parts:
        above = part.document["secret"]
        homes = [i for i, p in enumerate(parts) if p.document["useful"] == above]
        if above != secret and not homes:
            bad("a part hangs from columns that are neither the secret nor another part")
        out.append(-1 if above == secret else homes[0])
    for start in range(len(out)):
        at, steps = start, 0
        while at >= 0:
            at, steps = out[at], steps + 1
            if steps > len(out):
                bad("the parts hang from each other in a circle")
    return out


def proved_bundle(bundle: Bundle) -> str:
    """A sentence for a promise that was proved."""
    promise = bundle.document["promise"]
    if promise is None:
        raise Unproved("the bundle promises nothing")
    epsilon, assuming = promise["epsilon"], promise["assuming"]
    target = exp_below(epsilon)
    secrets = math.prod(len(c["labels"]) for c in bundle.document["secret"])
    if secrets < 2:
        bad("a promise about the secret needs a secret of two values or more")
    worst = [about_anything(p.law, secrets) for p in bundle.parts]
    if bundle.document["turns"] is not None:
        ratio: Ratio = None if None in worst else max(r for r in worst if r is not None)
    else:
        ratio = power_product((r, 1) for r in worst)
    if (ratio is None or ratio > target) and assuming != "nothing":
        ratio = _tables(bundle, target) if assuming == "tables" else power_product(
            (_below(bundle, i), 1) for i, parent in enumerate(bundle.parents) if parent == -1)
    if ratio is None or ratio > target:
        raise Unproved(f"promised ε ≤ {epsilon:.10g}, proved only ε ≤ {level(ratio):.10g}")
    return f"rldp ≤ {epsilon:.10g} nats, about the secret, for all parts together, assuming: {assuming}"


def _over_its_set(part: Mechanism, floor: Fraction) -> Ratio:
    claim = part.document["claim"]
    if claim is None or claim["within"] is None:
        bad("a part does not say in which set of distributions its table lies")
    return bound(part.law, part.secrets, part.counts, "rldp", claim["within"], floor)


def _tables(bundle: Bundle, target: Fraction) -> Ratio:
    """Which part a row answers does not depend on the row, so the ratio of an answer is that of its part."""
    found = [_over_its_set(part, target) for part in bundle.parts]
    return None if None in found else max(r for r in found if r is not None)


def _below(bundle: Bundle, at: int) -> Ratio:
    """All answers in the subtree of a part, about what the part hangs from.

    Σ_u p(u|a) Q(y|u) Π m_c(u): Q·Πm_c varies with u by at most its ratio about the input times those of the children,
    and the channel p(u|a) lets through of it what it lets through of the two-level rows with that ratio.
    """
    part, below = bundle.parts[at], [i for i, parent in enumerate(bundle.parents) if parent == at]
    if not below:
        return _over_its_set(part, Fraction(1))
    levels = [_below(bundle, i) for i in below]
    if part.law.rows > 1:
        secrets = part.secrets
        return power_product((r, 1) for r in [about_anything(part.law, secrets), *levels])
    whole = power_product((r, 1) for r in [about_input(part.law), *levels])
    claim = part.document["claim"]
    if whole is None or claim is None or claim["within"] is None or part.counts is None:
        return whole
    through = over_two_levels(whole, part.secrets, part.counts, claim["within"])
    return whole if through is None else min(whole, through)
