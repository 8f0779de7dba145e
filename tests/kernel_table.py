"""What the kernel does with an honest claim of every law, notion and set: python -m tests.kernel_table prints the table
that docs/mechanism-file.md holds."""

from __future__ import annotations

import json
from decimal import Inexact
from unittest import mock

from tests import forging, mechanism_files
from tests.mechanism_files import LAWS, NOTIONS

import sfumato_kernel as kernel
from sfumato_kernel import documents, exact, verdict

SEEDS = 4
ROWS = [(notion, within) for notion, sets in NOTIONS.items() for within in (*sets, *(["custom"] if len(sets) > 2 else []))]


def outcome(document):
    """exactly: in rationals alone, but for e^ε itself; outward: with decimals rounded outward; refused."""
    def target(epsilon):
        found = exact.exp_below(epsilon)
        exact.UP.clear_flags()
        exact.DOWN.clear_flags()
        return found

    target(0.0)
    with mock.patch.object(verdict, "exp_below", target):
        try:
            kernel.verify(forging.sealed(document))
        except kernel.Refused:
            return "refused"
    rounded = exact.UP.flags[Inexact] or exact.DOWN.flags[Inexact]
    return "outward" if rounded else "exactly"


def claimed(document, notion, within):
    """The pair that a document stands for; None for a bundle."""
    claim = document.get("claim")
    return claim is not None and (claim["notion"], (claim.get("within") or {}).get("kind")) == (notion, within)


def outcomes(documents):
    """(law, notion, set) → what the kernel does; missing where there is no document to try."""
    found = {}
    for law in LAWS:
        own = [d for d in documents if d.get("law", {}).get("kind") == law]
        for notion, within in ROWS:
            pick = [d for d in own if claimed(d, notion, within)]
            if within == "custom":
                pick = [d | {"claim": {"notion": notion, "epsilon": 1e-9, "within": {"kind": "custom", "name": "mine"}}}
                        for d in own if claimed(d, notion, "exactly")]
            if law == "unary" and notion == "leakage":  # the fast path has no level for it to claim
                claim = {"notion": notion, "epsilon": 9.0, "alpha": "inf", "beta": 1.0}
                claim |= {} if within is None else {"within": {"kind": within}}
                pick = [d | {"claim": claim} for d in own if claimed(d, "mi", "exactly")]
            if pick:
                found[law, notion, within] = outcome(pick[0])
    for law, notion, within in [key for key, value in found.items() if value == "exactly" and hard(key)]:
        others = (mechanism_files.mechanism(law, notion, within, seed)[0] for seed in range(1, SEEDS))
        if any(outcome(json.loads(mechanism_files.data(made))) == "outward" for made in others):
            found[law, notion, within] = "outward"
    return found


def hard(key):
    """Whether logarithms or dual points are to be expected; that none is needed may then be chance."""
    return key[1] in ("mi", "leakage") or str(key[2]).endswith("ball")


def table(found):
    lines = ["| notion | over | " + " | ".join(LAWS) + " |", "|---|---|" + "---|" * len(LAWS)]
    for notion, within in ROWS:
        cells = [found.get((law, notion, within), "?") for law in LAWS]
        lines.append(f"| `{notion}` | {f'`{within}`' if within else ''} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def not_made():
    """Pairs of notion and set that no claim can have."""
    every = [None, *documents.SETS]
    return [(n, w) for n in NOTIONS for w in every if w not in NOTIONS[n] and not (w == "custom" and len(NOTIONS[n]) > 2)]


if __name__ == "__main__":
    print(table(outcomes(mechanism_files.documents())))
