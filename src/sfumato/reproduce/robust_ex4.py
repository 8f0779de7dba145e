"""000 Example 4: GRR and SRR."""

from __future__ import annotations

from pathlib import Path

from sfumato.designers import design
from sfumato.reproduce.drawing import apart, verdict, write_csv
from sfumato.reproduce.robust_tables import BALL, LOG2, TRUTH
from sfumato.utility import mutual_information

PRINTED = {
    "grr at the estimate": 0.0419, "grr at the truth": 0.0412, "srr at the estimate": 0.1005, "srr at the truth": 0.0942
}


def numbers() -> dict[str, float]:
    made = {"grr": design(BALL, LOG2, "grr", notion="ldp"), "srr": design(BALL, LOG2, "srr")}
    found: dict[str, float] = {}
    for name, d in made.items():
        found[f"{name} at the estimate"] = d.value
        found[f"{name} at the truth"] = mutual_information(d.mechanism, TRUTH)
    found["srr, fitted to F"] = design(BALL, LOG2, "srr", fit=True).value
    return found


def run(out: Path, *, full: bool) -> str:
    found = numbers()
    write_csv(out / "000-ex4.csv", ("name", "found", "printed"), [(k, x, PRINTED.get(k)) for k, x in found.items()])
    return verdict(
        "000-ex4", {"the printed numbers": not apart(found, PRINTED)},
        "I_P̂ and I_P*: grr {:.4f}, {:.4f}; srr {:.4f}, {:.4f} (printed .0419, .0412; .1005, .0942); srr fitted to this "
        "ball keeps {:.4f}".format(*found.values()),
    )
