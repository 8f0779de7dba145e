"""Examples 1 to 5 and Table 2 of paper 000, its tables of counts, and what each method reaches on them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.special import chdtri

from sfumato.designers import Design, design
from sfumato.designers.base import Options, Task
from sfumato.designers.closed_forms import grr, ir, srr, total_variation
from sfumato.joint import Joint
from sfumato.privacy import LDP, RLDP, mutual_information
from sfumato.reproduce import papers
from sfumato.reproduce.drawing import apart, curves, verdict, write_csv, written
from sfumato.tolerances import LEAST
from sfumato.uncertainty import ChiSquareBall

# Examples 1–5: the estimate from 100 rows, and the truth behind it.
ESTIMATE = Joint.from_counts([[7, 10], [26, 57]])
TRUTH = Joint.from_probabilities([[0.1, 0.1], [0.2, 0.6]])
BALL = ChiSquareBall(ESTIMATE, confidence=0.95)
LOG2 = math.log(2)

# Section 8: panels (a)–(d), |S| × |U|.
CENSUS = (("sex", "race"), ("race", "sex"), ("occupation", "education"), ("native-country", "relationship"))
Shape = tuple[int, int]
SHAPES = ((2, 5), (5, 2), (15, 16), (42, 6))
ROWS_DRAWN = 32_561
SMALL_CELLS = 10  # cells of the shapes for which the paper could run PolyOpt and NR

CLOSED = ("srr", "ir", "ir (tight)", "grr")
SEARCHED = ("polyopt", "ballopt", "nr")
METHODS = CLOSED + SEARCHED
ROBUST = ("srr", "ir", "ir (tight)", "polyopt", "ballopt")  # promise ε for every P in F
_OPTIONS: dict[str, tuple[str, Options]] = {
    "ir": ("ir", {"rule": "paper"}), "ir (tight)": ("ir", {"rule": "tight"}),
    "grr": ("grr", {"notion": "ldp"}),  # the paper's GRR is LDP about the whole record
}


def made(name: str, ball: ChiSquareBall, epsilon: float, seconds: float | None = None) -> Design:
    """The sealed and certified design of a method; `seconds` limits those that search."""
    method, options = _OPTIONS.get(name, (name, {}))
    limit: Options = {"time_limit": seconds} if seconds is not None and name in SEARCHED else {}
    return design(ball, epsilon, method, **options, **limit)


def kept(name: str, ball: ChiSquareBall, epsilon: float, seconds: float | None = None) -> tuple[float, float]:
    """NMI at P̂ and the method's bound in the same unit. Closed forms as they are, searched ones sealed."""
    entropy = ball.joint.entropy
    if name in CLOSED:
        task = Task(ball, epsilon, "ldp" if name == "grr" else "rldp")
        method, options = _OPTIONS.get(name, (name, {}))
        draft = ir(task, **options) if method == "ir" else grr(task) if method == "grr" else srr(task)
        value = draft.value(task)
        return value / entropy, (value if draft.bound is None else draft.bound) / entropy
    found = made(name, ball, epsilon, seconds)
    return found.value / entropy, found.bound / entropy


@dataclass(frozen=True, slots=True, eq=False)
class Draw:
    """A truth P* from the Jeffreys prior and the ball around the estimate from 32,561 rows of it."""
    truth: Joint
    ball: ChiSquareBall

    @property
    def covered(self) -> bool:
        """P* ∈ F."""
        off = (self.ball.joint.p - self.truth.p) ** 2 / self.truth.p
        return float(off.sum()) <= self.ball.radius

    def at(self, beta: float) -> ChiSquareBall:
        """The ball of the same estimate at another significance."""
        return ChiSquareBall(self.ball.joint, confidence=1 - beta)


def draw(shape: tuple[int, int], index: int, beta: float = 0.05) -> Draw:
    """The index-th draw of a shape, the same in every figure [000, §8.2]."""
    rng = np.random.default_rng([8, *shape, index])
    p = rng.dirichlet(np.full(shape[0] * shape[1], 0.5))
    p = np.maximum(p, LEAST)
    joint = Joint.from_counts(rng.multinomial(ROWS_DRAWN, p / p.sum()).reshape(shape))
    return Draw(Joint.from_probabilities((p / p.sum()).reshape(shape)), ChiSquareBall(joint, confidence=1 - beta))


