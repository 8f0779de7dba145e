"""Earlier releases: those that lie beside a new one, which tell together what no ledger counts; and the table itself,
where it is one."""

from __future__ import annotations

import math
from pathlib import Path

from sfumato.certification.together import anywhere, drawn_for
from sfumato.composing.composition import TELLING
from sfumato.decimals import at_most
from sfumato.errors import SfumatoError
from sfumato.estimation.tally import manifest_beside
from sfumato.mechanism import Bundle, Mechanism, load
from sfumato.releasing.files import Files
from sfumato.releasing.notices import Notice
from sfumato.sources import Source

LOOKED = 20  # mechanism files that are opened


def released_already(source: Source) -> Notice | None:
    """What to say of a table that is a release itself, by its manifest: the one beside it that fits its size, or that
    which an Arrow table or a frame carries."""
    try:
        found = manifest_beside(source)
    except SfumatoError:  # a manifest of another table, or none
        return None
    if found is None:
        return None
    return Notice("This table is a release already", (
        f"By its manifest {source.name} holds answers of a mechanism ({found.mechanism[:12]}…), not what people said. "
        "Noise on noise protects nobody more, and what is estimated from the new release are the answers in this one.",
        "To publish it, nothing more is needed; for another release, give the table that it was made from.",
    ))


def beside(files: Files, mechanism: Mechanism | Bundle) -> tuple[str, ...]:
    """A sentence about mechanisms for the same secret in the folder of the release; none where there are none.

    Levels for any distribution add up, whatever the columns and the counts of each were; noisy counts that were used
    again are paid for once.
    """
    folder = files.mechanism.parent if isinstance(files.mechanism, Path) else None
    found: list[tuple[str, Mechanism | Bundle]] = []
    for path in [] if folder is None else sorted(folder.glob("*.mechanism.json"))[:LOOKED]:
        if path == files.mechanism:
            continue
        try:
            other = load(path)
        except SfumatoError:
            continue
        if {*other.secret.names} & {*mechanism.secret.names}:  # whatever labels each of them told
            found.append((path.name, other))
    if not found:
        return ()
    every = [mechanism, *(other for _, other in found)]
    total = math.fsum(_level(m) for m in every) + drawn_for(every)[0]
    names = ", ".join(name for name, _ in found)
    what = "together they tell it to whoever knows the other values" if total > TELLING else (
        f"together they tell at most {at_most(total, 4)} nats, whoever looks"
    )
    more = " (sfumato compose)" if all(other.secret == mechanism.secret for _, other in found) else ""
    return (f"about the same secret there is {names}: if these are the same people, {what}{more}",)


def _level(mechanism: Mechanism | Bundle) -> float:
    ratio = float(anywhere(mechanism).ratio)
    return math.log(ratio) if ratio < math.inf else math.inf
