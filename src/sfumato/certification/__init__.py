"""Certification: sealing to integers, and levels proved from them by code that knows nothing of the design."""

from sfumato.certification.certificate import Certificate, certificate, certify, verify
from sfumato.certification.promises import THEOREM, Told, design_sentence, promises
from sfumato.certification.sealing import seal

__all__ = [
    "THEOREM", "Certificate", "Told", "certificate", "certify", "design_sentence", "promises", "seal", "verify",
]
