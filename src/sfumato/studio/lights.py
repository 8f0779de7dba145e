"""Lights: what somebody who is about to release should not miss, from green to red, each with its reason."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from sfumato.alphabet import Floats
from sfumato.binning import bin_edges
from sfumato.decimals import in_a_hundred, level
from sfumato.errors import InputError, SfumatoError, listed
from sfumato.grouping import grouped, keys
from sfumato.joint import Joint
from sfumato.ledgers import Ledger
from sfumato.ledgers.evidence import counted
from sfumato.releasing.notices import small_cells
from sfumato.releasing.wishes import Wishes
from sfumato.sources import Source

if TYPE_CHECKING:
    from sfumato.studio.hands import Asked

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
    small, cells = small_cells(joint), joint.p.size
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


