"""Certification: sealing to integers, and levels proved from them by code that knows nothing of the design."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.demand import on_demand

if TYPE_CHECKING:
    from sfumato.certification.certificate import Certificate, certificate, certify, seal, verify
    from sfumato.certification.promises import THEOREM, PromisesTold, design_sentence, promises

__all__ = [
    "THEOREM", "Certificate", "PromisesTold", "certificate", "certify", "design_sentence", "promises", "seal", "verify",
]

on_demand(__name__, {
    "Certificate": ".certificate", "THEOREM": ".promises", "PromisesTold": ".promises", "certificate": ".certificate",
    "certify": ".certificate", "design_sentence": ".promises", "promises": ".promises", "seal": ".certificate",
    "verify": ".certificate",
})
