"""Measures of channels Q[y, x] under priors p[x]: checked once, cut down to what can be seen, seen from the secret."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, NoReturn, Protocol

import numpy as np
import numpy.typing as npt

from sfumato.alphabet import Floats, Ints
from sfumato.errors import InputError
from sfumato.joint import Joint
from sfumato.mechanism import Mechanism
from sfumato.tolerances import CHANNEL, SUMS_TO_ONE

if TYPE_CHECKING:
    from sfumato.privacy.ldp import RLDP

# --- what every measure of leakage answers, and the questions it is asked ---------------------------------------------
# A measure is one frozen dataclass. `of(channel, prior=None)` measures a matrix: without a prior the answer is the
# worst over all priors, with one it is the value there. `level(mechanism)` and `reading(mechanism, prior=None)` ask
# the same of a mechanism, about what it reads or, with `about=joint`, about the secret through p(s, x).


STARTS = 8  # from which a worst prior or distribution is sought, where a search may end early
GAP = 1e-10  # nats between value and bound that an iterative measure is asked to reach


@dataclass(frozen=True, slots=True)
class Witness:
    """Where a value is attained: the input that gains, the input it is told from, the output that tells."""

    input: int | None = None
    other: int | None = None
    output: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """A measured leakage: value ≤ truth ≤ bound, in nats unless the measure says otherwise.

    `prior` is the law on inputs that attains the value: the given one, the worst one (possibly a limit point), or None
    when the measure does not depend on it. About a secret, witnesses and priors name secrets, not inputs.
    """

    value: float
    bound: float
    prior: Floats | None = None
    witness: Witness = Witness()

    @property
    def gap(self) -> float:
        return 0.0 if self.bound == self.value else self.bound - self.value


class Measure(ABC):
    """A number that says how much Y tells about X, or about S."""

    __slots__ = ()
    unit: ClassVar[str] = "nats"  # '': a share
    title: ClassVar[str] = ""  # its name, with places for its orders

    @property
    def name(self) -> str:
        return self.title.format(self)

    @property
    def about(self) -> Joint | None:
        """The joint through which S is seen, or None for the input itself."""
        return None

    @abstractmethod
    def of(self, channel: npt.ArrayLike, prior: npt.ArrayLike | None = None) -> Reading:
        """The measure for Q[y, x], at a prior p[x] or in the worst case over priors."""

    def level(self, mechanism: Mechanism) -> float:
        """The value for a mechanism in the worst case over priors of what it is about."""
        return self.reading(mechanism).value

    def reading(self, mechanism: Mechanism, prior: Joint | npt.ArrayLike | None = None) -> Reading:
        """Value, bound, prior and witness for a mechanism, at a prior (an array or a joint) or at the worst one.

        About a secret the conditionals p(x|s) are held and only p(s) varies, over the secrets that occur.
        """
        if self.about is None:
            return self.of(listed(mechanism), mechanism.input_law(prior) if isinstance(prior, Joint) else prior)
        seen, secret = seen_from_secret(mechanism, self.about)
        if prior is not None:
            return self.of(seen, prior.p_secret if isinstance(prior, Joint) else prior)
        kept = np.flatnonzero(secret > 0)
        return _placed(self.of(seen[:, kept]), kept, secret.size)


@dataclass(frozen=True, slots=True, eq=False)
class AnyMeasure(Measure):
    """A measure that is about the input, or about the secret of a joint that it is given."""

    about: Joint | None = field(default=None, kw_only=True)


def _placed(found: Reading, kept: Ints, size: int) -> Reading:
    """The reading of some columns, told in the numbers of all."""
    if kept.size == size:
        return found
    prior = None
    if found.prior is not None:
        prior = np.zeros(size)
        prior[kept] = found.prior
    w = found.witness
    named = [None if x is None else int(kept[x]) for x in (w.input, w.other)]
    return replace(found, prior=prior, witness=Witness(named[0], named[1], w.output))


# --- channels Q[y, x] and priors p[x]: checked once, cut down to what can be seen, seen from the secret, put together -


def as_channel(channel: npt.ArrayLike) -> Floats:
    """Q[y, x] as floats: nonnegative, columns normalised to 1."""
    q = np.array(channel, dtype=np.float64)
    if q.ndim != 2 or q.size == 0:
        raise InputError(f"a channel is a matrix Q[y, x], got shape {q.shape}.")
    if not np.all(np.isfinite(q)) or np.any(q < 0):
        raise InputError("a channel has finite entries, zero or more.")
    totals = q.sum(axis=0)
    if np.any(np.abs(totals - 1) > SUMS_TO_ONE):
        worst = int(np.argmax(np.abs(totals - 1)))
        raise InputError(f"columns of Q[y, x] sum to 1, column {worst} sums to {totals[worst]:.12g}.")
    return np.asarray(q / totals)


def as_prior(prior: npt.ArrayLike, inputs: int) -> Floats:
    """p[x] as floats that sum to 1."""
    p = np.array(prior, dtype=np.float64)
    if p.shape != (inputs,):
        raise InputError(f"the prior has {inputs} entries, got shape {p.shape}.")
    if not np.all(np.isfinite(p)) or np.any(p < 0) or abs(p.sum() - 1) > SUMS_TO_ONE:
        raise InputError(f"a prior is nonnegative and sums to 1, got sum {p.sum():.12g}.")
    return np.asarray(p / p.sum())


@dataclass(frozen=True, slots=True, eq=False)
class Live:
    """A channel cut down to inputs that have mass and outputs that occur, with the way back."""
    q: Floats
    prior: Floats | None
    inputs: Ints
    outputs: Ints
    shape: tuple[int, int]

    @property
    def p(self) -> Floats:
        """The prior, which the caller knows was given."""
        assert self.prior is not None
        return self.prior

    def on_inputs(self, p: Floats) -> Floats:
        full = np.zeros(self.shape[1])
        full[self.inputs] = p
        return full

    def witness(self, x: int | None = None, other: int | None = None, y: int | None = None) -> Witness:
        return Witness(
            None if x is None else int(self.inputs[x]),
            None if other is None else int(self.inputs[other]),
            None if y is None else int(self.outputs[y]),
        )


def live(channel: npt.ArrayLike, prior: npt.ArrayLike | None) -> Live:
    """The part of the channel that can be seen: measures with a prior look only at its support."""
    q = as_channel(channel)
    p = None if prior is None else as_prior(prior, q.shape[1])
    inputs = np.arange(q.shape[1]) if p is None else np.flatnonzero(p > 0)
    kept = q[:, inputs]
    outputs = np.flatnonzero(kept.any(axis=1))
    return Live(np.ascontiguousarray(kept[outputs]), None if p is None else p[inputs], inputs, outputs, q.shape)


def listed(mechanism: Mechanism) -> Floats:
    """Q[y, x] of a mechanism whose outputs can be listed.

    Measures that are sums over outputs need them all. LDP, LIP and RLDP do not, and take laws of any size.
    """
    law = mechanism.law
    many = law.meaning == "subset" and mechanism.inputs > 20
    if many or law.outputs * mechanism.inputs > CHANNEL:
        size = f"2^{mechanism.inputs}" if many else f"{law.outputs:,}"
        raise InputError(
            f"this measure sums over all outputs, and {size} outputs for {mechanism.inputs:,} inputs are too many to "
            f"list (at most {CHANNEL:,} cells)",
            next="LDP, LIP and RLDP are known for laws of any size, and LDP bounds (α, β)-leakage from above for β ≤ "
            "α.",
        )
    q = law.matrix()
    assert q is not None
    return q


def seen_from_secret(
    mechanism: Mechanism, joint: Joint, channel: Floats | None = None
) -> tuple[Floats, Floats]:
    """P(y|s) = Σ_x Q(y|x) p(x|s) as a channel [y, s], and the prior p[s]."""
    shape = (mechanism.secret.size, mechanism.useful.size)
    fits = joint.shape == shape if mechanism.reads == "both" else joint.shape[1] == shape[1]
    if not fits:
        raise InputError(
            f"the mechanism is for {shape[0]} × {shape[1]} values, the joint for {joint.shape[0]} × {joint.shape[1]}."
        )
    channel = listed(mechanism) if channel is None else channel
    rows = channel.reshape(len(channel), mechanism.law.rows, mechanism.law.useful)
    rows = np.broadcast_to(rows, (len(channel), *joint.shape))
    return np.einsum("ysu,su->ys", rows, joint.useful_given_secret), joint.p_secret


# --- several releases as one channel ----------------------------------------------------------------------------------


def together(*channels: npt.ArrayLike) -> Floats:
    """Releases of the same X, drawn independently given X: Q[(y₁, y₂, …), x] = Π_j Q_j[y_j, x], last index fastest."""
    joined = as_channel(channels[0])
    for channel in channels[1:]:
        q = as_channel(channel)
        joined = (joined[:, None, :] * q[None, :, :]).reshape(-1, q.shape[1])
    return joined


def apart(*channels: npt.ArrayLike) -> Floats:
    """Releases of independent inputs: the Kronecker product, inputs (x₁, x₂, …), outputs (y₁, y₂, …)."""
    joined = as_channel(channels[0])
    for channel in channels[1:]:
        joined = np.asarray(np.kron(joined, as_channel(channel)), dtype=np.float64)
    return joined


@dataclass(frozen=True, slots=True, eq=False)
class OverviewLine:
    """One measure: at the joint's prior and at the worst one, of the record or of the secret."""

    name: str
    about: str  # "record" or "secret"
    worst: Reading
    at_joint: Reading | None
    unit: str = "nats"


