"""Trees: bundles that are private if the columns form a stated tree below the secret; a star is the flattest one.

The tree is the one that follows the rows best; how far the rows are from it is told, and never used as proof.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sfumato.alphabet import Alphabet, Floats
from sfumato.certification.outward import log_up
from sfumato.certification.rationals import about_input
from sfumato.certification.together import bundle_certificate, level_below
from sfumato.composing.answers import SECRET, Answer, best_answer
from sfumato.composing.plans import Columns
from sfumato.composing.sharing import Spec, TurnLayout, error_together, shares_of_epsilon
from sfumato.composing.tailored import STRONGEST, balls_around, unsealed
from sfumato.decimals import at_most
from sfumato.joint import Joint, entropy
from sfumato.libraries import scipy
from sfumato.mechanism import Bundle, Claim, Mechanism, Promise
from sfumato.tolerances import ALIKE
from sfumato.uncertainty import Anything, UncertaintySet

ROOM_FOR_SEALING = 2.0**-28  # the margin that rounding needs where no claim has to be met by a part of its own


def tree_bundle(
    columns: Columns, layout: TurnLayout, epsilon: float, model: str, confidence: float, origin: str
) -> tuple[Bundle, tuple[int, ...], list[Answer], float]:
    """The bundle, the parent of each column, the answers of the parts and the error expected of all tables.

    ε is divided by usefulness among levels about the parts' own columns, of which the edges let only a part through to
    the secret; the levels are then scaled up until the promise, proved from the integers, is used up.
    """
    parents = (SECRET,) * len(columns.useful) if model == "star" else best_tree(columns)
    specs, sets = _nodes(columns, parents, layout.with_secret, model, confidence)

    def answers_at(levels: Floats, scale: float) -> list[Answer]:
        return [_answer(layout, spec, scale * float(e)) for spec, e in zip(specs, levels, strict=True)]

    def made(levels: Floats, scale: float) -> Bundle:
        parts = [tree_part(answer, within) for answer, within in zip(answers_at(levels, scale), sets, strict=True)]
        return Bundle(tuple(parts), columns.secret, None, Promise(epsilon, model), origin)

    levels, _ = shares_of_epsilon(specs, layout, max(epsilon, ALIKE))
    for _ in range(3 if epsilon > 0 else 0):  # ε is divided anew, with what each edge was found to let through
        costs = _costs(made(levels, 1.0), (*parents, *([SECRET] if layout.with_secret else [])))
        levels = np.minimum(shares_of_epsilon(specs, layout, epsilon, costs)[0], STRONGEST)
    best, scale = greatest_scale(lambda scale: made(levels, scale), epsilon)
    answers = answers_at(levels, scale)
    return best, parents, answers, error_together(specs, answers, layout)


def _nodes(
    columns: Columns, parents: Sequence[int], with_secret: bool, model: str, confidence: float
) -> tuple[list[Spec], list[UncertaintySet]]:
    """A part for each column, and the set of its table with its parent; the secret by itself if it is wanted.

    A tree is chosen by all pairs of nodes on the same rows: whichever it is, its edges are among them.
    """
    count = len(parents)
    joints = columns.tables([
        (alphabet_of(columns, parent), Alphabet.of(columns.useful[c])) for c, parent in enumerate(parents)
    ])
    balls = balls_around(joints, confidence, count if model == "star" else count * (count + 1) // 2)
    specs = [Spec((c,)) for c in range(count)]
    if not with_secret:
        return specs, [*balls]
    return [*specs, Spec((), True)], [*balls, Anything(Joint.uniform(columns.secret, Alphabet(())))]


def _answer(layout: TurnLayout, spec: Spec, level: float) -> Answer:
    level = math.floor(min(level, STRONGEST) * 1e9) / 1e9
    if spec.reads_secret:
        return Answer(layout.secret, 1, level)
    return best_answer(1, layout.sizes[spec.columns[0]], level)


def _costs(bundle: Bundle, parents: Sequence[int]) -> Floats:
    """The share of each part's level that reaches the secret: the product of what the edges above let through."""
    through = []
    for i, part in enumerate(bundle.parts):
        own = log_up(about_input(part).ratio)
        below = [level_below(bundle, c) for c, parent in enumerate(parents) if parent == i]
        whole = own + sum(below)
        through.append(level_below(bundle, i) / whole if whole > 0 else 1.0)

    def up(v: int) -> float:
        return 1.0 if v < 0 else through[v] * up(parents[v])

    return np.array([up(v) for v in range(len(bundle.parts))])


def tree_part(answer: Answer, within: UncertaintySet) -> Mechanism:
    """A part of a tree: sealed, with a claim that names the set of its table with its parent and holds in any."""
    made = unsealed(answer, Claim("rldp", answer.epsilon, within), answer.law().rounded(None, ROOM_FOR_SEALING))
    return replace(made, claim=Claim("rldp", log_up(about_input(made).ratio), within))


