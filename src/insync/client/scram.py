"""SCRAM (RFC 5802, RFC 7677): both sides prove that they know the password without sending it.

A conversation does no I/O: `first` is the first message to send, and `answer` takes each answer of the server and
returns the next message, or None when the server has proved that it knows the password. Like Kafka, this uses the UTF-8
bytes of user names and passwords without the string preparation that the RFC requires.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MIN_ITERATIONS = 4096
MAX_ITERATIONS = 1_000_000
"""More would only keep the client busy."""
_NO_CHANNEL_BINDING = "n,,"


class ScramError(Exception):
    """The server's message is not that of a server that knows the password."""


class Scram:
    __slots__ = ("_first", "_hash", "_nonce", "_password", "_signature", "_user")

    def __init__(self, hash_name: str, user: str, password: str, nonce: str) -> None:
        self._hash = hash_name
        self._user = user.replace("=", "=3D").replace(",", "=2C")
        self._password = password
        self._nonce = nonce
        self._first = f"n={self._user},r={nonce}"
        self._signature: bytes | None = None

    def first(self) -> bytes:
        return (_NO_CHANNEL_BINDING + self._first).encode()

    def answer(self, challenge: bytes) -> bytes | None:
        try:
            text = challenge.decode()
        except UnicodeDecodeError:
            raise ScramError("its message is not UTF-8") from None
        if self._signature is None:
            return self._proof(text)
        self._verify(text)
        return None

    def _proof(self, text: str) -> bytes:
        fields = _parse_fields(text)
        nonce, salt, iterations = fields.get("r", ""), _decode_field(fields, "s"), fields.get("i", "")
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise ScramError("its nonce does not continue ours")
        if not salt or not iterations.isdecimal() or len(iterations) > 9:
            raise ScramError("its first message has no salt or no iteration count")
        if not MIN_ITERATIONS <= int(iterations) <= MAX_ITERATIONS:
            raise ScramError(f"it requires {iterations} iterations; {MIN_ITERATIONS} to {MAX_ITERATIONS} are accepted")
        bare = f"c={b64encode(_NO_CHANNEL_BINDING.encode()).decode()},r={nonce}"
        signed = f"{self._first},{text},{bare}".encode()
        salted = hashlib.pbkdf2_hmac(self._hash, self._password.encode(), salt, int(iterations))
        client_key = self._hmac(salted, b"Client Key")
        stored_key = hashlib.new(self._hash, client_key).digest()
        proof = bytes(a ^ b for a, b in zip(client_key, self._hmac(stored_key, signed), strict=True))
        self._signature = self._hmac(self._hmac(salted, b"Server Key"), signed)
        return f"{bare},p={b64encode(proof).decode()}".encode()

    def _verify(self, text: str) -> None:
        fields = _parse_fields(text)
        if "e" in fields:
            raise ScramError(f"it reported {fields['e']}")
        if not hmac.compare_digest(_decode_field(fields, "v"), self._signature or b""):
            raise ScramError("its signature is wrong: it does not know the password")

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash)


def _parse_fields(text: str) -> dict[str, str]:
    """Parse `a=1,b=2`; the mandatory extension `m` is not supported."""
    fields = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals or len(name) != 1 or name == "m":
            raise ScramError("its message is not a SCRAM message")
        fields[name] = value
    return fields


def _decode_field(fields: dict[str, str], name: str) -> bytes:
    try:
        return b64decode(fields.get(name, ""), validate=True)
    except ValueError:
        raise ScramError("its message is not base64") from None
