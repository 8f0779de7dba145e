"""What was reproduced, as a page: captions, verdicts and pictures."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path

from sfumato.reproduce import figure

PAPERS = {
    "000": "Robust local differential privacy (000)",
    "001": "The privacy funnel with worst-case guarantees (001)",
    "002": "Robust optimisation for distortion (002)",
    "003": "Hamming distortion over source sets (003)",
    "004": "The alphabet of leakage measures (004)",
}
# What the paper says of each figure or table; the verdict holds what was computed against it.
CLAIMS = {
    "000-ex1": "With 95 % confidence the truth lies in a ball of radius B = 0.0752; here it does, at 0.0281.",
    "000-ex2": "The ball's conditionals lie in balls of their own, with the radii and lower bounds listed.",
    "000-ex3": "PolyOpt keeps 0.4228 nats of this table at ε = log 2, with the matrix (49).",
    "000-ex4": "GRR and SRR keep 0.0419 and 0.1005 nats of the same table.",
    "000-ex5": "Independent reporting keeps 0.0755 nats.",
    "000-fig2": "PolyOpt clearly outperforms IR and SRR where it can be computed; IR outperforms SRR but is slightly "
                "overtaken at high ε on small tables; GRR is last; NR is marginally above PolyOpt.",
    "000-fig3": "On tables drawn at random the order is the same, and IR is ahead of SRR on the large ones.",
    "000-fig4": "Under the truth NR's ε* is consistently greater than ε, PolyOpt's consistently lesser.",
    "000-fig5": "The NMI at the estimate is within 3 % of that at the truth, above and below it equally often.",
    "000-tab2": "The significance level β of the ball hardly matters for what is kept.",
    "001-fig3": "Optimal LIP mechanisms are found much faster than LDP ones, at a low difference in utility.",
    "001-fig4": "SRLIP is paid for both in time (Theorem 3 is 476 times as fast) and in utility.",
    "001-fig5": "GRR and CR lie between the optimum and OUE, which falls off at large ε.",
    "001-fig6": "The larger a is compared to c, the more CR keeps compared to GRR.",
    "001-fig7": "The difference in utility is largely explained by the difference in α (ρ = 0.98, 0.99, 0.97).",
    "001-fig8": "Where α_GRR is above α_CR, GRR keeps more, and the other way round.",
    "002-fig2": "Without robustness in privacy almost all instances exceed ε by far; with it utility suffers.",
    "003-fig4": "Knowing the source better (Class II) lowers the leakage at moderate distortion; Class III is between.",
    "003-fig5": "The same with ten values.",
    "003-fig6": "MI leakage is convex in the distortion and never above DP leakage, which is not convex.",
    "003-fig7": "The same for a Class II set; both are zero together.",
    "004-fig1": "One family holds maximal leakage, maximal α-leakage, local Rényi DP and LDP.",
}
_HEAD = """# The papers, reproduced

Made by `make reproduce` (quick versions; `sfumato reproduce NAME --full` takes the papers' counts). Every entry is one
command, which writes data, a picture and the verdict, computed in that run, beside what the paper claims. Where a
verdict names a correction, [corrections](corrections.md) says what is wrong in print and why. One method, one colour.
"""


def write_page(path: Path, verdicts: Mapping[str, str], folder: Path) -> None:
    """The page in Markdown, with links to the pictures that were made in the folder."""
    parts = [_HEAD]
    for paper, names in groupby(sorted(verdicts), lambda name: name[:3]):
        parts.append(f"## {PAPERS[paper]}\n")
        parts += [_entry(name, verdicts[name], folder, path.parent) for name in names]
    path.write_text("\n".join(parts), encoding="utf-8")


def _entry(name: str, verdict: str, folder: Path, here: Path) -> str:
    caption = (figure(name).__doc__ or "").strip().splitlines()[0]
    caption = re.sub(r"^\[?\d{3},? (Fig\. \d|Figure \d|Table \d|Example \d)\]?: ", "", caption)
    caption = caption if caption[0] in "αβ" else caption[0].upper() + caption[1:]
    made = next((p for kind in ("svg", "png") if (p := folder / f"{name}.{kind}").exists()), None)
    picture = f"\n![{caption}]({Path(os.path.relpath(made, here)).as_posix()})\n" if made else ""
    told = verdict.removeprefix(name + ": ")
    return f"### {name}\n\n{caption}\n{picture}\n> **The paper:** {CLAIMS[name]}\n>\n> **Here:** {told}\n"
