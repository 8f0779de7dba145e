"""The default against ordinary protocols on twenty real tables: python benchmarks/twenty.py [--out F] [--epsilon 1]

For each table and level, the width of 95 % intervals from as many rows as were counted: of the secret, of the useful
column and of the whole table, each as the root mean square over its values. Protocols have the same promise (RLDP over
the 95 % ball); subset selection has ε-LDP of the whole record, which implies it. Designs are compared by what the
default aims at: the root mean square of the three widths, each relative to the least of any mechanism found; and each
width by itself, with the least that any of the protocols has for it.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import sfumato as sf
from sfumato.designers.worth import Z95, errors_of

PARTS = ("secret", "column 0", "joint")
PROTOCOLS = ("srr", "grr", "oue")
MOST = 1.02  # times the narrowest interval of a protocol


def widths(mechanism: Any, joint: Any) -> dict[str, float]:
    """Width of 95 % intervals in points, by part."""
    errors, _ = errors_of(mechanism, joint)
    if mechanism.reads == "useful":
        errors = {**errors, "joint": math.inf, "secret": math.inf}
    return {part: 200 * Z95 * math.sqrt(e / joint.n) for part, e in errors.items() if part != "useful"}


def subset_selection(joint: Any, epsilon: float) -> dict[str, float]:
    """Widths from subset selection [Ye and Barg 2018] of the record: exact covariances of its bits.

    A set of d of the k values is released, with the true one in it e^ε times as likely as not for each set.
    """
    p, k = joint.p.ravel(), joint.p.size
    d = max(1, round(k / (math.exp(epsilon) + 1)))
    on = d * math.exp(epsilon) / (d * math.exp(epsilon) + k - d)
    off = on * (d - 1) / (k - 1) + (1 - on) * d / (k - 1)
    both = on * (d - 1) / (k - 1)  # the true one and another
    others = (on * (d - 1) * (d - 2) + (1 - on) * d * (d - 1)) / ((k - 1) * (k - 2)) if k > 2 else 0.0
    second = others + (both - others) * (p[:, None] + p[None, :])
    np.fill_diagonal(second, off + (on - off) * p)
    mean = off + (on - off) * p
    cov = (second - np.outer(mean, mean)) / (on - off) ** 2
    s, u = joint.shape
    rows, columns = np.kron(np.eye(s), np.ones((1, u))), np.kron(np.ones((1, s)), np.eye(u))
    sums = {"joint": np.eye(k), "secret": rows, "column 0": columns}
    return {part: 200 * Z95 * math.sqrt(float(np.mean(np.diag(m @ cov @ m.T))) / joint.n) for part, m in sums.items()}


def compared(joint: Any, epsilon: float) -> tuple[dict[str, float], dict[str, dict[str, float]], dict[str, float]]:
    """Widths of the default, of the protocols, and the least that was found for each part by itself."""
    made = sf.design(joint, epsilon)
    own = widths(made.mechanism, joint)
    others = {name: widths(sf.design(joint, epsilon, name).mechanism, joint) for name in PROTOCOLS}
    others["subset selection"] = subset_selection(joint, epsilon)
    sought = {part: 200 * Z95 * math.sqrt(made.details["best"][part] / joint.n) for part in PARTS}
    return own, others, {part: min(w[part] for w in (own, sought, *others.values())) for part in PARTS}


def report(tables: dict[str, Any], levels: Sequence[float]) -> tuple[str, float]:
    lines = [
        "# The default on twenty real tables", "",
        "Made by `python benchmarks/twenty.py --out docs/twenty.md`. Widths of 95 % intervals in percentage points "
        "(secret / useful column / cell of the table), from as many rows as were counted; *least* are those of the "
        "best mechanism found for each of the three by itself. *ratio* compares the default with the best protocol by "
        "what is aimed at, the root mean square of the three widths in units of the least: below 1 the default is "
        "better. *widest* is the largest quotient of a width of the default and the least width that any protocol has "
        "for the same thing: below 1 every interval of the default is narrower than that of every protocol.", "",
        "| table | rows | cells | ε | least | default | best protocol | its widths | ratio | widest |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    worst = widest = 0.0
    for name, counts in tables.items():
        joint = sf.Joint.from_counts(np.array(counts))
        for epsilon in levels:
            own, others, least = compared(joint, epsilon)

            def mean(w: dict[str, float], least: dict[str, float] = least) -> float:
                return math.sqrt(float(np.mean([(w[part] / least[part]) ** 2 for part in PARTS])))

            best = min(others, key=lambda x: mean(others[x]))
            ratio = mean(own) / mean(others[best])
            each = max(own[part] / min(w[part] for w in others.values()) for part in PARTS)
            worst, widest = max(worst, ratio), max(widest, each)
            cells = [" / ".join(f"{w[part]:.3g}" for part in PARTS) for w in (least, own, others[best])]
            lines.append(f"| {name} | {joint.n:,} | {joint.p.size} | {epsilon:g} | {cells[0]} | {cells[1]} | {best} | "
                         f"{cells[2]} | {ratio:.3f} | {each:.3f} |")
            print(lines[-1], flush=True)
    lines += ["", f"The largest ratio is {worst:.3f}, the widest interval {widest:.3f} times the narrowest."]
    return "\n".join(lines), max(worst, widest)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0])
    given = parser.parse_args()
    tables = json.loads((Path(__file__).parent / "twenty_tables.json").read_text("utf-8"))
    text, most = report(tables, given.epsilon)
    if given.out is not None:
        given.out.write_text(text + "\n", "utf-8")
    assert most <= MOST, f"{most:.3f} times the best protocol"


if __name__ == "__main__":
    main()
