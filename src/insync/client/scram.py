"""SCRAM (RFC 5802, RFC 7677): both sides prove that they know the password, and nobody who listens learns it.

A conversation is values only: `first` is sent, each answer goes into `answer`, which returns what is sent next, or None
when the server has proved itself. Kafka takes user names and passwords as their UTF-8 bytes, without the preparation of
strings that the RFC asks for, and so does this.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
FEWEST_ITERATIONS = 4096
MOST_ITERATIONS = 1_000_000
"""A server that asks for more wants to keep us busy, not safe."""
_NO_CHANNEL_BINDING = "n,,"


class ScramError(Exception):
    """The server said something that an honest one that knows the password does not say."""


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
            raise ScramError("it sent no text") from None
        if self._signature is None:
            return self._proof(text)
        self._verify(text)
        return None

    def _proof(self, text: str) -> bytes:
        found = _fields(text)
        nonce, salt, iterations = found.get("r", ""), _bytes(found, "s"), found.get("i", "")
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise ScramError("its nonce does not continue ours")
        if not salt or not iterations.isdecimal() or len(iterations) > 9:
            raise ScramError("its first message names no salt or no number of iterations")
        if not FEWEST_ITERATIONS <= int(iterations) <= MOST_ITERATIONS:
            raise ScramError(f"it asks for {iterations} iterations: {FEWEST_ITERATIONS} to {MOST_ITERATIONS} are taken")
        bare = f"c={b64encode(_NO_CHANNEL_BINDING.encode()).decode()},r={nonce}"
        signed = f"{self._first},{text},{bare}".encode()
        salted = hashlib.pbkdf2_hmac(self._hash, self._password.encode(), salt, int(iterations))
        client_key = self._hmac(salted, b"Client Key")
        stored_key = hashlib.new(self._hash, client_key).digest()
        proof = bytes(a ^ b for a, b in zip(client_key, self._hmac(stored_key, signed), strict=True))
        self._signature = self._hmac(self._hmac(salted, b"Server Key"), signed)
        return f"{bare},p={b64encode(proof).decode()}".encode()

    def _verify(self, text: str) -> None:
        found = _fields(text)
        if "e" in found:
            raise ScramError(f"it refuses: {found['e']}")
        if not hmac.compare_digest(_bytes(found, "v"), self._signature or b""):
            raise ScramError("it does not know the password itself: its signature is wrong")

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash)


def _fields(text: str) -> dict[str, str]:
    """`a=1,b=2`; an attribute that must be understood (`m`) is not."""
    found = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals or len(name) != 1 or name == "m":
            raise ScramError("its message is none of SCRAM's")
        found[name] = value
    return found


def _bytes(fields: dict[str, str], name: str) -> bytes:
    try:
        return b64decode(fields.get(name, ""), validate=True)
    except ValueError:
        raise ScramError("its message is not base64") from None
