"""Trees: bundles that are private if the columns form a stated tree below the secret; a star is the flattest one."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sfumato.alphabet import Alphabet, Floats
from sfumato.bundles.answers import Answer, best_answer
from sfumato.bundles.calibration import STRONGEST, each_of, greatest_scale, nothing_useful, tree_part
from sfumato.bundles.counting import Columns, uniform
from sfumato.bundles.fitting import alphabet_of, best_tree
from sfumato.bundles.sharing import SECRET, Spec, TurnLayout, error_together, shares_of_epsilon
from sfumato.certification.outward import log_up
from sfumato.certification.rationals import about_input
from sfumato.certification.together import level_below
from sfumato.mechanism import Bundle, Promise
from sfumato.uncertainty import Anything, RenyiBall, UncertaintySet

ROUNDS = 3  # of dividing ε anew, with what each edge was found to let through


def tree_bundle(
    columns: Columns, layout: TurnLayout, epsilon: float, model: str, confidence: float, origin: str
) -> tuple[Bundle, tuple[int, ...], list[Answer], float]:
    """The bundle, the parent of each column, the answers of the parts and the error expected of all tables.

    ε is divided by usefulness among levels about the parts' own columns, of which the edges let only a part through to
    the secret; the levels are then scaled up until the promise, proved from the integers, is used up.
    """
    count = len(columns.useful)
    parents = (SECRET,) * count if model == "star" else best_tree(columns)
    joints = columns.tables([
        (alphabet_of(columns, parent), Alphabet.of(columns.useful[c])) for c, parent in enumerate(parents)
    ])
    # A tree is chosen by all pairs of nodes on the same rows: whichever it is, its edges are among them.
    each = each_of(confidence, count if model == "star" else count * (count + 1) // 2)
    balls: list[UncertaintySet] = [RenyiBall(joint, alpha=1, confidence=each) for joint in joints]
    specs = [Spec((c,)) for c in range(count)]
    if layout.with_secret:
        balls.append(Anything(uniform(columns.secret, nothing_useful())))
        specs.append(Spec((), True))
    promise = Promise(epsilon, model)

    def answers_at(levels: Floats, scale: float) -> list[Answer]:
        return [_answer(layout, spec, scale * float(e)) for spec, e in zip(specs, levels, strict=True)]

    def made(levels: Floats, scale: float) -> Bundle:
        parts = [tree_part(answer, ball) for answer, ball in zip(answers_at(levels, scale), balls, strict=True)]
        return Bundle(tuple(parts), columns.secret, None, promise, origin)

    levels, _ = shares_of_epsilon(specs, layout, max(epsilon, 1e-9))
    hangs = (*parents, *([SECRET] if layout.with_secret else []))
    for _ in range(ROUNDS if epsilon > 0 else 0):
        costs = _costs(made(levels, 1.0), hangs)
        levels, _ = shares_of_epsilon(specs, layout, epsilon, costs)
        levels = np.minimum(levels, STRONGEST)
    best, scale = greatest_scale(lambda scale: made(levels, scale), epsilon)
    answers = answers_at(levels, scale)
    return best, parents, answers, error_together(specs, answers, layout)


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
