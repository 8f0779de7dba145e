"""A set that covers the truth although its centre is noisy: a Hellinger ball whose radius is simulated.

A χ² ball around noisy counts excludes every truth with an empty cell that noise lifted above zero, and one without
such cells is too small. At order ½, D = −2 log Σ √(P̂P), empty cells on either side cost little. How far the truth lies
from noisy counts depends on the truth, above all on how many of its cells are empty, which noise hides: so tables are
drawn around the noisy counts and around these with the small ones set to zero, and the greatest quantile is taken.
Nothing proves that this covers: the file says that coverage was simulated, and no confidence.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sfumato.alphabet import Floats
from sfumato.errors import InputError
from sfumato.joint import Joint, Noise
from sfumato.noise import projected
from sfumato.uncertainty.renyi import RenyiBall

DRAWS = 400  # of rows and noise, around each centre
EMPTIED = (0.0, 1.0, 2.0, 4.0)  # counts below so many scales of the noise are set to zero in a centre
SEED = 20_260_101  # the same draws for everybody who repeats the simulation
AT_ONCE = 2_000_000  # numbers drawn together


def covering(joint: Joint, coverage: float = 0.95) -> RenyiBall:
    """The ball of order ½ around noisy counts that covers the truth in this share of simulated draws."""
    if joint.noise is None or joint.counts is None:
        raise InputError("covering() is for noisy counts (sf.noisy_counts); around exact ones use ChiSquareBall.")
    if not 0 < coverage < 1:
        raise InputError("coverage must lie strictly between 0 and 1", value=coverage)
    radius = simulated_radius(joint.counts.astype(float), joint.noise, coverage)
    return RenyiBall(replace(joint, noise=replace(joint.noise, coverage=coverage)), alpha=0.5, radius=radius)


def simulated_radius(counts: Floats, noise: Noise, coverage: float, draws: int = DRAWS) -> float:
    """The greatest quantile of D_½ over the centres, the same for everybody."""
    flat, rng = counts.ravel(), np.random.default_rng(SEED)
    radii = []
    for times in EMPTIED:
        centre = np.where(flat >= times * noise.scale, flat, 0.0)
        if times == 0 or (centre.sum() > 0 and (centre != flat).any()):
            radii.append(np.quantile(distances(centre / centre.sum(), noise, rng, draws), coverage, method="higher"))
    return float(max(radii))


def distances(p: Floats, noise: Noise, rng: np.random.Generator, draws: int) -> Floats:
    """D_½ between a distribution and what noisy counts of its rows make of it."""
    out, step, stop = [], max(1, AT_ONCE // len(p)), -np.expm1(-1 / noise.scale)
    for first in range(0, draws, step):
        size = (min(step, draws - first), len(p))
        drawn = rng.multinomial(noise.rows, p, size=size[0]) + rng.geometric(stop, size) - rng.geometric(stop, size)
        near = projected(drawn.astype(float), float(noise.rows)) / noise.rows
        out.append(-2 * np.log(np.minimum(np.sqrt(near * p).sum(1), 1.0)))
    return np.concatenate(out)
