"""[004, Fig. 1]: where the known measures lie in the plane of orders, with values for a mechanism."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np

from sfumato.errors import InputError
from sfumato.mechanism import Tabular
from sfumato.privacy.overview import LeakageMap, map_of
from sfumato.reporting.order_picture import order_picture
from sfumato.reproduce.drawing import verdict, write_csv

EXAMPLE = [[0.6, 0.2, 0.1], [0.3, 0.5, 0.2], [0.1, 0.3, 0.7]]  # the paper's figure has no numbers; any channel will do
POINTS, QUICK = 41, 21


def run(out: Path, *, full: bool = False) -> str:
    """[004, Fig. 1]: where the known measures lie in the plane of orders, with values for a mechanism."""
    found = map_of(Tabular(EXAMPLE), POINTS if full else QUICK)
    write_map(found, out / "004-fig1.csv")
    with contextlib.suppress(InputError):  # the picture needs matplotlib; the data do not
        (out / "004-fig1.png").write_bytes(order_picture(found, "a channel of 3 inputs, 3 outputs"))
    known = np.isfinite(found.values)
    widest = float((found.bounds[known] - found.values[known]).max())
    text = f"The map of (α, β) with values; the figure prints no numbers. The widest proved gap is {widest:.1e} nats."
    return verdict("004-fig1", {"every order solved to 1e-6": widest < 1e-6}, text)


def write_map(found: LeakageMap, path: Path) -> None:
    """The grid as rows."""
    rows = [
        [repr(float(x)) for x in (alpha, beta, found.values[i, j], found.bounds[i, j])]
        for i, alpha in enumerate(found.alphas) for j, beta in enumerate(found.betas)
    ]
    write_csv(path, ["alpha", "beta", "value", "bound"], rows)

