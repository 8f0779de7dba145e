"""[004, Fig. 1]: where the known measures lie in the plane of orders, with values for a mechanism."""

from __future__ import annotations

import csv
import math
from pathlib import Path

from sfumato.mechanism import Mechanism, Tabular
from sfumato.privacy.order_map import LeakageMap
from sfumato.privacy.overview import map_of
from sfumato.reporting.order_picture import order_picture

EXAMPLE = [[0.6, 0.2, 0.1], [0.3, 0.5, 0.2], [0.1, 0.3, 0.7]]  # the paper's figure has no numbers; any channel will do
POINTS = 41


def make(folder: Path, mechanism: Mechanism | None = None, points: int = POINTS) -> list[Path]:
    """004-fig1.csv (alpha, beta, value, bound) and 004-fig1.png."""
    title = "a channel of 3 inputs, 3 outputs" if mechanism is None else f"{mechanism.method}, {_size(mechanism)}"
    found = map_of(Tabular(EXAMPLE) if mechanism is None else mechanism, points)
    data, picture = folder / "004-fig1.csv", folder / "004-fig1.png"
    drawn = order_picture(found, title)
    write_map(found, data)
    picture.write_bytes(drawn)
    return [data, picture]


def write_map(found: LeakageMap, path: Path) -> None:
    """The grid as rows."""
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["alpha", "beta", "value", "bound"])
        for i, alpha in enumerate(found.alphas):
            for j, beta in enumerate(found.betas):
                cells = (alpha, beta, found.values[i, j], found.bounds[i, j])
                writer.writerow(["inf" if math.isinf(x) else repr(float(x)) for x in cells])


def _size(mechanism: Mechanism) -> str:
    return f"{mechanism.inputs} inputs, {mechanism.outputs} outputs"
