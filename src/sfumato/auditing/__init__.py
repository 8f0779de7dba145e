"""Auditing: the adversary of the operational definitions, played against a black box or a released table."""

from sfumato.auditing.audits import Audit, audit
from sfumato.auditing.judging import Judgement

__all__ = ["Audit", "Judgement", "audit"]
