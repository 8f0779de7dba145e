"""A quiet, single-threaded HiGHS simplex that keeps its basis."""

from __future__ import annotations

import highspy


def simplex() -> highspy.Highs:
    """An empty maximisation problem. Presolve is off because it would throw the basis away between solves."""
    lp = highspy.Highs()  # type: ignore[no-untyped-call]
    for name, setting in (
        ("output_flag", False),
        ("presolve", "off"),
        ("solver", "simplex"),
        ("threads", 1),
        ("parallel", "off"),
        ("dual_feasibility_tolerance", 1e-9),
        ("primal_feasibility_tolerance", 1e-9),
    ):
        lp.setOptionValue(name, setting)
    lp.changeObjectiveSense(highspy.ObjSense.kMaximize)
    return lp
