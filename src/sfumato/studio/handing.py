"""What the server hands out: files of the page by their names in a list, files of a release, and JSON."""

from __future__ import annotations

import json
import math
import mimetypes
import zipfile
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response

if TYPE_CHECKING:
    from sfumato.frames import Datum

ASSETS = (
    "studio.css", "main.js", "dom.js", "talk.js", "charts.js", "table.js", "columns.js", "editor.js", "level.js",
    "release.js", "analyse.js", "d3.min.js", "plot.umd.min.js",
)


def unknown() -> Response:
    """Nothing is here."""
    return PlainTextResponse("there is nothing here; a studio forgets everything when it is stopped.", 404)


def attached(path: Path) -> Response:
    """A file to be saved, whatever it holds: nothing of it runs here."""
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    kind = "application/octet-stream" if kind == "text/html" else kind
    return FileResponse(path, media_type=kind, filename=path.name)


def archive(held: dict[str, Path]) -> Path:
    """The files of a release in one; those of a folder below its name."""
    table = held["table"]
    to = held["mechanism"].parent / f"{table.name.split('.')[0]}.zip"
    with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in held.values():
            parts = sorted(path.rglob("*")) if path.is_dir() else [path]
            for part in parts:
                archive.write(part, part.relative_to(path.parent))
    return to


async def asset(request: Request) -> Response:
    """A file of the page, by its name in the list."""
    name = request.path_params["name"]
    if name not in ASSETS:
        return unknown()
    kind = "text/css" if name.endswith(".css") else "text/javascript"
    return Response(text(name), media_type=kind, headers={"Cache-Control": "no-store"})


@cache
def text(name: str) -> str:
    """A file of the page; those of others are in a folder of their own."""
    home = files(__package__)
    place = home.joinpath("vendor") if name.endswith(".min.js") else home.joinpath("assets")
    return place.joinpath(name).read_text("utf-8")


def as_json(value: Datum) -> str:
    """One line of JSON."""
    return json.dumps(_finite(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _finite(value: Datum) -> Datum:
    """JSON has no infinity: what is without limit is null, and the words beside it say so."""
    if isinstance(value, dict):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