def titled(shape: tuple[int, int]) -> str:
    return f"|S| = {shape[0]}, |U| = {shape[1]}"


def small(shape: tuple[int, int]) -> bool:
    return shape[0] * shape[1] <= SMALL_CELLS


def _beside(path: Path, found: Mapping[str, float], **others: Mapping[str, float]) -> None:
    """What was found beside what is printed of it, and other columns."""
    rows = [(k, x, *(other.get(k) for other in others.values())) for k, x in found.items()]
    write_csv(path, ("name", "found", *others), rows)


def ex1(out: Path, *, full: bool) -> str:
    """000 Example 1: the radius of the ball, and the truth inside it."""
    printed = papers()["000-ex1"].printed
    found = {
        "B": math.log1p(BALL.radius), "D2(estimate, truth)": math.log(float((ESTIMATE.p**2 / TRUTH.p).sum())),
        "B with the quantile as printed": math.log1p(float(chdtri(3, 0.95)) / 100),
    }
    _beside(out / "000-ex1.csv", found, printed=printed)
    claims = {"the printed numbers": not apart(found, printed), "P* in F": found["D2(estimate, truth)"] < found["B"]}
    return verdict(
        "000-ex1", claims,
        f"B = {found['B']:.6f}, D₂(P̂‖P*) = {found['D2(estimate, truth)']:.4f} (printed 0.0752 and 0.0281). Erratum: "
        f"(9) and (13) print F⁻¹(0.05), which would give B = {found['B with the quantile as printed']:.4f}; 0.0752 is "
        "F⁻¹(0.95)",
    )


def ex2(out: Path, *, full: bool) -> str:
    """000 Example 2: conditional projections of the ball."""
    paper, q = papers()["000-ex2"], ESTIMATE.useful_given_secret
    low, high = BALL.spikes()
    values = [*np.log(BALL.spread()), *low.ravel(), *(2 * np.maximum(q - low, high - q).max(1))]
    found = {name: float(x) for name, x in zip(paper.printed, values, strict=True)}
    _beside(out / "000-ex2.csv", found, corrected=paper.corrected, printed=paper.printed)
    off = apart(found, paper.printed)
    return verdict(
        "000-ex2", {"the corrected numbers": not apart(found, paper.corrected, 6)},
        f"By (23) B_s = {found['B_s1']:.6f}, {found['B_s2']:.6f}, the least L = {found['L_u1|s1']:.6f}, rad = "
        f"{found['rad_s1']:.6f}, {found['rad_s2']:.6f}. Erratum (unsafe): {len(off)} of {len(paper.printed)} printed "
        "numbers differ (0.3782, 0.0900; 0.6107, 0.3061), and the printed lower bounds of s1 cut points of the ball "
        "off; Examples 3 and 5 use the right ones", corrected=True,
    )


def _of_polyopt(first: Design) -> dict[str, float]:
    second = design(BALL, LOG2, "polyopt", same_secret=False)
    ballopt, nr = (design(BALL, LOG2, method) for method in ("ballopt", "nr"))
    return {
        "I at the estimate": first.value, "I at the truth": mutual_information(first.mechanism, TRUTH),
        "realised level": LDP(TRUTH).level(first.mechanism), "level over F": RLDP(BALL).level(first.mechanism),
        "without s1 = s2": second.value, "its level over F": RLDP(BALL).level(second.mechanism),
        "ballopt": ballopt.value, "nr": nr.value, "ceiling": first.ceiling,
    }


def matrix_differs(design: Design) -> float:
    """The greatest difference between (49) and the rows of the design, matched by their first entries."""
    q = design.mechanism.matrix
    if q is None or q.shape != (4, 4):
        return 1.0
    mine, theirs = (sorted(tuple(float(x) for x in row) for row in m) for m in (q, papers()["000-ex3"].matrix))
    return max(abs(x - y) for a, b in zip(mine, theirs, strict=True) for x, y in zip(a, b, strict=True))


