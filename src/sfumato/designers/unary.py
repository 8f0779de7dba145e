"""SUE and OUE: a noisy bit for every value."""

from __future__ import annotations

import math

from sfumato.designers.base import Draft, Task
from sfumato.designers.calibration import subsets
from sfumato.mechanism import Unary


def sue(task: Task) -> Draft:
    """Symmetric unary encoding: on = √r / (√r + 1), off = 1 − on, with r = 1 + t the ratio a bit may carry."""
    root = math.sqrt(1 + subsets(task))
    on = 1.0 if math.isinf(root) else root / (root + 1)
    law = Unary(task.rows, task.joint.useful.size, on, 1 - on)
    return Draft(law, "sue", details={"strength": 2 * math.log(root)})


def oue(task: Task) -> Draft:
    """Optimised unary encoding: on = ½, off = 1 / (r + 1) [001, (30)], with r = 1 + t the ratio a bit may carry."""
    ratio = 1 + subsets(task)
    law = Unary(task.rows, task.joint.useful.size, 0.5, 1 / (ratio + 1))
    return Draft(law, "oue", details={"strength": math.log(ratio)})
