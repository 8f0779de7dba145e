"""The dense sampler against its own random words, plain and compiled, and against multi-freq-ldpy's GRR client."""

from __future__ import annotations

import hashlib
import math

import numpy as np

from measure import Row, medians, table
from sfumato.drawing.randomness import Stream
from sfumato.drawing.sampling import CHUNK_WORDS, Sampler, compiled_kernel, plain_kernel
from sfumato.mechanism import Cells, Layout, Table
from sfumato.mechanism.law import whole_weights
from sfumato.sources.source import BATCH_ROWS

ROWS, WIDTH, EPSILON = 4_000_000, 240, 1.0


def sampler(law, kernel, seed=1):
    made = Sampler(law, Stream.of(seed))
    made.kernel, made.compiled = kernel(law), True
    return made


def drawn(made, codes):
    """Outputs in batches, as a release draws them: each is gone before the next comes."""
    for i in range(0, len(codes), BATCH_ROWS):
        made.draw(codes[i : i + BATCH_ROWS], i)


def words_alone(seed=1):
    fill, buffer = Stream.of(seed).reader(0), np.empty(CHUNK_WORDS, np.uint64)
    for _ in range(ROWS // CHUNK_WORDS):
        fill(buffer)


def dense() -> list[Row]:
    rng = np.random.default_rng(0)
    law = Table(whole_weights(rng.random((WIDTH, WIDTH)), 56), 1, 56)
    codes = rng.integers(0, WIDTH, ROWS, dtype=np.int32)
    compiled, plain = sampler(law, compiled_kernel), sampler(law, plain_kernel)
    times = medians({
        "words": words_alone, "compiled": lambda: drawn(compiled, codes), "plain": lambda: drawn(plain, codes),
    }, repeats=11)
    first = compiled.draw(codes, 0)
    same = bool((first == plain.draw(codes, 0)).all())
    answer = f"sha256 {hashlib.sha256(first.tobytes()).hexdigest()[:12]}, same both ways: {same}"
    size = f"{ROWS:,} rows, {WIDTH} × {WIDTH}"
    return [
        Row(f"dense sampler, {name}", times[name] / times["words"], "× its words", f"≤ {limit}×",
            same and times[name] <= limit * times["words"], answer, size, f"{ROWS / times[name] / 1e6:.0f} M rows/s")
        for name, limit in (("compiled", 3), ("plain", 20))
    ]


def layout() -> list[Row]:
    """Atoms of four secrets on one interval: what large robust designs are."""
    rng = np.random.default_rng(0)
    lengths = [x / x.sum() for x in rng.random((4, 60)) + 0.01]
    heights = [h / (x @ h) for x, h in zip(lengths, rng.random((4, 60, 60)) + 0.01, strict=True)]
    law = Layout(tuple(lengths), tuple(heights)).rounded(None, 1e-9)
    codes = rng.integers(0, WIDTH, ROWS, dtype=np.int32)
    compiled, plain = sampler(law, compiled_kernel), sampler(law, plain_kernel)
    times = medians({"compiled": lambda: drawn(compiled, codes), "plain": lambda: drawn(plain, codes)}, repeats=3)
    first = compiled.draw(codes, 0)
    same = bool((first == plain.draw(codes, 0)).all())
    ratio = times["plain"] / times["compiled"]
    answer = f"sha256 {hashlib.sha256(first.tobytes()).hexdigest()[:12]}, same both ways: {same}"
    return [Row("layout sampler, compiled", ratio, "× as fast as plain", "≥ 4×", same and ratio >= 4, answer,
                f"{ROWS:,} rows, 4 × 60 inputs, {law.outputs} outputs",
                f"{ROWS / times['compiled'] / 1e6:.0f} M rows/s")]


def peer() -> list[Row]:
    """The same GRR on the same data: multi-freq-ldpy's client, compiled, in a compiled loop."""
    try:
        from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Client
    except ImportError:
        return []
    from numba import njit

    @njit
    def loop(values, k, epsilon):
        out = np.empty(len(values), np.int64)
        for i in range(len(values)):
            out[i] = GRR_Client(values[i], k, epsilon)
        return out

    e = math.exp(EPSILON)
    other = 1 / (e + WIDTH - 1)
    law = Cells(1, WIDTH, e * other, other, 0.0, 0.0).rounded(None, 0.0)
    values = np.random.default_rng(0).integers(0, WIDTH, 400_000)
    ours = sampler(law, compiled_kernel)
    codes = np.resize(values, ROWS).astype(np.int32)
    times = medians({"theirs": lambda: loop(values, WIDTH, EPSILON), "ours": lambda: drawn(ours, codes)})
    ratio = (ROWS / times["ours"]) / (len(values) / times["theirs"])
    kept = [float(np.mean(a == b)) for a, b in ((ours.draw(codes, 0), codes), (loop(values, WIDTH, EPSILON), values))]
    answer = f"truth kept {kept[0]:.4f} (theirs {kept[1]:.4f}, expected {e * other:.4f})"
    return [Row("GRR against multi-freq-ldpy", ratio, "× its rows/s", "≥ 50×", ratio >= 50, answer,
                f"{ROWS:,} rows, {WIDTH} values", f"{ROWS / times['ours'] / 1e6:.0f} M rows/s")]


def results() -> list[Row]:
    return dense() + layout() + peer()


if __name__ == "__main__":
    print(table(results()))
