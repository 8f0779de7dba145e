"""Auditing: the adversary of the operational definitions, played against a black box or a released table."""

from sfumato.auditing.attacks import Judgement
from sfumato.auditing.audits import Audit, audit

__all__ = ["Audit", "Judgement", "audit"]
