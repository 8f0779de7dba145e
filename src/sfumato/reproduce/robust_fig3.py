"""000 Figure 3: mean NMI on synthetic tables from the Jeffreys prior, n = 32,561, every method at every size.

The paper shows no numbers for this figure; the verdict holds the statements of §8.2 against ours.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sfumato.reproduce.drawing import lines, verdict, write_csv
from sfumato.reproduce.robust_tables import METHODS, SHAPES, Shape, draw, kept, small, titled

FULL = (0.075, 0.3, 0.6, 0.9, 1.2, 1.5)
QUICK, QUICK_LARGE = (0.3, 0.9, 1.5), (0.5, 1.5)
RUNS = 100  # of the paper
SECONDS = 8.0  # for each search on a large table, unless full



def run(
    out: Path, *, full: bool, draws: int | None = None, large: int | None = None, shapes: tuple[Shape, ...] = SHAPES,
    epsilons: tuple[float, ...] = (),
) -> str:
    """000 Figure 3: mean NMI on synthetic tables from the Jeffreys prior, n = 32,561, every method at every size."""
    count = {True: draws or (RUNS if full else 10), False: large or (RUNS if full else 1)}  # by small(shape)
    rows = []
    for shape in shapes:
        for epsilon in epsilons or (FULL if full else QUICK if small(shape) else QUICK_LARGE):
            for i in range(count[small(shape)]):
                ball = draw(shape, i).ball
                for name in METHODS:
                    value, bound = kept(name, ball, epsilon, None if full or small(shape) else SECONDS)
                    rows.append((*shape, epsilon, i, name, value, bound))
    write_csv(out / "000-fig3.csv", ("secrets", "useful", "epsilon", "draw", "method", "nmi", "bound"), rows)
    mean = {
        (shape, e): {m: float(np.mean([r[5] for r in rows if r[:3] == (*shape, e) and r[4] == m])) for m in METHODS}
        for shape, e in dict.fromkeys(((r[0], r[1]), r[2]) for r in rows)
    }
    panels = {
        titled(shape): {
            m: ([e for s, e in mean if s == shape], [x[m] for (s, _), x in mean.items() if s == shape]) for m in METHODS
        }
        for shape in shapes
    }
    remark = lines(out / "000-fig3.svg", [(t, "ε", "NMI", s) for t, s in panels.items()])
    below = sum(
        b[5] < a[5] - 1e-6 for a in rows if a[4] == "polyopt" for b in rows if b[:4] == a[:4] and b[4] == "ballopt"
    )
    told = ", ".join(
        f"{s[0]} × {s[1]} {x['polyopt']:.3f} / {x['ballopt']:.3f} / {x['nr']:.3f}"
        for (s, e), x in mean.items() if e == 1.5
    )
    claims = {
        "polyopt above ir": all(x["polyopt"] > x["ir"] for x in mean.values()),
        "ir above srr on the large shapes": all(x["ir"] > x["srr"] for (s, _), x in mean.items() if not small(s)),
        "grr last": all(x["grr"] <= min(v for m, v in x.items() if m != "grr") for x in mean.values()),
        "nr first": all(x["nr"] >= max(x.values()) - 1e-6 for x in mean.values()),
    }
    ours = {f"ballopt at least polyopt ({below} draws below)": not below}
    text = (
        f"means of {count[True]} draws ({count[False]} on large shapes), polyopt / ballopt / nr at ε = 1.5: {told}; "
        "the paper stops at 10 cells for polyopt and nr"
    )
    return verdict("000-fig3", claims, text, remark, ours=ours)
