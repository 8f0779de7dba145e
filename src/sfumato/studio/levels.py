"""Levels: a design for each, all that the page says about it, and lights beside it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from sfumato.alphabet import Column, Floats
from sfumato.certification import promises
from sfumato.decimals import MISSING, capitalised, in_a_hundred, level, near, percent, with_unit
from sfumato.designers.choose import METHODS
from sfumato.designers.worth import EVERYTHING, Z95, Foreseen, ForeseenPart, foreseen
from sfumato.errors import InputError, SfumatoError, listed, spelled
from sfumato.estimation.estimates import foreseen as inverted
from sfumato.estimation.inversion import sums
from sfumato.joint import Joint
from sfumato.ledgers import Ledger
from sfumato.ledgers.persons import counted
from sfumato.mechanism import Mechanism
from sfumato.releasing.alphabets import Learnt
from sfumato.releasing.basis import Basis, at_level, basis_of
from sfumato.releasing.planning import Counted, designed
from sfumato.releasing.wishes import Listener, Wishes
from sfumato.reporting.mechanism_figures import guessers_of
from sfumato.sources import Source
from sfumato.sources.values import bin_edges, grouped, keys
from sfumato.tolerances import AT_A_GLANCE
from sfumato.tolerances import SQUARE as COVARIANCE_CELLS

if TYPE_CHECKING:
    from sfumato.designers.base import Design
    from sfumato.frames import Record
    from sfumato.reporting.figures import Guesser
    from sfumato.studio.hands import Asked


# --- what somebody who is about to release should not miss, from green to red, each with its reason -------------------


GREEN, AMBER, RED, NONE = "green", "amber", "red", "none"
Light = dict[str, str]


def light(name: str, colour: str, title: str, text: str) -> Light:
    return {"name": name, "colour": colour, "title": title, "text": text}


def of_rows(view: Asked) -> Light:
    """Whether there are enough rows for what is asked."""
    lost = [c["name"] for c in view["columns"] if c["points"] is None]
    worth = view["worth"]
    text = f"The release is worth {worth['text']} of its rows: {worth['words']}."
    if worth["little"]:
        return light("rows", RED, "Too few rows", f"{text} Less than 1 % is released only when asked for once more.")
    if lost:
        return light("rows", AMBER, "Not every column can be estimated", f"{text} Nothing is told of {listed(lost)}.")
    return light("rows", GREEN, "Enough rows", text)


def of_cells(joint: Joint, source: str) -> Light:
    """Whether small counts become public with the mechanism file."""
    small, cells = joint.small_cells, joint.p.size
    each = f"{joint.n:,} rows in {cells:,} cells" if joint.n else f"{cells:,} cells"
    if not small:
        return light("cells", GREEN, "No small cells", f"{each}: none holds only 1 to 4 people.")
    text = f"{each}: {small:,} of them {'holds' if small == 1 else 'hold'} only 1 to 4 people."
    if source == "private":
        return light("cells", RED, "Small counts would become public", f"{text} The mechanism file contains them.")
    hidden = "with noise" if source == "noisy" else "without any counts"
    return light("cells", AMBER, "Small cells", f"{text} The mechanism file is made {hidden}, so that nobody is "
                 "singled out; coarser bins or fewer columns would make estimates better.")


def guessed_from(source: Source, wishes: Wishes, keep: Sequence[str]) -> float:
    """In which share of the rows the secret is guessed right by somebody who sees the kept columns alone.

    Σ_k max_s p(s, k): 1 where a kept column is a copy of the secret, or tells every person apart.
    """
    names = [*wishes.secret, *keep]
    rules: dict[str, Floats | str] = {}
    for name, rule in (wishes.bins or {}).items():
        if name in wishes.secret:
            rules[name] = rule if isinstance(rule, str) else bin_edges(source, name, rule)
    try:
        found = grouped(source, names, rules, wishes.missing)
    except InputError:  # more values than can be counted: most rows have one of their own
        return 1.0
    best = found.group_by(keys(names)[len(wishes.secret):]).aggregate([("n", "max")])
    return float(pc.sum(best.column("n_max")).as_py() / pc.sum(found.column("n")).as_py())


def of_kept(keep: Sequence[str], guessed: float | None, view: Asked) -> Light:
    """Whether columns that pass untouched tell more of the secret than the release itself may."""
    if not keep:
        return light("kept", GREEN, "Nothing is kept as it is", "Every released column went through the mechanism.")
    names = listed(list(keep))
    assert guessed is not None
    limit = view["guessers"][0]["after"] if view["guessers"] else 100
    hundred = in_a_hundred(guessed)
    text = f"Whoever sees {names} guesses the secret right {hundred} times in 100"
    if hundred > limit:
        return light("kept", RED, "Kept columns give the secret away",
                     f"{text}, more than the {limit} that the release allows: they pass untouched. Leave them out.")
    return light("kept", AMBER, "Kept columns are not protected", f"{text}; the release allows {limit}. They pass "
                 "untouched, and whoever knows them of a person finds the row.")


def of_before(ledger: Path | None) -> Light:
    """Whether something was released about these people before, as far as a ledger knows."""
    if ledger is None or not ledger.exists():
        where = "" if ledger is None else f" {ledger.name} will be made when people are named."
        return light("before", NONE, "Released before?", "No ledger counts releases about these people: if they were "
                     f"in one before, both tell together.{where}")
    try:
        book = Ledger(ledger, create=False)
        live = counted(book.entries())
        people = list(dict.fromkeys(e.people for e in live))
        told = [f"{name!r} {level(book.composed(name))}" for name in people[:5]]
    except SfumatoError as error:
        return light("before", RED, "The ledger cannot be read", error.text(shell=True))
    if not live:
        return light("before", GREEN, "Nothing released before", f"No release is entered in {ledger.name}.")
    return light("before", AMBER, "Released before", f"{len(live):,} in {ledger.name}, together: {', '.join(told)}. "
                 "One more about the same people adds to it.")


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
        told = replace(table.told, wishes=table.told.wishes.at(epsilon))
        return cls(table.joint, table.wishes.at(epsilon), told, basis_of(table.joint, told, None))

    def basis(self, epsilon: float) -> Basis:
        return at_level(self.drawn, self.joint, replace(self.told, wishes=self.told.wishes.at(epsilon)))

    def design(self, epsilon: float, listener: Listener, *, coarse: bool) -> Design:
        """A sealed and certified design: a first one at once, or the one that `sfumato release` would make."""
        wishes = replace(self.wishes.at(epsilon), aim="closed" if coarse else None)
        made: Design = designed(self.basis(epsilon), wishes, listener)
        return made


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
        "helps": [f"{h.what}: errors {h.times:.2g} times as large" for h in told.ways],
        "promises": [f"{capitalised(p.sentence)}." for p in promises(mechanism, made.certificate)],
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
            "rows": f"worth {with_unit(f'{part.rows:,.0f}', 'unprotected row')}", "values": _values(column, p, wide),
            "more": max(column.size - AT_A_GLANCE, 0),
        }


def _values(column: Column, p: Floats, wide: Floats) -> list[Record]:
    order = sorted(range(column.size), key=lambda i: -float(p[i]))[:AT_A_GLANCE]
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
            one = found.summed(sums(columns, [column.name]), (column.size,))
        except InputError:
            continue
        out[column.name] = np.where(one.identified, np.sqrt(np.maximum(one.variance, 0)), math.inf)
    return out
