"""SUE and OUE: a noisy bit for every value."""

from __future__ import annotations

import math
import time

from sfumato.designers.base import Design, Task, finished
from sfumato.designers.calibration import subsets
from sfumato.mechanism import Unary


def sue(task: Task) -> Design:
    """Symmetric unary encoding: on = √r / (√r + 1), off = 1 − on, with r = 1 + t the ratio a bit may carry."""
    started = time.perf_counter()
    root = math.sqrt(1 + subsets(task))
    on = 1.0 if math.isinf(root) else root / (root + 1)
    law = Unary(task.rows, task.joint.useful.size, on, 1 - on)
    return finished(task, law, "sue", started=started, strength=2 * math.log(root))


def oue(task: Task) -> Design:
    """Optimised unary encoding: on = ½, off = 1 / (r + 1) [001, (30)], with r = 1 + t the ratio a bit may carry."""
    started = time.perf_counter()
    ratio = 1 + subsets(task)
    law = Unary(task.rows, task.joint.useful.size, 0.5, 1 / (ratio + 1))
    return finished(task, law, "oue", started=started, strength=math.log(ratio))
