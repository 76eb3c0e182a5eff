"""The server's side of SCRAM (RFC 5802, RFC 7677), and the credentials that a cluster keeps instead of passwords.

A conversation is values only: each message of the client goes into `respond`, which returns the answer. An unknown user
gets the salt and the iterations of a mock credential, which follows from the name and a key that all nodes of the
cluster share, and fails at the proof like a wrong password. So neither answers nor their timing, compared between
brokers or over time, say which names exist (ADR 27).
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field

from insync.security.errors import AuthenticationError

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MECHANISM_CODES = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
"""As in UserScramCredentialRecord and AlterUserScramCredentials."""
MIN_ITERATIONS = 4_096
MAX_ITERATIONS = 16_384
"""Kafka's limits for credentials that a client stores."""
SALT_BYTES = 24
"""Of credentials that are made here."""
MAX_MESSAGE_BYTES = 4_096
MOCK = ("SCRAM-SHA-512", "")
"""Mechanism and user of the credential whose server key makes mock credentials. No client can have its name."""
_TOKEN_AUTH = "tokenauth"


class ScramError(AuthenticationError):
    """The client's message is not SCRAM, or its proof is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramCredential:
    salt: bytes
    iterations: int
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)


def make_credential(mechanism: str, password: str, salt: bytes, iterations: int) -> ScramCredential:
    salted = hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)
    return credential_of_salted_password(mechanism, salted, salt, iterations)


def credential_of_salted_password(mechanism: str, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    hash_name = HASHES[mechanism]
    client_key = hmac.digest(salted, b"Client Key", hash_name)
    return ScramCredential(
        salt=salt,
        iterations=iterations,
        stored_key=hashlib.new(hash_name, client_key).digest(),
        server_key=hmac.digest(salted, b"Server Key", hash_name),
    )


Shape = tuple[int, int]
"""What a client sees of a credential besides the bytes of its salt: the iterations, and how long the salt is."""
Credentials = Mapping[tuple[str, str], ScramCredential]
"""By mechanism and user, as a cluster's metadata has them."""


@dataclass(frozen=True, slots=True)
class ScramUsers:
    """The users of a cluster, as its metadata has them now."""

    credentials: Credentials
    shapes: Mapping[str, Mapping[Shape, int]]
    """By mechanism: how many credentials there are of each shape."""

    @staticmethod
    def of(credentials: Credentials) -> ScramUsers:
        shapes: dict[str, dict[Shape, int]] = {}
        for (mechanism, user), credential in credentials.items():
            count_shape(shapes, mechanism, user, credential, 1)
        return ScramUsers(credentials, shapes)


def count_shape(
    shapes: dict[str, dict[Shape, int]], mechanism: str, user: str, credential: ScramCredential, change: int
) -> None:
    """`change`: 1 for a credential that was added, -1 for one that was removed."""
    if (mechanism, user) == MOCK:
        return
    counts = shapes.setdefault(mechanism, {})
    shape = (credential.iterations, len(credential.salt))
    counts[shape] = counts.get(shape, 0) + change
    if not counts[shape]:
        del counts[shape]


def make_mock_salt(key: bytes, mechanism: str, user: str, shapes: Mapping[Shape, int]) -> tuple[bytes, int]:
    """Salt and iterations of the mock credential of this name. Shapes are as frequent among mock credentials as among
    users. Another shape comes with another salt, as if the user had changed the password."""
    position = int.from_bytes(_mock_bytes(key, "shape", mechanism, user)[:8], "big") * sum(shapes.values()) >> 64
    iterations, size = MIN_ITERATIONS, SALT_BYTES
    for shape, count in sorted(shapes.items()):
        iterations, size = shape
        if position < count:
            break
        position -= count
    seed = _mock_bytes(key, "salt", mechanism, str(iterations), str(size), user)
    return hashlib.shake_256(seed).digest(size), iterations


def _mock_bytes(key: bytes, *parts: str) -> bytes:
    return hmac.digest(key, ":".join(parts).encode(), "sha512")


