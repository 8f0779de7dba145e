"""Memory: random words that a secret key and a record determine, so that the same question gets the same answer."""

from __future__ import annotations

import hashlib
import hmac

from sfumato.errors import InputError

LEAST_KEY = 16  # bytes
BLOCK = 64  # bytes that one call of the hash function gives


def memory_key(key: bytes, mechanism: str) -> bytes:
    """The key of one mechanism: answers of different mechanisms share no randomness."""
    if not isinstance(key, bytes) or len(key) < LEAST_KEY:
        raise InputError(f"a key to remember answers by is {LEAST_KEY} random bytes or more: secrets.token_bytes(32).")
    return hmac.new(key, b"sfumato memory " + mechanism.encode(), hashlib.sha256).digest()


def remembered(key: bytes, person: bytes, code: int, words: int) -> bytes:
    """Words for a person and an input: BLAKE2b keyed by `memory_key`, a pseudorandom function of both.

    Whoever does not have the key cannot tell them from fresh words. A changed value has words of its own, a value that
    comes back has its old ones.
    """
    record = code.to_bytes(8, "big") + person
    blocks = range(-(-8 * words // BLOCK))
    made = (hashlib.blake2b(record, key=key, salt=i.to_bytes(16, "big"), digest_size=BLOCK) for i in blocks)
    return b"".join(block.digest() for block in made)[: 8 * words]
