"""The ledger's key: random bytes in a file of its own, without which fingerprints say nothing.

A fingerprint is HMAC-SHA-256 of a column under this key. Whoever has the ledger alone sees which releases had
the same column, and nothing else: without the key no guess about the column can be tried, however few rows it has. The
key is not in the ledger, so that the ledger can be shown to an auditor.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path

from sfumato.errors import FileFormatError, InputError, OutputError

LENGTH = 32


def key_path(ledger: Path) -> Path:
    return ledger.with_name(ledger.name + ".key")


def made_key(ledger: Path) -> bytes:
    """The key beside a ledger, made if there is none; of several processes that make one, all get the first."""
    path = key_path(ledger)
    if not path.exists():
        draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}.part")
        try:
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(secrets.token_bytes(LENGTH))
                file.flush()
                os.fsync(file.fileno())
            os.link(draft, path)
        except FileExistsError:
            pass
        except OSError as error:
            raise OutputError(f"the key {path} could not be made: {error.strerror}.") from None
        finally:
            draft.unlink(missing_ok=True)
    return read_key(ledger)


def read_key(ledger: Path) -> bytes:
    path = key_path(ledger)
    try:
        key = path.read_bytes()
    except OSError as error:
        raise InputError(f"the key {path} of the ledger could not be read: {error.strerror}.") from None
    if len(key) != LENGTH:
        raise FileFormatError(f"{path} is not the key of a ledger: it has {len(key)} bytes, not {LENGTH}.")
    return key


def key_name(key: bytes) -> str:
    """A name of the key that says nothing about it: 256 random bits cannot be guessed from their hash."""
    return hashlib.sha256(b"sfumato ledger key " + key).hexdigest()[:16]
