"""Results: one mechanism at one ε with all that a comparison says about it, many as a table, and their cache."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from sfumato import reporting
from sfumato.alphabet import Floats
from sfumato.atomic import make_folder, write_all
from sfumato.errors import OutputError
from sfumato.frames import Framed, Record, plot_tradeoff, tabled, titled
from sfumato.joint import Joint

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SEALED = 1e-6  # of the entropy: what weights in integers and the margin of a promise cost a mechanism that tells all
MEAN_SIZE = math.sqrt(2 / math.pi)  # E|N(0, 1)|


@dataclass(frozen=True, slots=True)
class Spread:
    """Errors of one estimated distribution: ∞ where it is not identified."""

    standard_error: float  # root mean square over its values
    distance: float  # expected total variation, ½ Σ E|p̂ − p| of normal errors

    @classmethod
    def of(cls, variance: Floats) -> Spread:
        """From the variances of its values."""
        each = np.sqrt(np.maximum(np.asarray(variance, float), 0.0))
        return cls(float(np.sqrt((each**2).mean())), float(0.5 * MEAN_SIZE * each.sum()))


UNKNOWN = Spread(math.inf, math.inf)


@dataclass(frozen=True, slots=True)
class Precision:
    """Errors of the useful marginal, of the secret marginal and of the joint table."""

    useful: Spread
    secret: Spread
    joint: Spread


@dataclass(frozen=True, slots=True)
class Realised:
    """The level about the secret at distributions drawn from the posterior of the counts."""

    median: float
    high: float  # 95 % of the draws are below
    share: float  # of the draws that keep to ε
    draws: int


@dataclass(frozen=True, slots=True)
class Point:
    """What a method reaches at one ε. Information in nats; errors are ∞ where nothing can be estimated."""

    method: str
    epsilon: float
    promise: str  # the notion and the set it holds over, in a few words
    level: float  # the certified level of that promise
    reads: str
    kept: float | None  # I(S, U; Y) at the counts
    nmi: float | None  # the same as a share of H(S, U)
    about_useful: float | None  # I(U; Y)
    about_secret: float | None  # I(S; Y)
    bound: float | None  # proved limit of the method's own family, when it maximises what is kept
    ceiling: float | None  # limit of every mechanism with its promise
    precision: Precision | None  # errors of estimates from n rows; None when the law is too large to invert
    realised: Realised | None  # levels at resampled truths
    outputs: int | None
    seconds: float

    def error(self, of: str) -> float:
        """The standard error of 'useful', 'secret' or 'joint', ∞ when it is not known to be finite."""
        return math.inf if self.precision is None else float(getattr(self.precision, of).standard_error)

    def at_larger(
        self, epsilon: float, joint: Joint, realised: Callable[[], Realised | None] | None = None
    ) -> Point | None:
        """The point at a larger ε where nothing is left to gain: the mechanism has that promise too, and its output
        names its input, whatever the truth. `realised` says how many truths keep to that ε; without it None where not
        all of them do, as a larger ε may change their share."""
        whole = joint.entropy if self.reads == "both" else joint.entropy_useful
        told = self.bound is not None and self.kept is not None and self.kept >= whole * (1 - SEALED)
        if not (told and epsilon > self.epsilon):
            return None
        seen = self.realised
        if seen is not None and seen.share < 1.0:
            if realised is None:
                return None
            seen = realised()
        # what a rare value adds is not proved away
        return replace(self, epsilon=epsilon, seconds=0.0, bound=whole, realised=seen)


@dataclass(frozen=True, slots=True)
class Missing:
    """A method that has no design at this ε, and why."""

    method: str
    epsilon: float
    why: str


Plain = dict[str, Any]  # as JSON has it


def record(point: Point | Missing) -> Plain:
    """As JSON has it; ∞ is the string 'inf'."""
    return {k: _plain(v) for k, v in asdict(point).items()}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return "inf" if isinstance(value, float) and math.isinf(value) else value


def point_of(found: Plain) -> Point | Missing:
    """The point that was recorded; an error when it is none."""
    kind: type[Point | Missing] = Missing if "why" in found else Point
    return msgspec.convert(found, kind, strict=False)  # 'inf' is a number again


# --- points by method and ε, as a table and as records ----------------------------------------------------------------


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

    def records(self) -> Iterator[Record]:
        """One flat record for each point and for each that is missing, with the keys of COLUMNS."""
        listed: list[Point | Missing] = [*self.points, *self.missing]
        for p in listed:
            told = record(p)
            for side in ("useful", "secret", "joint"):
                part = (told.get("precision") or {}).get(side) or {}
                told |= {f"error_{side}": part.get("standard_error"), f"distance_{side}": part.get("distance")}
            told |= {f"realised_{k}": v for k, v in (told.get("realised") or {}).items()}
            yield {name: told.get(name) for name in COLUMNS}

    def plot(self, of: str = "error", axes: Axes | None = None) -> Axes:
        """What each method reaches over ε ('error', 'error_secret', 'error_joint' or 'kept'), as matplotlib's axes."""
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

    def save(self, folder: str | os.PathLike[str], at: float | None = None) -> dict[str, Path]:
        """Table, figures, pictures and a page in a folder: all, or none; errors and advice are at one level. They are
        computed from the table: for its owner, not for publication."""
        out, at = Path(folder), nearest(self.epsilons, at)
        make_folder(out)
        texts = {
            "compare.csv": self.csv(), "compare.json": json.dumps(self.document(), indent=1) + "\n",
            "kept.svg": reporting.kept_picture(self, at), "errors-useful.svg": reporting.error_picture(self, at),
            "errors-joint.svg": reporting.error_picture(self, at, "joint"),
            "compare.html": reporting.comparison_page(self, at),
        }
        files = {name: out / name for name in texts}
        write_all({files[name]: text.encode() for name, text in texts.items()}, replace=True, private=True)
        return files

    def document(self) -> dict[str, Any]:
        """Everything as JSON has it."""
        return {
            "secret": list(self.joint.secret.names), "useful": list(self.joint.useful.names),
            "shape": list(self.joint.shape), "n": self.n, "complete": self.complete, "epsilons": list(self.epsilons),
            "entropy": self.joint.entropy, "points": list(self.records()),
        }


