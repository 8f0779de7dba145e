"""What the released rows can tell about the inputs however many there are, and what they cannot."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.alphabet import Floats
from sfumato.estimation.intervals import simultaneous
from sfumato.estimation.inversion import DenseInversion, Inversion, Mask
from sfumato.mechanism import Mechanism

# --- what the released rows can tell about the inputs however many there are, and what they cannot --------------------


NAMED = 6  # cells that a sentence lists


@dataclass(frozen=True, eq=False)
class Identifiable:
    """True when the whole table is identified; otherwise says which cells and marginals are.

    p can be identified up to the null space of Q: Q p = Q p′ gives the same released rows. A linear functional
    c·p is identified if and only if c lies in the row space of Q.
    """

    rank: int
    inputs: int
    cells: Mask  # [s, u] or [u]
    secret: Mask | None  # [s]; None when the mechanism does not read the secret
    useful: Mask  # [u]
    sentence: str

    def __bool__(self) -> bool:
        return self.rank == self.inputs

    def __str__(self) -> str:
        return self.sentence


def identifiable(mechanism: Mechanism, whole: Inversion, secret: Inversion | None, useful: Inversion) -> Identifiable:
    """The summary of an inversion and of its two marginals."""
    known_s = None if secret is None else secret.identified
    return Identifiable(
        whole.rank, mechanism.inputs, whole.identified, known_s, useful.identified,
        _sentence(mechanism, whole, known_s, useful.identified),
    )


def _sentence(mechanism: Mechanism, whole: Inversion, secret: Mask | None, useful: Mask) -> str:
    names = {"secret": ", ".join(mechanism.secret.names), "useful": ", ".join(mechanism.useful.names)}
    table = f"p({names['secret']}; {names['useful']})" if secret is not None else f"p({names['useful']})"
    if whole.rank == mechanism.inputs:
        return f"Every cell of {table} can be identified (rank {whole.rank} of {mechanism.inputs})."
    parts = [f"Of {table} only {whole.rank} of {mechanism.inputs} dimensions can be identified."]
    sides = [("secret", secret)] if secret is not None else []
    for side, mask in [*sides, ("useful", useful)] if secret is not None else []:
        if mask is not None:
            verb = "can" if mask.all() else "cannot" if not mask.any() else "can only in part"
            parts.append(f"The distribution of {names[side]} {verb}.")
    parts.append(_cells(mechanism, whole.identified))
    return " ".join(parts)


def _cells(mechanism: Mechanism, known: Mask) -> str:
    lost = (~known).ravel().nonzero()[0]
    if lost.size == known.size:
        return "No single cell can."
    shown = []
    for x in lost[:NAMED]:
        s, u = divmod(int(x), mechanism.useful.size)
        both = f"{mechanism.secret.text(s)} · " if known.ndim == 2 else ""
        shown.append(both + mechanism.useful.text(u))
    more = f" and {lost.size - NAMED} more" if lost.size > NAMED else ""
    return f"These cells cannot: {', '.join(shown)}{more}." if lost.size else "Every cell can."


# --- everything that agrees with the released rows --------------------------------------------------------------------


LISTED = 40_000  # the largest |Y| × |X| for which the linear programmes are solved
FUNCTIONALS = 300


@dataclass(frozen=True, eq=False)
class Bounds:
    """The distributions p with Qp inside the simultaneous intervals of the output frequencies.

    The truth is among them with the stated probability, so the least and the greatest c·p over them bound any
    number of functionals c at once, whether or not they are identified.
    """

    q: Floats  # [y, x]
    f: Floats  # [y]
    n: int

    def interval(self, sums: Floats, level: float) -> tuple[Floats, Floats]:
        """(low, high) of each row of `sums`[i, x]; [0, 1] when there are too many or no p agrees."""
        low, high = np.zeros(len(sums)), np.ones(len(sums))
        if self.q.size > LISTED or len(sums) > FUNCTIONALS:
            return low, high
        from scipy.optimize import linprog

        eye = np.eye(len(self.f))
        outputs = DenseInversion(eye, self.f, self.n, self.f.shape, eye, eye, len(self.f))
        least, most = simultaneous(outputs, level, self.f)
        above, limits = np.vstack([self.q, -self.q]), np.concatenate([most, -least])
        total = np.ones((1, self.q.shape[1]))
        for i, c in enumerate(sums):
            found = [linprog(sign * c, above, limits, total, [1.0], (0, None)) for sign in (1, -1)]
            if all(x.status == 0 for x in found):
                low[i], high[i] = found[0].fun, -found[1].fun
        return np.clip(low, 0, 1), np.clip(high, 0, 1)
