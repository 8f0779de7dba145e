"""What an uncertainty set is: its worst case over the distributions it allows; and the sets without a radius."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeGuard

import numpy as np

from sfumato.alphabet import Floats, Ints
from sfumato.errors import InputError
from sfumato.joint import Joint, checked_joint

if TYPE_CHECKING:
    from sfumato.alphabet import Real


FEW_PAIRS, MANY_PAIRS = 16, 4096  # whose exact worst cases are sought at first, so that many need none, and at once


@dataclass(frozen=True, slots=True, eq=False)
class Worst:
    """The greatest P(y|s1) / P(y|s2) for a row, with conditionals of U that attain (or approach) it."""

    ratio: float
    given_first: Floats  # R1[u]
    given_second: Floats  # R2[u]


@dataclass(frozen=True, slots=True, eq=False)
class Extreme:
    """The greatest ⟨c, P⟩ over the set, with a maximiser P[s, u]."""

    value: float
    p: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """The greatest (R₁·v₁)/(R₂·v₂) with the conditionals that attain it and, for balls, multipliers μ ≥ max v₁,
    m ≤ min v₂ that prove it (nearly: certification checks them)."""

    ratio: Floats
    first: Floats
    second: Floats
    mu: Floats = field(default_factory=lambda: np.zeros(0))
    m: Floats = field(default_factory=lambda: np.zeros(0))

    @property
    def arrays(self) -> tuple[Floats, ...]:
        return self.ratio, self.first, self.second, self.mu, self.m


class WorstPairs(Protocol):
    """What a search asks of a set: its worst cases for two secrets at a time."""

    @property
    def joint(self) -> Joint:
        """The estimate P̂ it surrounds, with the labels."""

    def pairs(self, first: Floats, second: Floats, s1: Ints, s2: Ints, close: float = ...) -> Pairs:
        """`ratios` with conditionals that attain them; a looser `close` may name pairs that are not quite the worst."""


class UncertaintySet(WorstPairs, Protocol):
    """A set F of joint distributions of (S, U), known by its worst cases."""

    kind: ClassVar[str]

    @property
    def possible(self) -> Ints:
        """The secrets that some member lets occur: those that privacy compares."""

    def worst(self, row: Floats, s1: int, s2: int) -> Worst:
        """Greatest P(y|s1) / P(y|s2) over P in F for the row Q(y|·) as [s, u]."""

    def ratios(self, first: Floats, second: Floats, s1: Ints, s2: Ints) -> Floats:
        """`worst` for many pairs at once: first[i, u] for secret s1[i] against second[i, u] for s2[i]."""

    def spikes(self) -> tuple[Floats, Floats]:
        """Least and greatest P(u|s) over F, as two tables [s, u]."""

    def ranges(self, rows: Floats) -> tuple[Floats, Floats]:
        """Least and greatest Σ_u P(u|s) v[y, s, u] over F for each y and s: what one secret alone allows."""

    def ranges_of(self, values: Floats, s: Ints) -> tuple[Floats, Floats]:
        """`ranges` for rows that belong to one secret each: values[i, u] for secret s[i]."""

    def support(self, c: Floats) -> Extreme:
        """max ⟨c, P⟩ over P in F."""


def is_set(given: object) -> TypeGuard[UncertaintySet]:
    """Whether something is a set of distributions, where people may give other things too."""
    return hasattr(given, "worst") and hasattr(given, "joint")


class FromPairs:
    """What follows, for a set, from its worst pairs and from its ranges of one secret."""

    __slots__ = ()

    @property
    def possible(self: UncertaintySet) -> Ints:
        return np.arange(self.joint.secret.size)

    def worst(self: UncertaintySet, row: Floats, s1: int, s2: int) -> Worst:
        pair = self.pairs(row[None, s1], row[None, s2], np.array([s1]), np.array([s2]))
        return Worst(float(pair.ratio[0]), pair.first[0], pair.second[0])

    def ratios(self: UncertaintySet, first: Floats, second: Floats, s1: Ints, s2: Ints) -> Floats:
        return self.pairs(first, second, s1, s2).ratio

    def spikes(self: UncertaintySet) -> tuple[Floats, Floats]:
        s, u = self.joint.shape
        low, high = self.ranges(np.broadcast_to(np.eye(u)[:, None, :], (u, s, u)))
        return low.T, high.T

    def ranges(self: UncertaintySet, rows: Floats) -> tuple[Floats, Floats]:
        v = np.broadcast_to(rows, (len(rows), *self.joint.shape))
        y, s, u = v.shape
        low, high = self.ranges_of(v.reshape(-1, u), np.tile(np.arange(s), y))
        return low.reshape(y, s), high.reshape(y, s)


def quotient(top: Real, bottom: Real) -> Floats:
    """top / bottom with 0/0 = 1 (an output that never occurs tells nothing) and x/0 = ∞."""
    with np.errstate(divide="ignore", invalid="ignore"):
        out = np.asarray(top, float) / (np.asarray(bottom, float) + 0.0)  # + 0.0: x / −0.0 would be −∞
    return np.where(np.isnan(out), 1.0, out)


def best_pairs(top: Floats, bottom: Floats) -> Floats:
    """For each column the greatest top[i] / bottom[j] over i ≠ j."""
    return greatest_of_pairs(top, bottom, quotient)


def greatest_gap(high: Floats, low: Floats, factor: float | Floats) -> Floats:
    """For each column max over i ≠ j of high[i] − factor·low[j]: the worst pair of secrets for each useful value.

    A factor of shape (…, 1) gives the gaps of many factors at once, (…, columns).
    """
    return greatest_of_pairs(high, low, lambda first, second: first - factor * second)


def greatest_of_pairs(top: Floats, bottom: Floats, of: Callable[[Floats, Floats], Floats]) -> Floats:
    """For each column the greatest of(top[i], bottom[j]) over i ≠ j, which grows with the first and falls with the
    second: at the greatest and the least, or with the next to one of them where both are in one place."""
    i, j, columns = np.argmax(top, 0), np.argmin(bottom, 0), np.arange(top.shape[1])
    high, low, others, rest = top[i, columns], bottom[j, columns], top.copy(), bottom.copy()
    others[i, columns], rest[j, columns] = -np.inf, np.inf
    return np.where(i == j, np.maximum(of(others.max(0), low), of(high, rest.min(0))), of(high, low))


def worst_first(bounds: Floats, found: Callable[[], float]) -> Iterator[Ints]:
    """Places of bounds[i], the greatest first, as long as they exceed what is found: a few, and then more at a time."""
    rest, order, count = np.flatnonzero(bounds > found()), np.zeros(0, np.int64), FEW_PAIRS
    while len(order) or len(rest):
        if len(order) < count and len(rest):  # some are put in order at a time: few are ever asked for
            values = bounds[rest]
            enough = values >= np.partition(values, -min(MANY_PAIRS, len(rest)))[-min(MANY_PAIRS, len(rest))]
            some, rest = rest[enough], rest[~enough]
            order = np.concatenate([order, some[np.argsort(-bounds[some], kind="stable")]])
        yield order[:count]
        order, count, least = order[count:], min(FEW_PAIRS * count, MANY_PAIRS), found()
        order, rest = order[bounds[order] > least], rest[bounds[rest] > least]


@dataclass(frozen=True, slots=True, eq=False)
class Anything(FromPairs):
    """F is the whole simplex: P(U|s1) and P(U|s2) may each sit on any one value [000, Prop. 3]."""

    joint: Joint
    kind: ClassVar[str] = "anything"

    def ratios(self, first: Floats, second: Floats, s1: Ints, s2: Ints) -> Floats:
        return quotient(first.max(-1), second.min(-1))

    def pairs(self, first: Floats, second: Floats, s1: Ints, s2: Ints, close: float = 0.0) -> Pairs:
        one = np.eye(first.shape[-1])
        return Pairs(self.ratios(first, second, s1, s2), one[first.argmax(-1)], one[second.argmin(-1)])

    def spikes(self) -> tuple[Floats, Floats]:
        many = float(self.joint.useful.size > 1)
        return np.full(self.joint.shape, 1.0 - many), np.ones(self.joint.shape)

    def ranges_of(self, values: Floats, s: Ints) -> tuple[Floats, Floats]:
        return values.min(-1), values.max(-1)

    def support(self, c: Floats) -> Extreme:
        p = np.zeros(c.shape)
        p[np.unravel_index(int(np.argmax(c)), c.shape)] = 1
        return Extreme(float(c.max()), p)


@dataclass(frozen=True, slots=True, eq=False)
class Exactly(FromPairs):
    """F = {P̂}: privacy is promised at the estimate and nowhere else. A secret with P̂_s = 0 is not looked at."""
    joint: Joint
    kind: ClassVar[str] = "exactly"

    def __post_init__(self) -> None:
        checked_joint(self.joint, "a known distribution")

    @property
    def possible(self) -> Ints:
        return np.flatnonzero(self.joint.p_secret > 0)

    def ratios(self, first: Floats, second: Floats, s1: Ints, s2: Ints) -> Floats:
        q = self.joint.useful_given_secret
        return quotient((first * q[s1]).sum(-1), (second * q[s2]).sum(-1))

    def pairs(self, first: Floats, second: Floats, s1: Ints, s2: Ints, close: float = 0.0) -> Pairs:
        q = self.joint.useful_given_secret
        return Pairs(self.ratios(first, second, s1, s2), q[s1], q[s2])

    def spikes(self) -> tuple[Floats, Floats]:
        q = self.joint.useful_given_secret
        return q, q

    def ranges_of(self, values: Floats, s: Ints) -> tuple[Floats, Floats]:
        means = (values * self.joint.useful_given_secret[s]).sum(-1)
        return means, means

    def support(self, c: Floats) -> Extreme:
        return Extreme(float((c * self.joint.p).sum()), self.joint.p)


Range = Callable[[Floats, int], tuple[float, float]]


@dataclass(frozen=True, slots=True, eq=False)
class Custom(FromPairs):
    """A set given by `between`: (v, s) ↦ least and greatest Σ_u P(u|s) v_u over the set.

    The two secrets of a pair are bounded apart, so levels are upper bounds: the set is taken as the product of its
    conditionals. trusted=True states that `between` is proved (its floats lie outside the true range); only then can
    mechanisms be sealed and released, and the certificate says that the bounds are as given by the set. A file carries
    the name of the set, not its code: whoever loads it must put the set back into the claim to verify or release.

    >>> joint = Joint.from_probabilities([[0.3, 0.2], [0.1, 0.4]])
    >>> q = joint.useful_given_secret
    >>> near = Custom(joint, lambda v, s: (0.9 * q[s] @ v + 0.1 * v.min(), 0.9 * q[s] @ v + 0.1 * v.max()))
    >>> near.spikes()[0].round(2).tolist()
    [[0.54, 0.36], [0.18, 0.72]]
    """
    joint: Joint
    between: Range | None
    trusted: bool = False
    name: str = "custom"
    kind: ClassVar[str] = "custom"

    def ranges_of(self, values: Floats, s: Ints) -> tuple[Floats, Floats]:
        if self.between is None:
            raise InputError(
                f"the set {self.name!r} is defined by code that is not in the file",
                next="Rebuild it with sf.Custom to measure or verify levels over it.",
            )
        ends = np.array([self.between(np.asarray(v, float), int(t)) for v, t in zip(values, s, strict=True)], float)
        low, high = ends.reshape(-1, 2).T
        if not np.all(low <= high):  # catches NaN
            raise InputError(f"the set {self.name!r} gave a range whose least value exceeds its greatest.")
        return np.maximum(low, values.min(1)), np.minimum(high, values.max(1))

    def ratios(self, first: Floats, second: Floats, s1: Ints, s2: Ints) -> Floats:
        return quotient(self.ranges_of(first, s1)[1], self.ranges_of(second, s2)[0])

    def pairs(self, first: Floats, second: Floats, s1: Ints, s2: Ints, close: float = 0.0) -> Pairs:
        """The ratios; a set that only gives ranges cannot name conditionals that attain them, so they are NaN."""
        unknown = np.full(first.shape, np.nan)
        return Pairs(self.ratios(first, second, s1, s2), unknown, unknown)

    def support(self, c: Floats) -> Extreme:
        """An upper bound of ⟨c, P⟩: the greatest conditional mean over secrets; the maximiser is not known."""
        high = self.ranges_of(c, np.arange(len(c)))[1]
        return Extreme(float(high.max()), np.full(c.shape, np.nan))