def ex3(out: Path, *, full: bool) -> str:
    """000 Example 3: PolyOpt, with and without the inequalities that compare a secret with itself."""
    polyopt, paper = design(BALL, LOG2, "polyopt"), papers()["000-ex3"]
    found = _of_polyopt(polyopt)
    _beside(out / "000-ex3.csv", found, expected=paper.corrected, printed=paper.printed)
    close = all(abs(found[k] - x) <= 2e-5 for k, x in paper.corrected.items())
    claims = {
        "the printed numbers": not apart(found, paper.printed) and close,
        "the matrix (49)": matrix_differs(polyopt) < 2e-4,
    }
    ours = {"ballopt keeps at least as much": found["ballopt"] >= found["I at the estimate"]}
    return verdict(
        "000-ex3", claims,
        f"polyopt I_P̂ = {found['I at the estimate']:.6f} and its matrix as printed; level over F "
        f"{found['level over F']:.4f} although log 2 was allowed; without s1 = s2 (not needed for privacy) "
        f"{found['without s1 = s2']:.6f} at level {found['its level over F']:.4f}; ballopt {found['ballopt']:.6f}, nr "
        f"{found['nr']:.6f}. Erratum: I_P* is {found['I at the truth']:.6f}; the printed .2804 is the realised ε* = "
        f"{found['realised level']:.4f}", ours=ours,
    )


def ex4(out: Path, *, full: bool) -> str:
    """000 Example 4: GRR and SRR."""
    printed = papers()["000-ex4"].printed
    found: dict[str, float] = {}
    for name in ("grr", "srr"):
        sealed = made(name, BALL, LOG2)
        found[f"{name} at the estimate"] = sealed.value
        found[f"{name} at the truth"] = mutual_information(sealed.mechanism, TRUTH)
    found["srr, fitted to F"] = design(BALL, LOG2, "srr", fit=True).value
    _beside(out / "000-ex4.csv", found, printed=printed)
    return verdict(
        "000-ex4", {"the printed numbers": not apart(found, printed)},
        "I_P̂ and I_P*: grr {:.4f}, {:.4f}; srr {:.4f}, {:.4f} (printed .0419, .0412; .1005, .0942); srr fitted to this "
        "ball keeps {:.4f}".format(*found.values()),
    )


def ex5(out: Path, *, full: bool) -> str:
    """000 Example 5: independent reporting, by the paper's rule and by the tight one."""
    paper, tight, printed = made("ir", BALL, LOG2), made("ir (tight)", BALL, LOG2), papers()["000-ex5"].printed
    matrix = paper.mechanism.matrix
    assert matrix is not None
    found = {
        "d": total_variation(Task(BALL, LOG2)), "I at the estimate": paper.value,
        "I at the truth": mutual_information(paper.mechanism, TRUTH), "split": float(paper.details["split"]),
        "Q(1|1)": float(matrix[0, 0]), "tight rule": tight.value, "level of the printed rule": paper.certificate.level,
        "level of the tight rule": tight.certificate.level,
    }
    _beside(out / "000-ex5.csv", found, printed=printed)
    return verdict(
        "000-ex5", {"the printed numbers": not apart(found, printed)},
        f"d = {found['d']:.4f}, ε₂ = log 2, I_P̂ = {found['I at the estimate']:.4f}, I_P* = "
        f"{found['I at the truth']:.4f} as printed (d follows from the corrected radii; the printed .6107 would give "
        f"1.4184). Erratum: Theorem 5 prints ε₂ − 1 for e^(ε₂) − 1. The tight rule keeps {found['tight rule']:.4f} at "
        f"level {found['level of the tight rule']:.4f}; the printed rule stops at "
        f"{found['level of the printed rule']:.4f}",
    )


BETAS = (0.1, 0.01, 0.001)
NAMES = ("srr", "polyopt", "ir", "ir (tight)", "ballopt")
# Printed means that the method described does not have [errata]: IR, and SRR at 42 × 6, which is .0045 and not .005.
ERRATA = {((2, 5), "ir"), ((5, 2), "ir"), ((15, 16), "ir"), ((42, 6), "srr")}
SIGMAS = 3.0  # both means are of finitely many draws
AS_PRINTED = 0.0005  # what printing three digits hides
TABLE_HEAD = ("secrets", "useful", "method", "beta", "nmi", "standard error", "draws", "printed", "agrees")
TableRow = tuple[int, int, str, float, float, float, int, float, bool]
Means = Mapping[tuple[Shape, str, float], float]  # by shape, method and β


