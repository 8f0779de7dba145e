"""Levels: designs for one table at every ε of a slider, from noisy counts that are drawn once; and what each shows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sfumato.alphabet import MISSING, Column, Floats
from sfumato.certification import promises
from sfumato.decimals import near, percent
from sfumato.designers.outlook import EVERYTHING, Z95, Foreseen, ForeseenPart, foreseen
from sfumato.designers.sentences import METHODS
from sfumato.errors import InputError, spelled
from sfumato.estimation.estimates import foreseen as inverted
from sfumato.estimation.functionals import summed
from sfumato.estimation.inversion import COVARIANCE_CELLS
from sfumato.estimation.scores import sums
from sfumato.joint import Joint
from sfumato.mechanism import Mechanism
from sfumato.releasing.alphabets import Learnt
from sfumato.releasing.basis import Basis, at_level, basis_of
from sfumato.releasing.listening import Listener
from sfumato.releasing.planning import Counted, designed
from sfumato.releasing.wishes import Wishes, usual_cap
from sfumato.reporting.glance import guessers_of
from sfumato.studio.lights import of_cells, of_kept, of_rows

if TYPE_CHECKING:
    from sfumato.designers.base import Design
    from sfumato.frames import Record
    from sfumato.reporting.figures import Guesser

SHOWN = 12  # values of a column whose intervals are drawn


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """A counted table and the basis of its designs. Everything is small: it goes to the process that searches."""

    joint: Joint
    wishes: Wishes
    told: Learnt  # labels and edges, paid for once with the counts
    drawn: Basis
    keep: tuple[str, ...] = ()  # columns that pass untouched
    guessed: float | None = None  # how often whoever sees these guesses the secret right

    @classmethod
    def of(cls, table: Counted, epsilon: float) -> Levels:
        """Counts are drawn here, once for all levels; from a file beside the table where they were drawn before."""
        assert table.told is not None
        told = _told_at(table.told, epsilon)
        return cls(table.joint, _at(table.wishes, epsilon), told, basis_of(table.joint, told, None))

    @property
    def paid(self) -> float:
        """What labels and edges took: levels below it leave nothing for rows."""
        return 0.0 if self.told.noise is None else self.told.noise.epsilon

    def basis(self, epsilon: float) -> Basis:
        return at_level(self.drawn, self.joint, _told_at(self.told, epsilon))

    def at(self, epsilon: float) -> Wishes:
        return _at(self.wishes, epsilon)

    def design(self, epsilon: float, listener: Listener, *, coarse: bool) -> Design:
        """A sealed and certified design: a first one at once, or the one that `sfumato release` would make."""
        wishes = replace(self.at(epsilon), aim="closed" if coarse else None)
        made: Design = designed(self.basis(epsilon), wishes, listener)
        return made


def _told_at(told: Learnt, epsilon: float) -> Learnt:
    return replace(told, wishes=_at(told.wishes, epsilon))


def _at(wishes: Wishes, epsilon: float) -> Wishes:
    return replace(wishes, epsilon=epsilon, at_most=usual_cap(epsilon))


def shown(levels: Levels, epsilon: float, made: Design, *, coarse: bool) -> Record:
    """Everything that the page says about a design, in words and numbers.

    Attackers and shares are those of the table itself: whoever looks owns it. What estimates are worth is told by what
    the mechanism file tells anybody, as on the command line.
    """
    mechanism, joint = made.mechanism, levels.joint
    assert joint.n is not None
    told, found = foreseen(mechanism, n=joint.n), levels.basis(epsilon)
    view: Record = {
        "epsilon": epsilon, "name": f"{epsilon:g}", "coarse": coarse, "method": METHODS.get(made.method, made.method),
        "guessers": [_guesser(g, joint) for g in guessers_of(mechanism, joint, made.certificate)],
        "worth": {"share": told.share, "text": percent(told.share, 1), "little": told.little,
                  "words": f"{told.n:,} protected rows are worth {told.share * told.n:,.0f} unprotected ones"},
        "columns": list(_columns(mechanism, joint, told)),
        "whole": told.parts[-1].error, "error": _points(told.parts[-1]),
        "helps": [f"{h.what}: errors {h.times:.2g} times as large" for h in told.helps],
        "promises": [f"{p.sentence[0].upper()}{p.sentence[1:]}." for p in promises(mechanism, made.certificate)],
        "notes": [spelled(x, shell=True) for x in (*found.notes, *made.notes)],
    }
    lit = of_rows(view), of_cells(joint, found.source or mechanism.source), of_kept(levels.keep, levels.guessed, view)
    return {**view, "lights": list(lit)}


def _points(part: ForeseenPart) -> float | None:
    return None if part.points >= EVERYTHING else part.points


def _guesser(who: Guesser, joint: Joint) -> Record:
    secret = ", ".join(joint.secret.names)
    if who.after is None:
        after = "and no limit is promised for a single row"
    elif who.after >= 100 > who.before:
        after = "and after it always, for all that is promised"
    else:
        after = f"and at most {who.after} after"
    return {"knows": who.knows, "before": who.before, "after": who.before if who.after is None else who.after,
            "words": f"guesses {secret} right {who.before} times in 100 before the release, {after}"}


def _columns(mechanism: Mechanism, joint: Joint, told: Foreseen) -> Iterator[Record]:
    """Each column with its expected error, and an interval for each of its values."""
    by = {part.name: part for part in told.parts[:-1] or told.parts}
    errors = _errors(mechanism, joint)
    sizes = [c.size for c in (*joint.secret.columns, *joint.useful.columns)]
    whole = joint.p.reshape(sizes)
    for i, column in enumerate((*joint.secret.columns, *joint.useful.columns)):
        part = by.get(column.name) or told.parts[-1]
        p = whole.sum(tuple(j for j in range(len(sizes)) if j != i))
        spread = errors.get(column.name)
        wide = np.full(p.shape, part.points / 100) if spread is None else Z95 * spread
        yield {
            "name": column.name, "error": part.error, "points": _points(part), "secret": i < len(joint.secret.columns),
            "rows": f"worth {part.rows:,.0f} unprotected rows", "values": _values(column, p, wide),
            "more": max(column.size - SHOWN, 0),
        }


def _values(column: Column, p: Floats, wide: Floats) -> list[Record]:
    order = sorted(range(column.size), key=lambda i: -float(p[i]))[:SHOWN]
    return [
        {"label": MISSING if (x := column.labels[i]) is None else x, "share": float(p[i]),
         "low": max(float(p[i] - wide[i]), 0.0), "high": min(float(p[i] + wide[i]), 1.0),
         "words": f"{percent(float(p[i]), 1)} ± {near(100 * float(wide[i]), 2)} points"
         if wide[i] < 1 else f"{percent(float(p[i]), 1)}, cannot be estimated"}
        for i in order
    ]


def _errors(mechanism: Mechanism, joint: Joint) -> dict[str, Floats]:
    """Standard errors of the shares of every value, by column; none where the law is too large to invert."""
    assert joint.n is not None
    if joint.p.size > COVARIANCE_CELLS:
        return {}
    found = inverted(mechanism, joint, joint.n)
    columns = (*(joint.secret.columns if mechanism.reads == "both" else ()), *joint.useful.columns)
    out: dict[str, Floats] = {}
    for column in columns if found is not None else ():
        assert found is not None
        try:
            one = summed(found, sums(columns, [column.name]), (column.size,))
        except InputError:
            continue
        out[column.name] = np.where(one.identified, np.sqrt(np.maximum(one.variance, 0)), math.inf)
    return out
