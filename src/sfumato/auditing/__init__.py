"""Auditing: the adversary of the operational definitions, played against a black box or a released table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.libraries import on_demand

if TYPE_CHECKING:
    from sfumato.auditing.attacks import Judgement
    from sfumato.auditing.audits import Audit, audit

__all__ = on_demand(__name__)