def tab2(out: Path, *, full: bool, draws: int | None = None, shapes: tuple[Shape, ...] = SHAPES) -> str:
    """000 Table 2: mean NMI for three significance levels β at ε = 1.5, with polyopt and ballopt at every size."""
    paper = papers()["000-tab2"]
    many, few = draws or paper.run(full).count, paper.run(full, large=True).count
    rows = [_beside_printed(*key, x) for key, x in _significances(full, many, few, shapes).items()]
    mean: Means = {(r[:2], r[2], r[3]): r[4] for r in rows}
    panels = curves({(titled(s), m, b): mean[s, m, b] for s, m, b in sorted(mean, key=lambda k: k[2])}, "β", "NMI")
    remark = written(out, "000-tab2", TABLE_HEAD, rows, panels)
    told = [(r[4], r[5], r[7]) for r in rows if r[2] == "polyopt" and r[3] == 0.1 and not math.isnan(r[5] + r[7])]
    off = [(r[:2], r[2]) for r in rows if not r[8] and not math.isnan(r[5] + r[7])]
    claims = {
        "polyopt within its standard error of the print": all(abs(x - y) <= e + AS_PRINTED for x, e, y in told),
        "srr as printed": not any(m == "srr" for s, m in off if (s, m) not in ERRATA),
        "ir as printed or corrected": not any(m == "ir" for s, m in off if (s, m) not in ERRATA),
    }
    ours = {"ballopt at least polyopt": all(mean[s, "ballopt", 0.1] >= mean[s, "polyopt", 0.1] - 1e-6 for s in shapes)}
    return verdict("000-tab2", claims, _told_of_table(mean, told, shapes, many, few), remark, ours=ours)


def _significances(
    full: bool, many: int, few: int, shapes: tuple[Shape, ...]
) -> dict[tuple[Shape, str, float], list[float]]:
    """NMI of every draw by shape, method and β; those that are searched for on large tables are few, unless full."""
    values: dict[tuple[Shape, str, float], list[float]] = {}
    for shape in shapes:
        for name in NAMES:
            searched = name in SEARCHED and not small(shape)
            run = papers()["000-tab2"].run(full, large=searched)
            for i in range(few if searched else many):
                one = draw(shape, i)
                for beta in BETAS[:1] if searched and not full else BETAS:
                    found = kept(name, one.at(beta), run.epsilons[0], run.seconds)[0]
                    values.setdefault((shape, name, beta), []).append(found)
    return values


def _beside_printed(shape: Shape, name: str, beta: float, x: list[float]) -> TableRow:
    """The mean of draws, its standard error and the printed mean, and whether they agree."""
    paper = papers()["000-tab2"]
    average, deviation = float(np.mean(x)), float(np.std(x, ddof=1)) if len(x) > 1 else math.nan
    listed = paper.means[f"{shape[0]} × {shape[1]}"].get(name)
    printed = math.nan if listed is None else listed[BETAS.index(beta)]
    error = deviation * math.sqrt(1 / len(x) + 1 / paper.run(True).count)  # of the difference of two means
    near = abs(average - printed) <= SIGMAS * error + AS_PRINTED
    return *shape, name, beta, average, deviation / math.sqrt(len(x)), len(x), printed, near


def _told_of_table(
    mean: Means, told: list[tuple[float, float, float]], shapes: tuple[Shape, ...], many: int, few: int
) -> str:
    def row(name: str) -> str:
        return ", ".join(f"{mean[s, name, 0.1]:.3f}" for s in shapes)

    beside = ", ".join(f"{x:.4f} ± {e:.4f} (printed {y:.3f})" for x, e, y in told)
    return (
        f"β = 0.1, shapes {', '.join(f'{s[0]} × {s[1]}' for s in shapes)}: srr {row('srr')}; polyopt {row('polyopt')}"
        f"{', with standard errors ' + beside if told else ''}; ballopt {row('ballopt')}; ir {row('ir')}; "
        f"tight ir {row('ir (tight)')} ({many} draws, {few} for searches on the large shapes). Erratum: ir "
        "as described gives .216, .136, .032 at the first three shapes, not the printed .512, .169, .055; srr at "
        "42 × 6 is .0045, printed .005"
    )
