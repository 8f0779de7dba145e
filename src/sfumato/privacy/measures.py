"""What every measure of leakage answers, and the questions it is asked.

A measure is one frozen dataclass. `of(channel, prior=None)` measures a matrix: without a prior the answer is the worst
over all priors, with one it is the value there. `level(mechanism)` and `reading(mechanism, prior=None)` ask the same of
a mechanism, about what it reads or, with `about=joint`, about the secret through p(s, x).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from sfumato.alphabet import Floats, Ints
from sfumato.joint import Joint
from sfumato.mechanism import Mechanism

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
    when the measure does not depend on it. `output_law` is the dual law on outputs that proves the bound, if there is
    one. About a secret, witnesses and priors name secrets, not inputs.
    """

    value: float
    bound: float
    prior: Floats | None = None
    witness: Witness = Witness()
    output_law: Floats | None = None

    @property
    def gap(self) -> float:
        return 0.0 if self.bound == self.value else self.bound - self.value


class Measure(ABC):
    """A number that says how much Y tells about X, or about S."""

    __slots__ = ()

    @property
    @abstractmethod
    def name(self) -> str: ...

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
        from sfumato.privacy.channel import listed, seen_from_secret

        q = listed(mechanism)
        if self.about is None:
            return self.of(q, mechanism.input_law(prior) if isinstance(prior, Joint) else prior)
        seen, secret = seen_from_secret(mechanism, q, self.about)
        if prior is not None:
            return self.of(seen, prior.p_secret if isinstance(prior, Joint) else prior)
        kept = np.flatnonzero(secret > 0)
        return _placed(self.of(seen[:, kept]), kept, secret.size)


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