def greatest_scale(made: Callable[[float], Bundle], epsilon: float) -> tuple[Bundle, float]:
    """The bundle with the greatest scale of its levels whose promise is proved; `made(1)` need not hold."""
    low, high, best = 0.0, 1.0, made(0.0)
    while high < 64 and bundle_certificate(trial := made(high)).level <= epsilon:
        low, best, high = high, trial, 2 * high
    while high - low >= 1e-4 * high and high > ALIKE:
        trial = made(middle := (low + high) / 2)
        if bundle_certificate(trial).level <= epsilon:
            low, best = middle, trial
        else:
            high = middle
    return best, low


# --- the tree that follows the rows, and how far they are from it -----------------------------------------------------


@dataclass(frozen=True, slots=True)
class Departure:
    """An independence that the model asserts, and what the rows say: I(first; second | given) in nats, p of its
    test."""

    first: str
    second: str
    given: str
    information: float
    p_value: float


@dataclass(frozen=True, slots=True)
class ModelFit:
    """How well a model fits the rows it was designed from.

    Each asserted independence is tested by G = 2n·I(first; second | given), about χ² with
    |given|(|first| − 1)(|second| − 1) degrees of freedom if it holds. A small p says that the model is wrong; a large
    one does not say that it is right.
    """

    model: str
    departures: tuple[Departure, ...]
    rows: int

    @property
    def worst(self) -> Departure | None:
        """The departure with the most information."""
        return max(self.departures, key=lambda d: d.information, default=None)

    @property
    def p_value(self) -> float:
        """Of the model as a whole: the least p times the number of tests (Bonferroni)."""
        return min(1.0, len(self.departures) * min((d.p_value for d in self.departures), default=1.0))

    @property
    def sentence(self) -> str:
        worst = self.worst
        if worst is None:
            return f"The {self.model} model asserts nothing that these columns could contradict."
        verdict = "contradict" if self.p_value < 0.05 else "do not contradict"
        return (
            f"The rows {verdict} the {self.model} model (p = {self.p_value:.3g} over {len(self.departures)} tests); it "
            f"neglects at most {at_most(worst.information, 3)} nats, between {worst.first} and {worst.second} given "
            f"{worst.given}. This is a diagnosis and no proof: where the model fails, the promise is only that for any "
            "distribution."
        )


def mutual(table: Floats) -> float:
    """I(A; B) of a table."""
    p = table / table.sum()
    return max(0.0, entropy(p.sum(1)) + entropy(p.sum(0)) - entropy(p))


def conditional(table: Floats) -> float:
    """I(A; B | C) of a table [c, a, b]."""
    n = table.sum()
    return float(sum(part.sum() / n * mutual(part) for part in table if part.sum()))


def alphabet_of(columns: Columns, node: int) -> Alphabet:
    return columns.secret if node == SECRET else Alphabet.of(columns.useful[node])


def best_tree(columns: Columns) -> tuple[int, ...]:
    """The parent of each column in the tree with the greatest total mutual information, rooted at the secret.

    The tree that is likeliest among all [Chow, Liu 1968], grown from the secret by Prim's rule.
    """
    nodes = [SECRET, *range(len(columns.useful))]
    pairs = [(a, b) for i, a in enumerate(nodes) for b in nodes[i + 1:]]
    tables = columns.tables([(alphabet_of(columns, a), alphabet_of(columns, b)) for a, b in pairs])
    told = {pair: mutual(joint.p) for pair, joint in zip(pairs, tables, strict=True)}
    parents = {SECRET: SECRET}
    while len(parents) < len(nodes):
        edges = [(told[min(a, b), max(a, b)], a, b) for a in set(parents) for b in nodes if b not in parents]
        _, parent, child = max(edges, key=lambda e: e[0])
        parents[child] = parent
    return tuple(parents[c] for c in range(len(columns.useful)))


def asserted(parents: Sequence[int]) -> list[tuple[int, int, int]]:
    """(v, w, parent of v) for every w that is neither below v nor its parent: in a tree they are independent given
    it."""
    def above(v: int) -> list[int]:
        return [] if v == SECRET else [parents[v], *above(parents[v])]

    out, seen = [], set()
    for v in range(len(parents)):
        for w in (SECRET, *range(len(parents))):
            key = (frozenset((v, w)), parents[v])
            if w not in (v, parents[v]) and v not in above(w) and key not in seen:
                seen.add(key)
                out.append((v, w, parents[v]))
    return out


def fit_of(columns: Columns, parents: Sequence[int], model: str) -> ModelFit:
    """Every independence that a tree (a star is one) asserts, tested on the rows."""
    sides = [[alphabet_of(columns, x) for x in test] for test in asserted(parents)]
    joints = columns.tables([(c, Alphabet((*a.columns, *b.columns))) for a, b, c in sides]) if sides else []
    out = []
    for (a, b, c), joint in zip(sides, joints, strict=True):
        assert joint.counts is not None
        table = joint.counts.reshape(c.size, a.size, b.size).astype(float)
        lost, seen = conditional(table), int((table.sum((1, 2)) > 0).sum())
        df = seen * (a.size - 1) * (b.size - 1)
        p = float(scipy.special.chdtrc(df, 2 * columns.rows * lost)) if df else 1.0
        out.append(Departure("+".join(a.names), "+".join(b.names), "+".join(c.names), lost, p))
    return ModelFit(model, tuple(out), columns.rows)