def nearest(grid: Sequence[float], epsilon: float | None = None) -> float:
    """The level of a grid nearest to one, in ratio; to 1 where nobody says which."""
    return min(grid, key=lambda e: abs(math.log((e or 1e-9) / (epsilon or 1.0))))


# --- figures that were computed before, by the content they were computed from ----------------------------------------
# Only figures are kept, never a mechanism, a count or a label, and files are named by a digest. They are still
# computed from what may be a private table, so the folder can be read by its owner alone.


def cache_folder() -> Path:
    """$XDG_CACHE_HOME/sfumato/compare, or ~/.cache/sfumato/compare."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "sfumato" / "compare"


@cache
def package_mark() -> str:
    """A digest of names, sizes and times of the package's files: another version never reads these entries."""
    home = Path(__file__).parent.parent
    seen = sorted((str(p.relative_to(home)), s.st_size, s.st_mtime_ns) for p in home.rglob("*.py") if (s := p.stat()))
    return hashlib.sha256(repr(seen).encode()).hexdigest()


def digest(content: Plain) -> str:
    """The name of what was computed from this content by this version."""
    text = json.dumps({"package": package_mark(), **content}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class FigureCache:
    """A folder of recorded points; None keeps nothing. What cannot be read or written is as if it were not there."""
    folder: Path | None

    def read(self, name: str) -> Point | Missing | None:
        """The point under this name, unless the file is absent or damaged."""
        if self.folder is None:
            return None
        try:
            found = json.loads((self.folder / name).read_bytes())
            body = found["point"]
            return point_of(body) if found["check"] == _check(name, body) else None
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, msgspec.ValidationError):
            return None

    def write(self, name: str, point: Point | Missing) -> None:
        """Record a point: complete under its name, or not at all."""
        if self.folder is None:
            return
        body = record(point)
        text = json.dumps({"check": _check(name, body), "point": body})
        with contextlib.suppress(OSError, OutputError):  # a cache that cannot be written costs time, never the answer
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.folder.chmod(0o700)
            write_all({self.folder / name: text.encode()}, replace=True, private=True)


def _check(name: str, body: Plain) -> str:
    return hashlib.sha256((name + json.dumps(body, sort_keys=True)).encode()).hexdigest()
