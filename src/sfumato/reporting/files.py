"""Report files, written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sfumato.atomic import as_output_error, check_target, drafts
from sfumato.errors import InputError
from sfumato.joint import Joint
from sfumato.mechanism import Bundle, Mechanism
from sfumato.reporting.bundled import Truth
from sfumato.reporting.pages import private_report, public_report


def private_path(path: str | os.PathLike[str]) -> Path:
    """Where the private report lies: released.report.html → released.private-report.html.

    >>> private_path("out/released.report.html").name
    'released.private-report.html'
    """
    target = Path(path)
    return target.with_name(target.name.removesuffix(".html").removesuffix(".report") + ".private-report.html")


def write_reports(
    path: str | os.PathLike[str], mechanism: Mechanism | Bundle, certificate: Any, released: Any = None, *,
    truth: Joint | Truth | None = None, private: str | os.PathLike[str] | None = None, force: bool = False,
    **options: Any,
) -> tuple[Path, ...]:
    """Write the public report to `path` and, when the true table is given, the private one beside it."""
    pages = {Path(path): public_report(mechanism, certificate, released, **options)}
    if truth is not None:
        second = private_path(path) if private is None else Path(private)
        if second in pages:
            raise InputError(f"the public and the private report cannot both be {second}.")
        pages[second] = private_report(mechanism, certificate, released, truth, **options)
    for target in pages:
        check_target(target, None, force=force)
    with drafts(*pages) as made:
        for draft, text in zip(made, pages.values(), strict=True):
            with as_output_error(draft.target), open(draft.descriptor, "wb", closefd=False) as file:
                file.write(text.encode())
            with as_output_error(draft.target):
                draft.settle()
        for draft in made:
            with as_output_error(draft.target):
                draft.publish(replace=force)
    return tuple(pages)
