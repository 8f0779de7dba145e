"""Which designer answers a method name, and which one `auto` takes."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sfumato.designers.base import Design, Task
from sfumato.designers.cr import cr
from sfumato.designers.grr import grr
from sfumato.designers.ir import ir
from sfumato.designers.ldp import ldp
from sfumato.designers.lip import lip
from sfumato.designers.mi_funnel import mi_funnel
from sfumato.designers.srlip import srlip, srlip_paper
from sfumato.designers.srr import srr
from sfumato.designers.unary import oue, sue
from sfumato.errors import InputError, unknown
from sfumato.uncertainty import Exactly, UncertaintySet

_DESIGNERS: dict[str, Callable[..., Design]] = {
    "grr": grr, "sue": sue, "oue": oue, "srr": srr, "ir": ir, "cr": cr,
    "lip": lip, "ldp": ldp, "srlip": srlip, "srlip-paper": srlip_paper, "mi-funnel": mi_funnel,
}
_FUNNEL = {"lip": "lip", "ldp": "rldp", "srlip": "srlip", "srlip-paper": "srlip", "mi-funnel": "mi"}
# The notion that a funnel method implies; all of them read the useful variable alone.
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
    The funnel methods (lip, ldp, srlip, srlip-paper, mi-funnel) imply their notion and read the useful variable alone.
    """
    if method in _FUNNEL:
        return _run(method, Task(within, epsilon, _FUNNEL[method], "useful"), options)
    if notion == "lip" and not isinstance(within, Exactly):
        within = Exactly(within.joint)  # closed forms promise LIP at P̂ and say so
    task = Task(within, epsilon, notion, reads)
    if method == "auto":
        return _auto(task, options)
    if method not in _DESIGNERS:
        raise unknown("a method", method, methods())
    return _run(method, task, options)


def _run(method: str, task: Task, options: dict[str, Any]) -> Design:
    designer = _DESIGNERS[method]
    known = [p.name for p in inspect.signature(designer).parameters.values() if p.kind is p.KEYWORD_ONLY]
    for name in options:
        if name not in known:
            raise unknown(f"an option of {method}", name, known) if known else InputError(
                f"{method} takes no options, got {name!r}."
            )
    return designer(task, **options)


def _auto(task: Task, options: dict[str, Any]) -> Design:
    """The best of the closed forms by what they keep of the input."""
    started = time.perf_counter()
    tried = [_run(name, task, options) for name in _CANDIDATES[task.reads]]
    best = max(tried, key=lambda d: d.value)
    listed = ", ".join(f"{d.method} {d.value:.4g}" for d in tried)
    note = f"auto took {best.method}: it keeps most of the closed forms (nats: {listed})"
    return replace(best, notes=(*best.notes, note), seconds=time.perf_counter() - started)