class ScramServer:
    """One authentication: `respond` takes the client's first message, then its proof; `user` is set after the proof."""

    __slots__ = (
        "_client_first_bare",
        "_credential",
        "_gs2_header",
        "_hash",
        "_mechanism",
        "_mock_key",
        "_name",
        "_nonce",
        "_server_first",
        "_users",
        "user",
    )

    expires_at_ms = None

    @property
    def claimed_user(self) -> str:
        return self._name

    def __init__(self, mechanism: str, users: ScramUsers, server_nonce: str, mock_key: bytes) -> None:
        """`mock_key` makes the mock credentials of a cluster whose metadata has no key for that."""
        self._mechanism = mechanism
        self._hash = HASHES[mechanism]
        self._users = users
        self._nonce = server_nonce
        stored = users.credentials.get(MOCK)
        self._mock_key = mock_key if stored is None else stored.server_key
        self._gs2_header = b""
        self._name = ""
        self._client_first_bare = ""
        self._server_first = ""
        self._credential: ScramCredential | None = None
        self.user: str | None = None

    def respond(self, message: bytes) -> bytes:
        if len(message) > MAX_MESSAGE_BYTES:
            raise ScramError("The message is too long.")
        try:
            text = message.decode()
        except UnicodeDecodeError:
            raise ScramError("The message is not UTF-8.") from None
        return self._first(text) if not self._server_first else self._final(text)

    @property
    def is_complete(self) -> bool:
        return self.user is not None

    def _first(self, text: str) -> bytes:
        binding, _, rest = text.partition(",")
        authorization_id, _, bare = rest.partition(",")
        if binding not in ("n", "y"):
            raise ScramError("Channel binding is not supported.")
        fields = _parse(bare)
        if "m" in fields or not fields.get("n") or not fields.get("r"):
            raise ScramError("The first message has no user name or no nonce.")
        if fields.get(_TOKEN_AUTH) == "true":
            raise ScramError("Delegation tokens are not supported.")
        self._name = _unescape(fields["n"])
        if authorization_id not in ("", f"a={fields['n']}"):
            raise ScramError("The authorization id differs from the user name.")
        self._gs2_header = f"{binding},{authorization_id},".encode()
        self._client_first_bare = bare
        self._nonce = fields["r"] + self._nonce
        credential = self._credential = self._users.credentials.get((self._mechanism, self._name))
        shapes = self._users.shapes.get(self._mechanism, {})
        # For every user: the time must not say which exist.
        salt, iterations = make_mock_salt(self._mock_key, self._mechanism, self._name, shapes)
        if credential is not None:
            salt, iterations = credential.salt, credential.iterations
        self._server_first = f"r={self._nonce},s={b64encode(salt).decode()},i={iterations}"
        return self._server_first.encode()

    def _final(self, text: str) -> bytes:
        without_proof, separator, proof_text = text.rpartition(",p=")
        fields = _parse(without_proof)
        binding = _decode_base64(fields.get("c", ""))
        # W22: some clients repeat their own nonce before the whole one. The proof covers what they sent.
        if not separator or not fields.get("r", "").endswith(self._nonce) or binding != self._gs2_header:
            raise ScramError("The final message does not continue the first one.")
        proof = _decode_base64(proof_text)
        signed = f"{self._client_first_bare},{self._server_first},{without_proof}".encode()
        credential = self._credential or _NOBODY[self._hash]
        signature = hmac.digest(credential.stored_key, signed, self._hash)
        if len(proof) != len(signature):
            raise ScramError(_WRONG)
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        is_right = hmac.compare_digest(hashlib.new(self._hash, client_key).digest(), credential.stored_key)
        if not is_right or self._credential is None:
            raise ScramError(_WRONG)
        self.user = self._name
        return f"v={b64encode(hmac.digest(credential.server_key, signed, self._hash)).decode()}".encode()


_WRONG = "Authentication failed: the user name or the password is wrong."
_NOBODY = {
    name: ScramCredential(
        salt=b"", iterations=MIN_ITERATIONS, stored_key=bytes(hashlib.new(name).digest_size), server_key=b""
    )
    for name in HASHES.values()
}
"""What the proof of an unknown user is compared with; no proof fits it."""


def _parse(text: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    for part in text.split(","):
        name, separator, value = part.partition("=")
        if not separator or not name or name in fields:
            raise ScramError("The message is not a SCRAM message.")
        fields[name] = value
    return fields


def _unescape(name: str) -> str:
    plain = name.replace("=2C", "\0").replace("=3D", "")
    if "=" in plain or "\0" in name:
        raise ScramError("The user name is not escaped as SCRAM requires.")
    return name.replace("=2C", ",").replace("=3D", "=")


def _decode_base64(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise ScramError("The message is not base64.") from None
