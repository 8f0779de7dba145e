"""Earlier releases that lie beside a new one: what they tell together, where no ledger counts them."""

from __future__ import annotations

import math
from pathlib import Path

from sfumato.certification.together import anywhere, drawn_for
from sfumato.composing.composition import TELLING
from sfumato.decimals import at_most
from sfumato.errors import SfumatoError
from sfumato.mechanism import Bundle, Mechanism, load
from sfumato.releasing.files import Files

LOOKED = 20  # mechanism files that are opened


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
