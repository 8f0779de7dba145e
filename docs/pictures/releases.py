"""Pictures that are computed: designs, releases and estimates of the census table, drawn as they came out."""

from __future__ import annotations

import math

import numpy as np

import sfumato as sf
from beliefs import up
from sfumato.reporting.comparison_page import Axes, ChartLine, chart
from sheet import Sheet

EPSILON, TRUTHS = 0.5, 200


def _census() -> tuple[sf.Joint, sf.ChiSquareBall]:
    joint = sf.datasets.adult("sex", "race")
    return joint, sf.ChiSquareBall(joint, confidence=0.95)


def _whiskers(sheet: Sheet, x: float, y: float, wide: float, row: float, least: float = 0.004) -> str:
    """Shares of race from released rows: an interval, the estimate and the true share, on a scale of ratios."""
    joint, ball = _census()
    mechanism = sf.design(ball, 1.0, "ballopt").mechanism
    found = sf.estimate(sf.release(sf.datasets.rows(joint), mechanism, seed=1), mechanism).useful
    low, high = found.interval(0.95)

    def at(share: float) -> float:
        return x + wide * math.log(max(share, least) / least) / math.log(1 / least)

    for mark in (0.01, 0.1, 1.0):
        sheet.line((at(mark), y - 16), (at(mark), y + row * (len(low) - 1) + 14))
        sheet.text(at(mark), y + row * (len(low) - 1) + 32, f"{100 * mark:g} %", kind="soft", size=12, at="middle")
    for i, label in enumerate(joint.useful.labels):
        here = y + i * row
        sheet.text(x - 12, here + 4, str(label), at="end")
        sheet.line((at(low[i]), here), (at(high[i]), here), kind="blue", thick=3)
        sheet.dot(at(found.p[i]), here, 5)
        sheet.line((at(joint.p_useful[i]), here - 9), (at(joint.p_useful[i]), here + 9), kind="orange", thick=2.5)
    inside = bool(((low <= joint.p_useful) & (joint.p_useful <= high)).all())
    return f"{'every' if inside else 'not every'} true share lies in its interval"


def home() -> str:
    """What a release does: a guess at sex gains little, shares of race are known."""
    joint, ball = _census()
    mechanism = sf.design(ball, 1.0, "ballopt").mechanism
    q = np.asarray(mechanism.matrix).reshape(-1, *joint.shape)
    before = float(joint.p_secret.max())
    after = max(before, float(np.einsum("ysu,su->ys", q, joint.p).max(axis=1).sum()))
    limit = max(before, math.e / (1 + math.e))
    sheet = Sheet(
        860,
        320,
        "What a release tells, and what it does not",
        f"A guess at sex is right {100 * before:.0f} times in 100 before the release, {100 * after:.1f} times "
        f"after it, and at most {100 * limit:.1f} times by the promise of ε = 1. Shares of race are "
        "estimated from the released rows.",
    )
    sheet.text(24, 34, "The secret stays a guess", size=16, bold=True)
    sheet.text(24, 56, "sex, guessed by somebody who knows statistics", kind="soft")
    for x, words, full in ((40, "before", round(100 * before)), (220, "after, at most", up(limit))):
        sheet.hundred(x, 96, full, round(100 * before))
        sheet.text(x - 6, 254, words)
        sheet.text(
            x + 132, 254, f"{full}", size=18, bold=True, at="end", kind="blue" if words == "before" else "orange"
        )
    sheet.text(24, 296, "promised: ε = 1, proved from integers", kind="soft", size=12)
    sheet.text(430, 34, "The rest can be used", size=16, bold=True)
    sheet.text(430, 56, "shares of race, estimated from released rows alone", kind="soft")
    told = _whiskers(sheet, 580, 96, 250, 34)
    sheet.text(430, 296, "dot: estimate, bar: 95 % for all at once, stroke: the truth", kind="soft", size=12)
    sheet.told += f" {told.capitalize()}."
    return sheet.document()


def tutorial() -> str:
    """What the analyst of the tutorial sees, beside what is true."""
    sheet = Sheet(860, 270, "Shares of race from 32,561 released rows, beside the truth", "")
    sheet.text(24, 34, "Shares of race, from the released rows alone", size=16, bold=True)
    sheet.text(
        24,
        56,
        "dot: estimate · bar: interval, 95 % for all five at once · stroke: the true share, which nobody was told",
        kind="soft",
    )
    told = _whiskers(sheet, 200, 94, 620, 32)
    sheet.told = f"{told.capitalize()}. The scale is logarithmic."
    return sheet.document()


