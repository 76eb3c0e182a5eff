"""A client that makes its TLS records itself, after a handshake by OpenSSL: for what Python's ssl never sends."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path
from struct import pack

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

HANDSHAKE, APPLICATION_DATA = 22, 23
CLIENT_HELLO = b"\x01\x00\x00\x00"
"""Without content."""
UPDATE_NOT_REQUESTED, UPDATE_REQUESTED = 0, 1


class Records13:
    """Of TLS 1.3 with TLS_AES_256_GCM_SHA384 (RFC 8446), from the client's side.

    `key_log`: the file that the client's context wrote during the handshake. Nothing was sent since.
    """

    def __init__(self, key_log: Path) -> None:
        self._use(bytes.fromhex(_logged(key_log, "CLIENT_TRAFFIC_SECRET_0")))

    def data(self, content: bytes) -> bytes:
        return self._record(APPLICATION_DATA, content)

    def key_update(self, request: int = UPDATE_NOT_REQUESTED) -> bytes:
        """Every later record has the next keys."""
        record = self._record(HANDSHAKE, b"\x18\x00\x00\x01" + bytes((request,)))
        self._use(_expand(self._secret, "traffic upd", 48))
        return record

    def _use(self, secret: bytes) -> None:
        self._secret = secret
        self._key, self._iv = AESGCM(_expand(secret, "key", 32)), _expand(secret, "iv", 12)
        self._sequence = 0

    def _record(self, kind: int, content: bytes) -> bytes:
        nonce = int.from_bytes(self._iv, "big") ^ self._sequence
        self._sequence += 1
        header = pack(">BHH", APPLICATION_DATA, 0x0303, len(content) + 1 + 16)
        return header + self._key.encrypt(nonce.to_bytes(12, "big"), content + bytes((kind,)), header)


class Records12:
    """Of TLS 1.2 with ECDHE-ECDSA-AES128-GCM-SHA256 (RFC 5246, 5288), from the client's side."""

    def __init__(self, key_log: Path, server_hello: bytes) -> None:
        """`server_hello`: what the server sent first."""
        client_random, master_secret = _logged(key_log, "CLIENT_RANDOM", whole=True).split()
        server_random = server_hello[11:43]
        seed = server_random + bytes.fromhex(client_random)
        block = _prf_sha256(bytes.fromhex(master_secret), b"key expansion" + seed, 40)
        self._key, self._salt = AESGCM(block[:16]), block[32:36]
        self._sequence = 1  # the client's Finished was the first

    def data(self, content: bytes) -> bytes:
        return self._record(APPLICATION_DATA, content)

    def client_hello(self) -> bytes:
        """It asks for a renegotiation."""
        return self._record(HANDSHAKE, CLIENT_HELLO)

    def _record(self, kind: int, content: bytes) -> bytes:
        explicit = pack(">Q", self._sequence)
        additional = explicit + pack(">BHH", kind, 0x0303, len(content))
        self._sequence += 1
        encrypted = explicit + self._key.encrypt(self._salt + explicit, content, additional)
        return pack(">BHH", kind, 0x0303, len(encrypted)) + encrypted


def _logged(key_log: Path, label: str, *, whole: bool = False) -> str:
    line = next(line for line in key_log.read_text().splitlines() if line.startswith(f"{label} "))
    _, random, secret = line.split()
    return f"{random} {secret}" if whole else secret


def _expand(secret: bytes, label: str, size: int) -> bytes:
    """HKDF-Expand-Label; at most one block of SHA-384."""
    name = b"tls13 " + label.encode()
    info = pack(">HB", size, len(name)) + name + b"\x00"
    return hmac.new(secret, info + b"\x01", hashlib.sha384).digest()[:size]


def _prf_sha256(secret: bytes, seed: bytes, size: int) -> bytes:
    result, step = b"", seed
    while len(result) < size:
        step = hmac.new(secret, step, hashlib.sha256).digest()
        result += hmac.new(secret, step + seed, hashlib.sha256).digest()
    return result[:size]
