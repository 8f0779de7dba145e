"""Proved levels of layouts over balls: every two atoms of different secrets, at every split of what they share.

Over a cell of splits the greatest mean of an atom lies below a straight line and its least mean above one
(`BallBounds.lines`). The greatest of all lines of a secret is convex, so it lies below the line between its ends, the
least of them above; and a quotient of two lines is greatest at an end. So a cell is proved at both of its ends, what
is lost falls with the square of its length, and cells that say more than what splits inside them attain are cut."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from sfumato.certification.outward import float_range, up
from sfumato.certification.over_sets import ATOMS_AT_ONCE, Range, part
from sfumato.certification.rationals import Attained
from sfumato.tolerances import UNIT
from sfumato.uncertainty.sets import best_pairs

if TYPE_CHECKING:
    from sfumato.alphabet import Bools, Floats, Ints
    from sfumato.certification.ball import BallBounds, Side
    from sfumato.mechanism import Atoms


@dataclass(frozen=True, slots=True)
class Cutting:
    """How splits of a budget are cut into cells, and what is looked at in them."""

    first: int = 16  # cells to begin with
    parts: int = 4  # of a cell that is cut again
    rounds: int = 9  # of cuts at most; about four are needed
    close: float = 1e-6  # above the worst split found, relative: cells and atoms that say no more are left behind
    alike: float = 1e-6  # relative: values of an atom that differ by less are one, the greater or the less of them
    numbers: int = 1 << 18  # of atoms in cells that are looked at together: what a processor keeps at hand


CUTS = Cutting()


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """Which atoms are looked at in which cells, from above or from below."""

    greatest: bool
    atom: Ints
    cell: Ints

    def ends(self, ball: BallBounds, side: Side, low: Floats, high: Floats) -> Floats:
        """Of their lines at the low and the high end of the cell, and what they attain in between."""
        step = max(1, CUTS.numbers // side.p[0].shape[1])
        parts = (slice(i, i + step) for i in range(0, len(self.atom), step))
        found = [
            ball.lines(side.at(self.atom[x]), low[self.cell[x]], high[self.cell[x]], greatest=self.greatest)
            for x in parts
        ]
        return np.concatenate([np.zeros((3, 0)), *found], 1)

    def of_secrets(self, ends: Floats, secret: Ints, secrets: int, cells: int) -> Floats:
        """The greatest or least ends of each secret in each cell, [end, secret, cell]."""
        out, at = np.full((3, secrets * cells), 0.0 if self.greatest else np.inf), secret[self.atom] * cells + self.cell
        for mine, theirs in zip(out, ends, strict=True):
            (np.maximum if self.greatest else np.minimum).at(mine, at, theirs)
        return out.reshape(3, secrets, cells)

    def cut(self, keep: Bools, cells: Bools) -> Pool:
        """The atoms that are kept, in each part of the cells that are cut."""
        first = CUTS.parts * (np.cumsum(cells) - 1)[self.cell[keep]]
        return Pool(self.greatest, np.repeat(self.atom[keep], CUTS.parts),
                    (first[:, None] + np.arange(CUTS.parts)).ravel())


def worst_atoms(ball: BallBounds, c: Atoms, found: float) -> Attained:
    """A bound of the worst ratio between two atoms of different secrets; close to it if it exceeds `found`."""
    side, edges = few_valued(ball, c), np.linspace(0, np.pi / 2, CUTS.first + 1)
    begin, end, worst = edges[:-1], edges[1:], Attained(found, {})
    every = (x.ravel() for x in np.indices((len(c.secret), CUTS.first)))
    above = Pool(True, *every)
    below = Pool(False, above.atom, above.cell)
    for _ in range(CUTS.rounds):
        low, high = (np.where(x < np.pi / 2, np.sin(x) ** 2, 1.0) * ball.spent[1] for x in (begin, end))
        tall, deep = (x.ends(ball, side, low, high) for x in (above, below))
        top, least = (x.of_secrets(y, c.secret, ball.shape[0], len(low)) for x, y in ((above, tall), (below, deep)))
        ratios = up(np.stack([best_pairs(x, y) for x, y in zip(top, least, strict=True)]))
        seen, bounds = int(np.argmax(ratios[2])), ratios[:2].max(0)
        where = {"first": int(np.argmax(top[2, :, seen])), "second": int(np.argmin(least[2, :, seen]))}
        worst = worst.or_worse(Attained(float(ratios[2, seen]) * (1 + CUTS.close), where))
        ratio = float(worst.ratio)
        if not (cells := bounds > ratio).any():
            break
        # An atom matters where its line is too far from that of any other at an end.
        most, fewest = top[:2].max(1)[:, below.cell], least[:2].min(1)[:, above.cell]
        above = above.cut(cells[above.cell] & (tall[:2] > ratio * fewest).any(0), cells)
        below = below.cut(cells[below.cell] & (most > ratio * deep[:2]).any(0), cells)
        edges = np.linspace(begin[cells], end[cells], CUTS.parts + 1, axis=1)
        begin, end = edges[:, :-1].ravel(), edges[:, 1:].ravel()
    return Attained(float(up(max(ratio, bounds.max()))), worst.where)


def few_valued(ball: BallBounds, c: Atoms) -> Side:
    """The atoms with values that are alike taken for one, as those of two levels are but for rounding."""
    parts = np.array_split(np.arange(len(c.secret)), len(c.secret) // ATOMS_AT_ONCE + 1)
    found = [_merged(ball.side(c.secret[i], float_range(c.heights[i]))) for i in parts]
    wide = max(x.p[0].shape[1] for x in found)

    def joined(pick: Callable[[Side], Range], mode: Literal["constant", "edge"]) -> Range:
        both = zip(*map(pick, found), strict=True)
        low, high = (np.concatenate([np.pad(x, ((0, 0), (0, wide - x.shape[1])), mode) for x in xs]) for xs in both)
        return low, high

    return replace(found[0], p=joined(lambda x: x.p, "constant"), v=joined(lambda x: x.v, "edge"),
                   ps=part(ball.ps, c.secret))


def _merged(side: Side) -> Side:
    """Values in groups: the mass of each, and its least and greatest value; groups that a row lacks repeat its last."""
    order = np.argsort(side.v[1], axis=1)
    p, v = ([np.take_along_axis(x, order, 1) for x in xs] for xs in (side.p, side.v))
    apart = v[1][:, 1:] > v[1][:, :-1] * (1 + CUTS.alike)
    group = np.pad(np.cumsum(apart, 1), ((0, 0), (1, 0)))
    rows, count, slip = len(group), int(group.max(initial=0)) + 1, (group.shape[1] + 2) * UNIT
    at = (np.arange(rows)[:, None] * count + group).ravel()
    low, high = (np.bincount(at, x.ravel(), rows * count).reshape(rows, count) for x in p)
    first, last = (np.tile(x.max(1, keepdims=True), count) for x in v)
    np.minimum.at(first.ravel(), at, v[0].ravel())
    last.ravel()[at] = v[1].ravel()  # in order: the greatest of a group is its last
    return replace(side, p=(low * (1 - slip), high * (1 + slip)), v=(first, last))
