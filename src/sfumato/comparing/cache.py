"""What a comparison is about, named before anything heavy is loaded, and the cache of its figures."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.comparing.results import Missing, Point, point_of, record
from sfumato.errors import InputError
from sfumato.joint import Joint

# --- a joint and a set around it, named before anything heavy is loaded -----------------------------------------------


CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """The joint, the set's description for the cache (None when it has none), and how the set is made."""

    joint: Joint
    described: dict[str, Any] | None
    within: Callable[[], Any]


def question(source: Any, secret: Any, useful: Any, confidence: float | None, counting: dict[str, Any]) -> Subject:
    """From a set, a joint, or a table of people with the names of its columns."""
    if hasattr(source, "worst") and hasattr(source, "joint"):
        if confidence is not None or secret is not None or useful is not None or counting:
            raise InputError("an uncertainty set says everything already; leave out confidence=, secret= and useful=.")
        return Subject(source.joint, _described(source), lambda: source)
    if isinstance(source, Joint):
        if secret is not None or useful is not None or counting:
            raise InputError("a Joint has its columns already; leave out secret= and useful=.")
        return _ball(source, confidence)
    if secret is None or useful is None:
        raise InputError("say which columns of the table are compared: secret= and useful=.")
    from sfumato.sources.tabulation import tabulate

    path = os.fspath(source) if isinstance(source, os.PathLike) else source
    return _ball(tabulate(path, secret, useful, **counting), confidence)


def _ball(joint: Joint, confidence: float | None) -> Subject:
    level = CONFIDENCE if confidence is None else confidence
    if not 0 < level < 1:
        raise InputError(f"confidence must lie strictly between 0 and 1, got {confidence!r}.")
    if joint.n is None:
        raise InputError(
            "a comparison surrounds the counts with a confidence ball, but this joint does not say how many rows it "
            "was counted from. Give a set instead, sf.Exactly(joint) or sf.ChiSquareBall(joint, radius=…)."
        )

    def within() -> Any:
        from sfumato.uncertainty import ChiSquareBall

        return ChiSquareBall(joint, confidence=level)

    return Subject(joint, {"kind": "chi-square-ball", "confidence": level, "calibration": "asymptotic"}, within)


def _described(within: Any) -> dict[str, Any] | None:
    """The set's own numbers; None for sets made of functions, which are not cached."""
    if within.kind == "chi-square-ball" and within.calibration == "asymptotic":
        return {"kind": within.kind, "confidence": within.confidence, "calibration": within.calibration}
    out: dict[str, Any] = {"kind": within.kind}
    for name in getattr(type(within), "__slots__", ()) or vars(within):
        value = getattr(within, name)
        if isinstance(value, Joint):
            out[name] = value.fingerprint
        elif value is None or isinstance(value, (bool, int, float, str)):
            out[name] = value
        elif isinstance(value, np.ndarray):
            out[name] = [str(value.shape), value.tobytes().hex()]
        else:
            return None
    return out


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


def digest(content: Mapping[str, Any]) -> str:
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
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None

    def write(self, name: str, point: Point | Missing) -> None:
        """Record a point: complete under its name, or not at all."""
        if self.folder is None:
            return
        body = record(point)
        text = json.dumps({"check": _check(name, body), "point": body})
        draft = self.folder / f".{secrets.token_hex(8)}.part"
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.folder.chmod(0o700)
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(text)
            os.replace(draft, self.folder / name)
        except OSError:  # a cache that cannot be written costs time, never the answer
            with contextlib.suppress(OSError):
                draft.unlink()


def _check(name: str, body: Mapping[str, Any]) -> str:
    return hashlib.sha256((name + json.dumps(body, sort_keys=True)).encode()).hexdigest()
