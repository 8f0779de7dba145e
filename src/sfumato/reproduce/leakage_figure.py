"""[004, Fig. 1]: where the known measures lie in the plane of orders, with values for a mechanism."""

from __future__ import annotations

import contextlib
import csv
import math
from pathlib import Path

import numpy as np

from sfumato.errors import InputError
from sfumato.mechanism import Tabular
from sfumato.privacy.order_map import LeakageMap
from sfumato.privacy.overview import map_of
from sfumato.reporting.order_picture import order_picture

EXAMPLE = [[0.6, 0.2, 0.1], [0.3, 0.5, 0.2], [0.1, 0.3, 0.7]]  # the paper's figure has no numbers; any channel will do
POINTS, QUICK = 41, 21


def run(out: Path, *, full: bool = False) -> str:
    """004-fig1.csv (alpha, beta, value, bound) and, where matplotlib is installed, 004-fig1.png."""
    found = map_of(Tabular(EXAMPLE), POINTS if full else QUICK)
    write_map(found, out / "004-fig1.csv")
    with contextlib.suppress(InputError):  # the picture needs matplotlib; the data do not
        (out / "004-fig1.png").write_bytes(order_picture(found, "a channel of 3 inputs, 3 outputs"))
    known = np.isfinite(found.values)
    widest = float((found.bounds[known] - found.values[known]).max())
    return f"004-fig1: the map of (α, β) drawn; the figure prints no numbers; widest proved gap {widest:.1e} nats"


def write_map(found: LeakageMap, path: Path) -> None:
    """The grid as rows."""
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["alpha", "beta", "value", "bound"])
        for i, alpha in enumerate(found.alphas):
            for j, beta in enumerate(found.betas):
                cells = (alpha, beta, found.values[i, j], found.bounds[i, j])
                writer.writerow(["inf" if math.isinf(x) else repr(float(x)) for x in cells])

