"""Certification: sealing to integers, and levels proved from them by code that knows nothing of the design."""

from sfumato.certification.certificate import Certificate, certificate, certify, verify
from sfumato.certification.sealing import seal

__all__ = ["Certificate", "certificate", "certify", "seal", "verify"]
