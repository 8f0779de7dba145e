"""RLDP: robust local differential privacy, about the secret and for every distribution in a set."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.alphabet import Floats
from sfumato.mechanism import Atoms, Mechanism, Rows, Spikes, Subsets
from sfumato.privacy.measures import Reading, Witness
from sfumato.uncertainty import Anything, Exactly, UncertaintySet
from sfumato.uncertainty.sets import best_pairs, quotient

if TYPE_CHECKING:
    from sfumato.alphabet import Bools, Ints
    from sfumato.mechanism.law import Weight, Weights

CHUNK = 256  # pairs whose exact worst case is sought at once
LISTED = 12  # useful values up to which the subsets of a unary law are listed
ATTAINED = 1e-9  # a witness within this share of the worst ratio is one
OUTSTANDING = 64  # atoms of a large layout compared on each side
ENOUGH = 1e-12  # a pair whose bound exceeds the best found by less than this cannot matter


@dataclass(frozen=True, slots=True, eq=False)
class RLDP:
    """max log P(y|s₁) / P(y|s₂) over y, s₁ ≠ s₂ and P in F [000, Def. 1].

    What one secret alone allows bounds every pair; only pairs whose bound exceeds the best ratio found so far are
    given their exact worst case over F. Secrets that F says cannot occur are not compared.
    """

    within: UncertaintySet

    def level(self, mechanism: Mechanism) -> float:
        worst = self.worst(mechanism)
        return math.log(worst) if math.isfinite(worst) else math.inf

    def worst(self, mechanism: Mechanism) -> float:
        """e^level."""
        secrets = compared(self.within)
        if len(secrets) < 2:
            return 1.0
        found = 1.0
        for contrast in mechanism.law.contrasts():
            match contrast:
                case Rows():
                    found = max(found, self._rows(contrast.floats, secrets, found))
                case Spikes():
                    found = max(found, self._spikes(contrast, secrets, found))
                case Subsets():
                    found = max(found, self._subsets(contrast, secrets, found))
                case Atoms() if isinstance(self.within, Exactly):
                    joint = self.within.joint
                    top, bottom, _, _ = mechanism.law.secret_laws(joint.useful_given_secret, joint.p_secret)
                    found = max(found, float(quotient(top, bottom).max()))
                case Atoms():
                    found = max(found, self._atoms(contrast, secrets, found))
        return found

    def reading(self, mechanism: Mechanism) -> Reading:
        """The level with an output and two secrets that attain it, found among listed outputs.

        The bound is what each secret alone allows over F; `certify` proves a tighter one from the integers.
        """
        value, secrets = self.level(mechanism), compared(self.within)
        if len(secrets) < 2 or math.isinf(value) or mechanism.matrix is None:
            return Reading(value, math.inf if mechanism.matrix is None else value)
        v = mechanism.matrix.reshape(-1, mechanism.law.rows, mechanism.law.useful)
        v = np.broadcast_to(v, (len(v), *self.within.joint.shape))
        low, high = self.within.ranges(v)
        bounds = quotient(high[:, secrets, None], low[:, None, secrets])
        bounds[:, np.arange(len(secrets)), np.arange(len(secrets))] = 0
        order = np.argsort(-bounds.ravel(), kind="stable")
        best = (0.0, Witness())
        for k in order:
            if bounds.ravel()[k] <= best[0] or best[0] >= math.exp(value) * (1 - ATTAINED):
                break
            y, i, j = (int(x) for x in np.unravel_index(k, bounds.shape))
            s1, s2 = int(secrets[i]), int(secrets[j])
            best = max(best, (self.within.worst(v[y], s1, s2).ratio, Witness(s1, s2, y)), key=lambda b: b[0])
        return Reading(value, max(value, math.log(float(bounds.max()))), None, best[1])

    def _rows(self, values: Weights, secrets: Ints, found: float) -> float:
        shape = (len(values), *self.within.joint.shape)
        v = np.broadcast_to(np.asarray(values, float), shape)
        low, high = self.within.ranges(v)
        bounds = quotient(high[:, secrets, None], low[:, None, secrets])
        bounds[:, np.arange(len(secrets)), np.arange(len(secrets))] = 0
        if isinstance(self.within, Exactly | Anything):
            return float(bounds.max())
        order = np.argsort(-bounds.ravel(), kind="stable")
        order = order[bounds.ravel()[order] > found]
        for start in range(0, len(order), CHUNK):
            part = order[start : start + CHUNK]
            if bounds.ravel()[part[0]] <= found * (1 + ENOUGH):
                break
            y, i, j = np.unravel_index(part, bounds.shape)
            s1, s2 = secrets[i], secrets[j]
            found = max(found, float(self.within.ratios(v[y, s1], v[y, s2], s1, s2).max()))
        return found

    def _spikes(self, c: Spikes, secrets: Ints, found: float) -> float:
        low, high = self.within.spikes()
        shape = low.shape
        first = _spread(c.base_first, c.peak_first, shape)
        second = _spread(c.base_second, c.peak_second, shape)
        top = np.maximum(*(first[0] + (first[1] - first[0]) * r for r in (low, high)))[secrets]
        bottom = np.minimum(*(second[0] + (second[1] - second[0]) * r for r in (low, high)))[secrets]
        bounds = best_pairs(top, bottom)
        if isinstance(self.within, Exactly | Anything):
            return float(bounds.max())
        for u in np.argsort(-bounds, kind="stable"):
            if bounds[u] <= found * (1 + ENOUGH):
                break
            found = max(found, self._spike_pairs(int(u), first, second, top[:, u], bottom[:, u], secrets, found))
        return found

    def _spike_pairs(
        self, u: int, first: Weight, second: Weight, top: Floats, bottom: Floats, secrets: Ints, found: float
    ) -> float:
        """The exact worst case of the output that peaks at u over pairs of secrets whose bound exceeds `found`."""
        bounds = quotient(top[:, None], bottom[None, :])
        np.fill_diagonal(bounds, 0)
        order = np.argsort(-bounds.ravel(), kind="stable")
        order = order[bounds.ravel()[order] > found]
        at = np.arange(self.within.joint.useful.size) == u
        for start in range(0, len(order), CHUNK):
            part = order[start : start + CHUNK]
            if bounds.ravel()[part[0]] <= found * (1 + ENOUGH):
                break
            i, j = np.unravel_index(part, bounds.shape)
            s1, s2 = secrets[i], secrets[j]
            v1 = np.where(at, first[1][s1, u, None], first[0][s1, u, None])
            v2 = np.where(at, second[1][s2, u, None], second[0][s2, u, None])
            found = max(found, float(self.within.ratios(v1, v2, s1, s2).max()))
        return found

    def _atoms(self, c: Atoms, secrets: Ints, found: float) -> float:
        """Any two atoms of different secrets, as if some row held both; over a ball, those that stand out most."""
        listed = np.isin(c.secret, secrets)
        v, s = np.asarray(c.heights[listed], float), c.secret[listed]
        low, high = self.within.ranges_of(v, s)
        if not isinstance(self.within, Anything):
            i, j = np.argsort(-high)[:OUTSTANDING], np.argsort(low)[:OUTSTANDING]
            i, j = (x.ravel() for x in np.meshgrid(i, j, indexing="ij"))
            i, j = i[s[i] != s[j]], j[s[i] != s[j]]
            return max([found, *self.within.ratios(v[i], v[j], s[i], s[j])]) if len(i) else found
        size = self.within.joint.secret.size
        top, bottom = np.zeros((size, 1)), np.full((size, 1), np.inf)
        np.maximum.at(top[:, 0], s, high)
        np.minimum.at(bottom[:, 0], s, low)
        return max(found, float(best_pairs(top[secrets], bottom[secrets])[0]))

    def _subsets(self, c: Subsets, secrets: Ints, found: float) -> float:
        low, high = float(c.low), float(c.high)
        if isinstance(self.within, Anything):
            return high / low if low > 0 else math.inf
        k = self.within.joint.useful.size
        if k <= LISTED:
            for block in _subset_blocks(k):
                found = max(found, self._rows(np.where(block, high, low)[:, None, :], secrets, found))
            return found
        return max(found, subset_bound(self.within, low, high))


def compared(within: UncertaintySet) -> Ints:
    """The secrets that F allows to occur."""
    ps = within.joint.p_secret
    if (possible := getattr(within, "possible", None)) is not None:
        return np.asarray(possible)
    everything = isinstance(within, Anything) or getattr(within, "radius", 0.0) > 0
    return np.arange(len(ps)) if everything else np.flatnonzero(ps > 0)


def _spread(base: Weight, peak: Weight, shape: tuple[int, int]) -> tuple[Floats, Floats]:
    return np.broadcast_to(np.asarray(base, float), shape), np.broadcast_to(np.asarray(peak, float), shape)


def _subset_blocks(k: int) -> Iterator[Bools]:
    """All subsets of k values as boolean rows, in blocks."""
    codes = np.arange(2**k)
    for start in range(0, 2**k, 512):
        yield ((codes[start : start + 512, None] >> np.arange(k)) & 1).astype(bool)


def subset_bound(within: UncertaintySet, low: float, high: float) -> float:
    """An upper bound of the worst ratio over all subsets of many useful values.

    The ratio of s₁ to s₂ is at most λ if d·Σ_u (R₁ − λR₂)₊ ≤ (λ − 1)·low with d = high − low; the sum is at most
    Σ (max R₁ − λ min R₂)₊ and at most 1. The least such λ, by bisection.
    """
    least, most = within.spikes()
    secrets = compared(within)
    if low <= 0:
        return math.inf
    d, worst = high - low, 1.0
    for s1, s2 in itertools.permutations(secrets, 2):
        small, large = 1.0, high / low
        for _ in range(60):
            mid = (small + large) / 2
            room = d * min(1.0, float(np.maximum(most[s1] - mid * least[s2], 0).sum())) <= (mid - 1) * low
            small, large = (small, mid) if room else (mid, large)
        worst = max(worst, large)
    return worst
