"""SRR on a million cells: design and sealing, then rows per second."""

from __future__ import annotations

import time

import numpy as np

import sfumato as sf
from measure import Row, medians, table
from sfumato.drawing.randomness import Stream
from sfumato.drawing.sampling import Sampler, compiled_kernel

SIDE, ROWS = 1000, 10_000_000


def results() -> list[Row]:
    rng = np.random.default_rng(0)
    joint = sf.Joint.from_counts(rng.integers(0, 50, (SIDE, SIDE)))
    sf.design(sf.ChiSquareBall(sf.Joint.from_counts([[2, 1], [1, 2]]), confidence=0.95), epsilon=1.0, method="srr")
    start = time.perf_counter()
    made = sf.design(sf.ChiSquareBall(joint, confidence=0.95), epsilon=1.0, method="srr")
    seconds = time.perf_counter() - start
    law = made.mechanism.law
    codes = rng.integers(0, SIDE * SIDE, ROWS, dtype=np.int32)
    sampler = Sampler(law, Stream.of(1))
    sampler.kernel, sampler.compiled = compiled_kernel(law), True
    drawing = medians({"draw": lambda: sampler.draw(codes, 0)}, repeats=3)["draw"]
    kept = float(np.mean(sampler.draw(codes, 0) == codes))
    truth = float(law.truth) / 2.0**law.bits
    size = f"{SIDE * SIDE:,} cells"
    return [
        Row("SRR, design and sealing", seconds, "s", "< 2 s", seconds < 2,
            f"certified ε = {made.certificate.level:.6f}", size),
        Row("SRR, drawing", ROWS / drawing / 1e6, "M rows/s", "≥ 20 M rows/s", ROWS / drawing >= 20e6,
            f"truth kept {kept:.6f} (expected {truth:.6f})", f"{size}, {ROWS:,} rows"),
    ]


if __name__ == "__main__":
    print(table(results()))
