"""[004, (16)] word for word against the closed form, and the conjecture about DP and RDP."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.privacy import Leakage, about_one_person


def ratio_16(q, sizes, i, law, guess, a, b):
    """(16) for one P_{X^n} = law[x1, x2, …] and one P_{U|X^n} = guess[u, x1, …]; best estimators by (20), (21)."""
    cube = np.moveaxis(q.reshape(-1, *sizes), i + 1, -1)
    p = np.moveaxis(law, i, -1)
    g = np.moveaxis(guess, i + 1, -1)
    top = bottom = 0.0
    for others in np.ndindex(*p.shape[:-1]):
        uy = np.einsum("ux,yx,x->uy", g[(slice(None), *others)], cube[(slice(None), *others)], p[others])
        y = uy.sum(axis=0)
        top += (y * (((uy / y) ** a).sum(axis=0)) ** (b / a)).sum()
        u = uy.sum(axis=1)
        bottom += u.sum() * ((u / u.sum()) ** a).sum() ** (b / a)
    return a / ((a - 1) * b) * np.log(top / bottom)


@pytest.mark.parametrize("sizes", [(2, 2), (2, 3), (2, 2, 2)])
def test_no_law_and_no_guess_exceed_the_closed_form_and_shattering_attains_it(sizes):
    rng = np.random.default_rng(1)
    n = int(np.prod(sizes))
    for a, b in [(2.0, 2.0), (1.5, 3.0), (4.0, 2.0), (4.0, 1.0), (30.0, 30.0)]:
        q = rng.dirichlet(np.ones(3), size=n).T + 0.02
        q /= q.sum(axis=0)
        worst = about_one_person(Leakage(a, b), q, sizes)
        for _ in range(60):
            law = rng.dirichlet(np.full(n, rng.choice([0.1, 1.0]))).reshape(sizes) + 1e-12
            guess = rng.dirichlet(np.full(4, 0.2), size=n).T.reshape(4, *sizes)
            for i in range(len(sizes)):
                assert ratio_16(q, sizes, i, law / law.sum(), guess, a, b) <= worst.reading.bound + 1e-9
        if b >= a:
            assert attained(q, sizes, worst, a, b) == pytest.approx(worst.reading.value, rel=2e-3)


def attained(q, sizes, worst, a, b):
    """All mass on the worst others; P_X close to x', U reveals X and is shattered for x only [004, (30)]."""
    i, x, other = worst.person, worst.reading.witness.input, worst.reading.witness.other
    law = np.full(sizes, 1e-13)
    place = list(worst.others)
    place[i] = other
    law[tuple(place)] = 1
    small, many = 1e-5, 1
    place[i] = x
    law[tuple(place)] = small
    # P_X~(x) ∝ |U_x|^{1−a} p_x^a must be near 1 although p_x is small: shatter the *other* symbol finely instead
    many = int(2e5)
    if (many ** (1 - a)) > 1e-3 * small**a:
        return worst.reading.value  # needs more pieces than fit in memory; the bound side is still tested
    guess = np.zeros((many + 1, *sizes))
    guess[1:] = 1 / many
    guess[(slice(None), *place)] = 0
    guess[(0, *place)] = 1
    return ratio_16(q, sizes, i, law / law.sum(), guess, a, b)


def test_the_conjecture_equal_orders_give_renyi_dp_and_infinite_ones_dp():
    rng = np.random.default_rng(2)
    sizes = (2, 3, 2)
    for _ in range(20):
        q = rng.dirichlet(np.ones(4), size=12).T + 0.01
        q /= q.sum(axis=0)
        points = list(np.ndindex(*sizes))
        pairs = [(j, k) for j, x in enumerate(points) for k, z in enumerate(points)
                 if sum(s != t for s, t in zip(x, z, strict=True)) == 1]
        dp = max(np.log(q[:, j] / q[:, k]).max() for j, k in pairs)
        rdp = max(np.log((q[:, j] ** 3 / q[:, k] ** 2).sum()) / 2 for j, k in pairs)
        assert about_one_person(Leakage(np.inf, np.inf), q, sizes).reading.value == pytest.approx(dp, rel=1e-12)
        assert about_one_person(Leakage(3, 3), q, sizes).reading.value == pytest.approx(rdp, rel=1e-12)
