"""Integer vectors that satisfy integer equations exactly: a short basis, and the nearest one to a target."""

from __future__ import annotations

from fractions import Fraction
from math import gcd

import numpy as np

from sfumato.optimise.arrays import Floats

Vector = list[int]


def kernel(equations: list[Vector], size: int) -> list[Vector]:
    """A basis of {r ∈ Z^size : every equation · r = 0}, by unimodular column operations."""
    basis = [[int(i == j) for j in range(size)] for i in range(size)]
    for equation in equations:
        value = [sum(a * b for a, b in zip(equation, v, strict=True)) for v in basis]
        while sum(x != 0 for x in value) > 1:
            live = sorted((abs(x), i) for i, x in enumerate(value) if x)
            _, least = live[0]
            for _, i in live[1:]:
                times = value[i] // value[least]
                value[i] -= times * value[least]
                basis[i] = [a - times * b for a, b in zip(basis[i], basis[least], strict=True)]
        basis = [v for v, x in zip(basis, value, strict=True) if x == 0]
    return basis


def reduced(basis: list[Vector], delta: Fraction = Fraction(3, 4)) -> list[Vector]:
    """The same lattice with a short basis: Lenstra, Lenstra and Lovász in integers (Cohen, Algorithm 2.6.7)."""
    b = [list(v) for v in basis]
    n = len(b)
    if n == 0:
        return b
    d = [1] + [0] * n  # d[i + 1] = the Gram determinant of the first i + 1 vectors
    lam = [[0] * n for _ in range(n)]

    def dot(x: Vector, y: Vector) -> int:
        return sum(p * q for p, q in zip(x, y, strict=True))

    def gram(k: int) -> None:
        for j in range(k + 1):
            u = dot(b[k], b[j])
            for i in range(j):
                u = (d[i + 1] * u - lam[k][i] * lam[j][i]) // d[i]
            if j < k:
                lam[k][j] = u
            else:
                d[k + 1] = u

    def shorten(k: int, m: int) -> None:
        if 2 * abs(lam[k][m]) <= d[m + 1]:
            return
        q = (2 * lam[k][m] + d[m + 1]) // (2 * d[m + 1])
        b[k] = [x - q * y for x, y in zip(b[k], b[m], strict=True)]
        lam[k][m] -= q * d[m + 1]
        for i in range(m):
            lam[k][i] -= q * lam[m][i]

    def swap(k: int, top: int) -> None:
        b[k], b[k - 1] = b[k - 1], b[k]
        for j in range(k - 1):
            lam[k][j], lam[k - 1][j] = lam[k - 1][j], lam[k][j]
        u, new = lam[k][k - 1], (d[k - 1] * d[k + 1] + lam[k][k - 1] ** 2) // d[k]
        for i in range(k + 1, top + 1):
            t = lam[i][k]
            lam[i][k] = (d[k + 1] * lam[i][k - 1] - u * t) // d[k]
            lam[i][k - 1] = (new * t + u * lam[i][k]) // d[k + 1]
        d[k] = new

    gram(0)
    k = top = 0
    k = 1
    while k < n:
        if k > top:
            top = k
            gram(k)
        shorten(k, k - 1)
        if delta.denominator * (d[k + 1] * d[k - 1] + lam[k][k - 1] ** 2) < delta.numerator * d[k] ** 2:
            swap(k, top)
            k = max(1, k - 1)
        else:
            for m in range(k - 2, -1, -1):
                shorten(k, m)
            k += 1
    return b


def primitive(row: Vector) -> Vector:
    """The row without its common factor."""
    common = gcd(*row)
    return row if common < 2 else [x // common for x in row]


def nearby(basis: list[Vector], target: list[int]) -> Vector:
    """A lattice vector near an integer target: coordinates in the basis, rounded; refined once on what is left."""
    table = np.array(basis, float)
    scale = float(np.abs(table).max())
    rest, found = list(target), [0] * len(target)
    for _ in range(3):
        wanted: Floats = np.array([float(x) for x in rest]) / scale
        coordinates, *_ = np.linalg.lstsq(table.T / scale, wanted, rcond=None)
        for c, v in zip(coordinates, basis, strict=True):
            step = round(float(c))
            if step:
                found = [f + step * x for f, x in zip(found, v, strict=True)]
                rest = [r - step * x for r, x in zip(rest, v, strict=True)]
    return found
