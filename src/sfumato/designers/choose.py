"""Which designer answers a method name, and which one `auto` takes."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sfumato.designers.base import Design, Draft, Task, finished
from sfumato.designers.cr import cr
from sfumato.designers.grr import grr
from sfumato.designers.ir import ir
from sfumato.designers.leakage import leakage
from sfumato.designers.robust import ballopt, nr, polyopt
from sfumato.designers.srr import srr
from sfumato.designers.unary import oue, sue
from sfumato.errors import InputError, unknown
from sfumato.uncertainty import Exactly, UncertaintySet

_DESIGNERS: dict[str, Callable[..., Draft]] = {
    "grr": grr, "sue": sue, "oue": oue, "srr": srr, "ir": ir, "cr": cr,
    "polyopt": polyopt, "ballopt": ballopt, "nr": nr, "leakage": leakage,
}
_POINTWISE = {"nr"}  # methods that are private at P̂ alone and claim no more
_CANDIDATES = {"both": ("ir", "srr", "grr", "cr"), "useful": ("grr",)}  # what `auto` compares


def methods() -> tuple[str, ...]:
    """The method names that `design` takes."""
    return (*_DESIGNERS, "auto")


def design(
    within: UncertaintySet, epsilon: float, method: str = "auto", *, notion: str = "rldp", reads: str = "both",
    **options: Any,
) -> Design:
    """A sealed and certified mechanism for every distribution in `within`, by a method from `methods()`.

    notion is 'rldp' (about the secret, over the set), 'lip' (about the secret, at P̂) or 'ldp' (about the input).
    reads='useful' designs a mechanism that never sees the secret. Further options go to the designer.
    """
    task, started = Task(within, epsilon, notion, reads), time.perf_counter()
    if method == "auto":
        return finished(task, _auto(task, options), started)
    if method not in _DESIGNERS:
        raise unknown("a method", method, methods())
    if method in _POINTWISE:
        task = Task(Exactly(within.joint), epsilon, notion, reads)
    return finished(task, _draft(method, task, options), started)


def _draft(method: str, task: Task, options: dict[str, Any]) -> Draft:
    designer = _DESIGNERS[method]
    known = [p.name for p in inspect.signature(designer).parameters.values() if p.kind is p.KEYWORD_ONLY]
    for name in options:
        if name not in known:
            raise unknown(f"an option of {method}", name, known) if known else InputError(
                f"{method} takes no options, got {name!r}."
            )
    return designer(task, **options)


def _auto(task: Task, options: dict[str, Any]) -> Draft:
    """The best of the closed forms by what they keep of the input."""
    tried = [_draft(name, task, options) for name in _CANDIDATES[task.reads]]
    values = [draft.value(task) for draft in tried]
    best = tried[max(range(len(tried)), key=lambda i: values[i])]
    listed = ", ".join(f"{draft.method} {value:.4g}" for draft, value in zip(tried, values, strict=True))
    note = f"auto took {best.method}: it keeps most of the closed forms (nats: {listed})"
    return replace(best, notes=(*best.notes, note))
