"""Decoders: the known channel from outputs to the labels they were turned back into."""

from __future__ import annotations

import numpy as np

from sfumato.alphabet import Floats
from sfumato.drawing.manifest import DECODES
from sfumato.errors import InputError, unknown
from sfumato.mechanism import Mechanism


def decoded_law(mechanism: Mechanism, decode: str) -> Floats | None:
    """P(label | x) of decoded rows as [label, x]; None when outputs were written as themselves.

    'likely' writes the mode of the posterior under the design distribution, 'sample' a draw from it. Both are
    fixed by the mechanism file, so the decoded rows went through a known channel D∘Q: coarser than Q, and
    inverted in the same way.
    """
    if decode not in DECODES:
        raise unknown("a way of decoding", decode, DECODES)
    if decode == "symbols":
        return None
    q = mechanism.matrix
    if q is None or mechanism.joint is None:
        reason = "has too many outputs to list" if q is None else "does not carry its design distribution"
        raise InputError(f"rows decoded as {decode!r} cannot be inverted: the mechanism {reason}", next="Use symbols.")
    if decode == "likely":
        from sfumato.drawing.posterior import likeliest

        return _sums(q, likeliest(mechanism)(_every_output(mechanism), 0))
    p = mechanism.input_law(mechanism.joint)
    joint = q * p
    total = joint.sum(1, keepdims=True)
    posterior = np.divide(joint, total, out=np.broadcast_to(p, joint.shape).copy(), where=total > 0)
    return np.asarray(posterior.T @ q)


def _every_output(mechanism: Mechanism) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    y = np.arange(mechanism.outputs)
    if mechanism.law.meaning != "subset":
        return y
    return (y[:, None] >> np.arange(mechanism.inputs)) & 1


def _sums(q: Floats, label: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> Floats:
    """Rows of Q that share a label, added."""
    out = np.zeros((q.shape[1], q.shape[1]))
    np.add.at(out, label, q)
    return out
