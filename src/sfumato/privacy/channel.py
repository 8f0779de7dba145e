"""Channels Q[y, x] and priors p[x]: checked once, cut down to what can be seen, seen from the secret, put together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.alphabet import Floats, Ints
from sfumato.errors import InputError
from sfumato.joint import Joint
from sfumato.mechanism import Mechanism
from sfumato.privacy.measures import Witness

# ----------------------------------------------------------------------------------------------------------------------
# Channels Q[y, x] and priors p[x]: checked once, cut down to what can be seen, and seen from the secret.


COLUMN_SLACK = 1e-9  # a column may miss 1 by this much: files carry decimal digits
LISTED_CELLS = 4_000_000  # the largest |Y| × |X| that is listed to be measured


def as_channel(channel: npt.ArrayLike) -> Floats:
    """Q[y, x] as floats: nonnegative, columns normalised to 1."""
    q = np.array(channel, dtype=np.float64)
    if q.ndim != 2 or q.size == 0:
        raise InputError(f"a channel is a matrix Q[y, x], got shape {q.shape}.")
    if not np.all(np.isfinite(q)) or np.any(q < 0):
        raise InputError("a channel has finite entries, zero or more.")
    totals = q.sum(axis=0)
    if np.any(np.abs(totals - 1) > COLUMN_SLACK):
        worst = int(np.argmax(np.abs(totals - 1)))
        raise InputError(f"columns of Q[y, x] sum to 1, column {worst} sums to {totals[worst]:.12g}.")
    return np.asarray(q / totals)


def as_prior(prior: npt.ArrayLike, inputs: int) -> Floats:
    """p[x] as floats that sum to 1."""
    p = np.array(prior, dtype=np.float64)
    if p.shape != (inputs,):
        raise InputError(f"the prior has {inputs} entries, got shape {p.shape}.")
    if not np.all(np.isfinite(p)) or np.any(p < 0) or abs(p.sum() - 1) > COLUMN_SLACK:
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

    def on_outputs(self, q: Floats) -> Floats:
        full = np.zeros(self.shape[0])
        full[self.outputs] = q
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
    many = mechanism.law.meaning == "subset" and mechanism.inputs > 20
    if many or mechanism.outputs * mechanism.inputs > LISTED_CELLS:
        size = f"2^{mechanism.inputs}" if many else f"{mechanism.outputs:,}"
        raise InputError(
            f"this measure sums over all outputs, and {size} outputs for {mechanism.inputs:,} inputs are too many to "
            f"list (at most {LISTED_CELLS:,} cells)",
            next="LDP, LIP and RLDP are known for laws of any size, and LDP bounds (α, β)-leakage from above for β ≤ "
            "α.",
        )
    q = mechanism.matrix
    assert q is not None
    return q


def seen_from_secret(mechanism: Mechanism, channel: Floats, joint: Joint) -> tuple[Floats, Floats]:
    """P(y|s) = Σ_x Q(y|x) p(x|s) as a channel [y, s], and the prior p[s]."""
    shape = (mechanism.secret.size, mechanism.useful.size)
    fits = joint.shape == shape if mechanism.reads == "both" else joint.shape[1] == shape[1]
    if not fits:
        raise InputError(
            f"the mechanism is for {shape[0]} × {shape[1]} values, the joint for {joint.shape[0]} × {joint.shape[1]}."
        )
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
