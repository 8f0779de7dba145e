"""Numbers as text. A limit is rounded to the side on which it still holds: what is promised up, what is kept down.

Read back, the text of a limit is never below it (`at_most`) or above it (`at_least`); 0.1 stays 0.1.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal

MISSING = "(missing)"  # how a value that is not there is shown
BIT = math.log(2)  # of information, in nats
LEVEL = 10  # digits of a level where it is what one came for
SHORT = 6  # and where it stands among others
BITS = 4  # of what is kept, and of errors
LONGEST = 1e9  # numbers from here on are told by their power of ten


def at_most(x: float, digits: int = SHORT) -> str:
    """A number that is not exceeded, rounded up.

    >>> at_most(0.12345601), at_most(2.0), at_most(math.inf), at_most(1231.5, 2)
    ('0.123457', '2', '∞', '1300')
    """
    return _text(x, digits, ROUND_CEILING)


def at_least(x: float, digits: int = SHORT) -> str:
    """A number that is reached, rounded down.

    >>> at_least(0.12345699), at_least(1e-9, 2)
    ('0.123456', '1e-09')
    """
    return _text(x, digits, ROUND_FLOOR)


def with_unit(number: str, unit: str) -> str:
    """A number with its unit.

    >>> with_unit("1", "nat"), with_unit("0.5", "nat")
    ('1 nat', '0.5 nats')
    """
    return f"{number} {unit}{'' if number == '1' else 's'}"


def nats(x: float, digits: int = SHORT) -> str:
    """A limit of information, rounded up, with its unit.

    >>> nats(1.0), nats(0.12345601)
    ('1 nat', '0.123457 nats')
    """
    return with_unit(at_most(x, digits), "nat")


def near(x: float, digits: int = BITS) -> str:
    """A number that is measured and limits nothing, rounded to the nearest."""
    return _text(x, digits, ROUND_HALF_EVEN)


def level(x: float, digits: int = SHORT) -> str:
    """A level of privacy as a sentence has it.

    >>> level(1.0000001), level(math.inf)
    ('ε ≤ 1.00001', 'no finite ε')
    """
    return f"ε ≤ {at_most(x, digits)}" if math.isfinite(x) else "no finite ε"


def share_at_most(x: float, digits: int = 1) -> str:
    """A share that is not exceeded, as a percentage rounded up; no share is above 100 %.

    >>> share_at_most(0.99994), share_at_most(0.7311), share_at_most(0.5)
    ('100.0 %', '73.2 %', '50.0 %')
    """
    up = (100 * Decimal(repr(min(float(x), 1.0)))).quantize(Decimal(1).scaleb(-digits), rounding=ROUND_CEILING)
    return f"{up} %"


def in_a_hundred(x: float) -> int:
    """How many of a hundred, of a share that is not exceeded.

    >>> in_a_hundred(0.7311), in_a_hundred(0.73), in_a_hundred(1.2)
    (74, 73, 100)
    """
    return min(int((100 * Decimal(repr(float(x)))).to_integral_value(rounding=ROUND_CEILING)), 100)


def percent(x: float, digits: int = 2) -> str:
    """A share as a percentage.

    >>> percent(0.12345), percent(1 / 3, 0)
    ('12.35 %', '33 %')
    """
    return f"{100 * x:.{digits}f} %"


def sure(x: float, digits: int = BITS) -> str:
    """A chance that is promised, such as a confidence, as a percentage rounded down; next to 1 with all of its nines.

    >>> sure(0.95), sure(0.99996), sure(0.57), sure(0.99999999)
    ('95 %', '99.99 %', '57 %', '99.999999 %')
    """
    whole = Decimal(repr(float(x)))
    missing = 1 - whole
    nines = -missing.adjusted() - (missing != Decimal(1).scaleb(missing.adjusted()))
    rounded = Context(prec=max(digits, nines), rounding=ROUND_FLOOR).plus(100 * whole)
    return f"{rounded.normalize():f} %"


def total(*levels: float) -> float:
    """The sum of levels as they are spelled: 0.1 and 0.2 make 0.3, and no float above it that rounds up.

    >>> total(0.1, 0.2), total(1.0, math.inf)
    (0.3, inf)
    """
    return float(sum(Decimal(repr(float(x))) for x in levels))


def capitalised(sentence: str) -> str:
    """A sentence with a capital at its beginning; what follows is left as it is."""
    return sentence[:1].upper() + sentence[1:]


def _text(x: float, digits: int, rounding: str) -> str:
    x = float(x)
    if not math.isfinite(x):
        return "∞" if x > 0 else "−∞" if x < 0 else "unknown"
    rounded = float(Context(prec=digits, rounding=rounding).plus(Decimal(repr(x))))
    return f"{rounded:.0f}" if 10.0**digits <= abs(rounded) < LONGEST else f"{rounded:.{digits}g}"