def lines_of(measures: Iterable[Measure], about: str, q: Floats, p: Floats | None) -> tuple[OverviewLine, ...]:
    """Several measures of one channel, at a prior and at the worst one."""
    return tuple(OverviewLine(m.name, about, m.of(q), None if p is None else m.of(q, p), m.unit) for m in measures)


class Notion(Protocol):
    """A measure of leakage in nats."""

    def level(self, mechanism: Mechanism) -> float:
        """The least ε for which the mechanism satisfies the notion."""


def _no_notion(given: object) -> NoReturn:
    raise InputError(f"a notion of privacy was expected, got a {type(given).__name__}",
                     next="Give one, such as sf.LDP() or sf.Leakage(2, 2).")


def level(mechanism: Mechanism, notion: Notion) -> float:
    """The least ε for which the mechanism satisfies the notion, in floats; `certify` proves it from the integers.

    >>> from sfumato import Leakage, Tabular
    >>> mechanism = Tabular([[0.75, 0.25], [0.25, 0.75]])
    >>> [round(level(mechanism, Leakage(a, b)), 6) for a, b in ((1, 1), (2, 2), (float("inf"), 1))]
    [0.130812, 0.847298, 0.405465]
    """
    return notion.level(mechanism) if hasattr(notion, "level") else _no_notion(notion)


def measure(
    mechanism: Mechanism, notion: Measure | RLDP, prior: Joint | npt.ArrayLike | None = None
) -> Reading:
    """Value, bound, prior and witness of a measure for a mechanism, at a prior or at the worst one.

    >>> from sfumato import Leakage, Tabular
    >>> found = measure(Tabular([[0.75, 0.25], [0.25, 0.75]]), Leakage(4, 2))
    >>> round(found.value, 6), found.gap <= 1e-10, found.witness.other is not None
    (0.57983, True, True)
    """
    return notion.reading(mechanism, prior) if hasattr(notion, "reading") else _no_notion(notion)
