"""Designers of others: methods that are registered while a programme runs, beside the package's own."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from sfumato.designers.base import Draft
from sfumato.errors import InputError

Designer = Callable[..., Draft]
REGISTERED: dict[str, Designer] = {}
SHARING = {"ballopt": "robust", "precise": "precise"}  # methods whose searches at several ε share what they find, and
# the modules of their `…_along`


def register(name: str, designer: Designer, *, replace: bool = False) -> None:
    """Make `designer(task, **options) -> Draft` a method by this name: for design, auto's rivals and compare.

    A draft is a suggestion in floats. What it becomes is sealed, and certified for the claim of the task, as every
    other: a designer that keeps no promise makes no mechanism. Keyword-only parameters are the method's options.
    """
    from sfumato.designers.choose import methods

    if not callable(designer):
        raise InputError(f"a designer is a function of a task, got a {type(designer).__name__}.")
    if not (isinstance(name, str) and name.isascii() and name.replace("-", "").replace("_", "").isalnum()):
        raise InputError(f"a method's name has letters, digits and hyphens, got {name!r}.")
    if name in methods() and not (replace and name in REGISTERED):
        raise InputError(f"there is a method {name!r} already: choose another name (or replace=True, if it is yours).")
    REGISTERED[name] = designer


def keywords_of(designer: Designer) -> tuple[str, ...]:
    """The names of its keyword-only parameters."""
    return tuple(p.name for p in inspect.signature(designer).parameters.values() if p.kind is p.KEYWORD_ONLY)