def robust() -> str:
    """The level that a robust and a naive design reach when the truth is not the estimate."""
    joint, ball = _census()
    rng = np.random.default_rng(1)
    others = [
        sf.Joint.from_counts(rng.multinomial(joint.n, joint.p.ravel()).reshape(joint.shape)) for _ in range(TRUTHS)
    ]
    made = {
        "robust": sf.design(ball, EPSILON, "ballopt").mechanism,
        "naive": sf.design(sf.Exactly(joint), EPSILON, "nr").mechanism,
    }
    levels = {name: [sf.level(m, sf.RLDP(sf.Exactly(o))) for o in others] for name, m in made.items()}
    broken = {name: sum(x > EPSILON for x in found) for name, found in levels.items()}
    sheet = Sheet(
        860,
        320,
        "Robust designs keep their promise where the truth is not the estimate",
        f"Of {TRUTHS} truths around the estimate the robust design exceeds ε = {EPSILON:g} at {broken['robust']}, "
        f"the naive one at {broken['naive']}.",
    )
    low, high = 0.98 * min(map(min, levels.values())), 1.02 * max(map(max, levels.values()))
    bins = np.linspace(low, high, 49)
    counts = {name: np.histogram(found, bins)[0] for name, found in levels.items()}
    top = max(c.max() for c in counts.values())

    def at(v: float) -> float:
        return 40 + 780 * (v - low) / (high - low)

    sheet.text(24, 34, "The level really reached, when the truth is drawn anew 200 times", size=16, bold=True)
    for name, kind in (("robust", "blue"), ("naive", "orange")):
        for i, count in enumerate(counts[name]):
            tall = 170 * count / top
            if count:
                sheet.box(at(bins[i]), 250 - tall, at(bins[i + 1]) - at(bins[i]) - 1, tall, kind=kind, round=1)
    sheet.line((30, 250), (830, 250), kind="soft")
    sheet.line((at(EPSILON), 60), (at(EPSILON), 256), kind="ink", thick=1.6, dashes="6 4")
    sheet.text(at(EPSILON) + 8, 72, f"promised: ε = {EPSILON:g}")
    step = 0.02 if high - low < 0.25 else 0.1
    for mark in np.arange(math.ceil(low / step), high / step):
        sheet.text(at(mark * step), 270, f"{mark * step:.2f}", at="middle", kind="soft", size=12)
    sheet.text(40, 300, f"robust: above ε {broken['robust']} times of {TRUTHS}", kind="blue", bold=True)
    sheet.text(
        820,
        300,
        f"optimal at the estimate alone: above ε {broken['naive']} times of {TRUTHS}",
        kind="orange",
        bold=True,
        at="end",
    )
    return sheet.document()


def funnel() -> str:
    """What can be kept of relationship while marital status is protected, under each promise."""
    joint = sf.datasets.adult("marital-status", "relationship")
    at = (0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0)
    lines = [
        ChartLine(
            label,
            tuple(
                (e, sf.design(sf.Exactly(joint), e, name, **options).information.useful / joint.entropy_useful)
                for e in at
            ),
        )
        for label, name, options in (
            ("pml", "pml", {"reads": "useful"}),
            ("lip", "lip", {}),
            ("ldp", "ldp", {}),
            ("grr", "grr", {"notion": "lip", "reads": "useful"}),
        )
    ]
    axes = Axes(
        "What the funnel lets through",
        "ε about marital status, in nats",
        "kept of relationship, the rest is noise",
        percent=True,
    )
    return chart(
        axes,
        lines,
        "The weaker the promise, the more is kept: PML above LIP above LDP; GRR, which knows nothing of the "
        "distribution, below.",
    )


def distortion() -> str:
    """Where an age band goes: the mechanism at two levels, a circle's area being a probability."""
    values = list(range(8))
    share = np.exp(-0.5 * ((np.arange(8) - 3.2) / 1.8) ** 2)
    table = np.array(
        [share * (1 + 0.5 * np.tanh((np.arange(8) - 3.5) / 2)), share * (1 - 0.5 * np.tanh((np.arange(8) - 3.5) / 2))]
    )
    joint = sf.Joint.from_counts(np.round(4000 * table / table.sum()).astype(int))
    ball = sf.ChiSquareBall(joint, confidence=0.95)
    sheet = Sheet(
        860, 420, "Answers stay near the truth", "Bubbles lie near the diagonal; at the smaller level they spread."
    )
    sheet.text(24, 34, "An answer stays near the true value: eight bands, squared distance", size=16, bold=True)
    for k, e in enumerate((0.1, 0.5)):
        made = sf.design(ball, e, "distortion", values=values)
        q = np.asarray(made.mechanism.matrix).reshape(-1, *joint.shape)
        points = [int(x) for x in made.mechanism.symbols.labels]
        mean = np.einsum("ysu,su->yu", q, joint.p / joint.p_useful)
        left = 86 + 420 * k
        sheet.text(left, 66, f"ε = {e:g}: mean squared distance {made.value:.2f}")
        for v in values:
            sheet.text(left - 36, 366 - 38 * v, f"{v}", kind="soft", size=12)
            sheet.text(left + 38 * v, 392, f"{v}", kind="soft", size=12, at="middle")
            for y, point in enumerate(points):
                if mean[y, v] > 0.003:
                    sheet.dot(
                        left + 38 * v,
                        362 - 38 * point,
                        17 * math.sqrt(mean[y, v]),
                        kind="blue" if point == v else "orange",
                    )
        sheet.text(left + 133, 411, "true band", kind="soft", size=12, at="middle")
    sheet.text(24, 82, "released", kind="soft", size=12)
    return sheet.document()


def leakage() -> str:
    """One mechanism, three roads through the plane of orders."""
    q = sf.design(_census()[1], 1.0, "srr").mechanism.matrix
    orders = (1.05, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0)
    roads = {
        "α = ∞": lambda t: (math.inf, t),
        "α = β: Rényi LDP": lambda t: (t, t),
        "β = 1: α-leakage": lambda t: (t, 1.0),
    }
    lines = [
        ChartLine(name, tuple((t, sf.Leakage(*road(t)).of(q).value) for t in orders)) for name, road in roads.items()
    ]
    ldp = sf.Leakage(math.inf, math.inf).of(q).value
    lines.append(ChartLine("LDP", tuple((t, ldp) for t in orders), True))
    axes = Axes("Leakage of one mechanism by its orders", "the order that varies", "leakage about the record, nats")
    return chart(
        axes, lines, "The leakages grow with their orders; along α = β and α = ∞ they approach the level of LDP."
    )
