"""What a team's server sees of blocks: names that are keyed hashes, and values that are signed or encrypted.

    value      header, body, signature         or, encrypted,         header, nonce, encrypted body with its tag
    header     b"EFKV", version, flags, form   little endian; flags: 1 approximate, 2 encrypted
    body       the parent's name, the data     unless it is encrypted, the parent's name is masked

Signature and encryption cover the server's name for the value as well, so that no value passes for another. Tags of
documents are left out: they are hashes of paths.
"""

from __future__ import annotations

import hmac
import os
from struct import Struct
from struct import error as StructError

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from kv_store.block import NAME_BYTES, Block, Name

PREFIX = "efim"  # of all names on a server
HEADER = Struct("<4sBBH")
MAGIC, VERSION = b"EFKV", 1
APPROXIMATE, ENCRYPTED = 1, 2
NONCE_BYTES, SIGNATURE_BYTES, TEAM_BYTES = 12, 32, 8


class Sealer:
    """Names, seals and opens blocks with keys that are derived (HKDF, RFC 5869) from a team's key and a salt."""

    def __init__(self, key: str, salt: str, encrypt: bool) -> None:
        """Derive the keys; `encrypt` applies to values sealed here: both kinds can be opened."""
        secret = _hash(salt.encode(), key.encode())
        derived = (_hash(secret, each + b"\1") for each in (b"team", b"names", b"signatures", b"encryption"))
        team, self._names, self._signatures, self._encryption = derived
        self.team, self._encrypt = team[:TEAM_BYTES].hex(), encrypt

    def name(self, name: Name) -> str:
        """Return the name of a block on the server, behind the team's prefix."""
        return _hash(self._names, b"name" + name)[:NAME_BYTES].hex()

    def seal(self, block: Block) -> bytes:
        """Return a block's value."""
        flags = APPROXIMATE * block.approximate + ENCRYPTED * self._encrypt
        header = HEADER.pack(MAGIC, VERSION, flags, block.form)
        if self._encrypt:
            nonce, body = os.urandom(NONCE_BYTES), block.parent + block.data.tobytes()
            return header + nonce + self._cipher(block.name).encrypt(nonce, body, self._bound(block.name, header))
        signed = header + self._masked(block.name, block.parent) + block.data.tobytes()
        return signed + self._signature(block.name, signed)

    def open(self, name: Name, value: bytes) -> Block | None:
        """Return the block that was sealed under a name, None if the value is anything else."""
        header = value[: HEADER.size]
        try:
            magic, version, flags, form = HEADER.unpack(header)
            body = self._body(name, value, header, flags) if (magic, version) == (MAGIC, VERSION) else None
        except (StructError, InvalidTag, ValueError):
            return None
        if body is None or len(body) < NAME_BYTES:
            return None
        data = np.frombuffer(body, np.uint8, offset=NAME_BYTES)
        return Block(name, body[:NAME_BYTES], 0, form, bool(flags & APPROXIMATE), data)

    def _body(self, name: Name, value: bytes, header: bytes, flags: int) -> bytes | None:
        """Return a value's body if it is genuine; raises InvalidTag and ValueError."""
        if flags & ENCRYPTED:
            start = HEADER.size + NONCE_BYTES
            nonce, encrypted = value[HEADER.size : start], value[start:]
            return self._cipher(name).decrypt(nonce, encrypted, self._bound(name, header))
        signed, signature = value[:-SIGNATURE_BYTES], value[-SIGNATURE_BYTES:]
        if not hmac.compare_digest(signature, self._signature(name, signed)):
            return None
        start = HEADER.size + NAME_BYTES
        return self._masked(name, signed[HEADER.size : start]) + signed[start:]

    def _bound(self, name: Name, content: bytes) -> bytes:
        """Return content together with the whole name that the server has for it."""
        return f"{PREFIX}:{self.team}:{self.name(name)}:".encode() + content

    def _signature(self, name: Name, signed: bytes) -> bytes:
        return _hash(self._signatures, self._bound(name, signed))

    def _cipher(self, name: Name) -> AESGCM:
        """Return a cipher with a key of the block's own, so that random nonces never run short."""
        return AESGCM(_hash(self._encryption, name))

    def _masked(self, name: Name, parent: bytes) -> bytes:
        """Mask a parent's name, or take the mask off: names without a key would tell which text a block is of."""
        mask = _hash(self._names, b"parent" + name)
        return bytes(a ^ b for a, b in zip(parent, mask, strict=False))


def sealed_bytes(block_bytes: int) -> int:
    """Return the bytes of the largest value for a block of `block_bytes` bytes."""
    return HEADER.size + NONCE_BYTES + NAME_BYTES + block_bytes + SIGNATURE_BYTES


def _hash(key: bytes, content: bytes) -> bytes:
    return hmac.digest(key, content, "sha256")
