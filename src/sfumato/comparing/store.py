"""The cache: figures that were computed before, by the content they were computed from.

Only figures are kept, never a mechanism, a count or a label, and files are named by a digest. They are still computed
from what may be a private table, so the folder can be read by its owner alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from sfumato.comparing.points import Missing, Point, point_of, record


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
class Store:
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
