"""Comparison: points by method and ε, as a table and as records."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sfumato.comparing.points import Missing, Point, record
from sfumato.frames import Framed, tabled, titled
from sfumato.joint import Joint

COLUMNS = (
    "method", "epsilon", "promise", "level", "reads", "kept", "nmi", "about_useful", "about_secret", "bound", "ceiling",
    "error_useful", "error_secret", "error_joint", "distance_useful", "distance_secret", "distance_joint",
    "realised_median", "realised_high", "realised_share", "outputs", "seconds", "why",
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Comparison(Framed):
    """Every method at every ε, and those that have no design, with the reason."""

    joint: Joint
    n: int | None  # rows that the errors are for
    epsilons: tuple[float, ...]
    points: tuple[Point, ...]
    missing: tuple[Missing, ...]
    complete: bool = True  # False when it was interrupted

    @property
    def methods(self) -> tuple[str, ...]:
        """Those with a point, in order."""
        return tuple(dict.fromkeys(p.method for p in self.points))

    def of(self, method: str) -> tuple[Point, ...]:
        """The points of one method, by ε."""
        return tuple(p for p in self.points if p.method == method)

    def at(self, epsilon: float) -> tuple[Point, ...]:
        """The points at one ε, by method."""
        return tuple(p for p in self.points if p.epsilon == epsilon)

    def records(self) -> Iterator[dict[str, Any]]:
        """One flat record for each point and for each that is missing, with the keys of COLUMNS."""
        listed: list[Point | Missing] = [*self.points, *self.missing]
        for p in listed:
            told = record(p)
            for side in ("useful", "secret", "joint"):
                part = (told.get("precision") or {}).get(side) or {}
                told |= {f"error_{side}": part.get("standard_error"), f"distance_{side}": part.get("distance")}
            told |= {f"realised_{k}": v for k, v in (told.get("realised") or {}).items()}
            yield {name: told.get(name) for name in COLUMNS}

    def plot(self, of: str = "error", axes: Any = None) -> Any:
        """What each method reaches over ε ('error', 'error_secret', 'error_joint' or 'kept'), as matplotlib's axes."""
        from sfumato.plotting import plot_tradeoff

        return plot_tradeoff(self, of, axes)

    def __repr__(self) -> str:
        cut = "" if self.complete else ", interrupted"
        return (f"<Comparison of {len(self.methods)} methods at {len(self.epsilons)} levels of ε, {len(self.points)} "
                f"designs, {len(self.missing)} without{cut}>")

    def _repr_html_(self) -> str:
        told = ("method", "epsilon", "nmi", "error_useful", "error_secret", "error_joint", "promise")
        return titled(repr(self), tabled({k: r[k] for k in told} for r in self.records() if not r["why"]))

    def csv(self) -> str:
        """The records as CSV, full precision; empty where there is nothing to say."""
        out = io.StringIO()
        writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for row in self.records():
            writer.writerow({k: "" if v is None else repr(v) if isinstance(v, float) else v for k, v in row.items()})
        return out.getvalue()

    def document(self) -> dict[str, Any]:
        """Everything as JSON has it."""
        return {
            "secret": list(self.joint.secret.names), "useful": list(self.joint.useful.names),
            "shape": list(self.joint.shape), "n": self.n, "complete": self.complete, "epsilons": list(self.epsilons),
            "entropy": self.joint.entropy, "points": list(self.records()),
        }
