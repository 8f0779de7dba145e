"""Random tables that nobody looked at: every shape from 2 × 2 to 20 × 20, n from 30 to 10^6, sparse and empty ones too.

A table is a function of its number alone, so that values can be recorded once and compared for ever.
"""

from __future__ import annotations

import numpy as np

EPSILONS = (0.1, 0.5, 1.0, 1.5, 3.0)
EVENNESS = (0.1, 0.3, 1.0, 10.0)  # of Dirichlet laws: from nearly all mass on few cells to nearly even
LEAST, MOST = 2, 20  # values of a column
FEWEST, LARGEST = 30, 1_000_000  # rows


def random_counts(number: int) -> tuple[np.ndarray, float]:
    """Counts [s, u] and an ε. Every eighth table has a secret that never occurs, every ninth a useful value."""
    rng = np.random.default_rng([number, 20_240])
    shape = np.floor(np.exp(rng.uniform(np.log(LEAST), np.log(MOST + 1), 2))).astype(int)
    n = int(np.exp(rng.uniform(np.log(FEWEST), np.log(LARGEST))))
    secrets = rng.dirichlet(np.full(shape[0], rng.choice(EVENNESS)))
    law = secrets[:, None] * rng.dirichlet(np.full(shape[1], rng.choice(EVENNESS)), shape[0])
    if rng.random() < 0.3:  # secret and useful value nearly independent
        law = 0.05 * law + 0.95 * np.outer(secrets, law.sum(0))
    if number % 8 == 7:
        law[rng.integers(shape[0])] = 0.0
    if number % 9 == 8:
        law[:, rng.integers(shape[1])] = 0.0
    total = law.sum()
    counts = rng.multinomial(n, law.ravel() / total if total > 0 else np.full(law.size, 1 / law.size)).reshape(shape)
    return counts.astype(float), float(rng.choice(EPSILONS))
