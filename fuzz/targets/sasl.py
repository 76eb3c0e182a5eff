"""What strangers send before they are authenticated: a session answers, or fails, or raises MalformedFrameError.

A stranger never becomes a user without the password; a message that is one byte beside the right one is the place to
look for it. Certificates, JAAS texts and tokens are read, or refused by the errors of their modules.
"""

from __future__ import annotations

import base64
import json
import ssl
from contextlib import suppress
from pathlib import Path
from struct import pack

from fuzz.mutate import mutate_bytes
from fuzz.target import Target
from fuzz.targets.requests import TRANSLATOR
from insync.security import jaas
from insync.security.errors import AuthenticationError
from insync.security.oauthbearer import OAuthBearerServer, OAuthSettings, Token, TokenError, UnsecuredValidator
from insync.security.sasl import SaslServer, SaslSettings
from insync.security.scram import ScramUsers, make_credential
from insync.security.x509_fields import CertificateError, alternative_names, subject_name, valid_until
from insync.server.authentication import SaslSession
from insync.wire import codec
from insync.wire.errors import MalformedFrameError
from insync.wire.frames import FrameBuffer
from insync.wire.messages import sasl_authenticate, sasl_handshake

PASSWORD = "correct horse battery staple"
SCRAM = "SCRAM-SHA-256"
_NOW = 1_700_000_000
_SETTINGS = SaslSettings.of(
    {
        "sasl.enabled.mechanisms": f"PLAIN,{SCRAM},OAUTHBEARER",
        "plain.sasl.jaas.config": f'x.PlainLoginModule required user_alice="{PASSWORD}";',
        "oauthbearer.sasl.jaas.config": "x.OAuthBearerLoginModule required unsecuredValidatorAllowableClockSkewMs=0;",
        "connections.max.reauth.ms": "60000",
    }
)
_USERS = ScramUsers.of({(SCRAM, "alice"): make_credential(SCRAM, PASSWORD, b"salt", 4_096)})
_MAX_FRAME = 1 << 16
_CERTIFICATE = Path(__file__).parents[2] / "tests" / "data" / "tls" / "ca.pem"


def run_sessions(data: bytes) -> None:
    """`data` is what arrives on one connection."""
    server = SaslServer(_SETTINGS, lambda: _USERS, _refuse)
    session = SaslSession(server, TRANSLATOR)
    frames = FrameBuffer(_MAX_FRAME)
    frames.add(data)
    with suppress(MalformedFrameError):
        while (frame := frames.take()) is not None:
            answer = session.receive(frame)
            if answer is not None and answer.failure:
                break
    if session.user is not None and PASSWORD.encode() not in data:
        raise AssertionError("a session without the password")


def _refuse(token: str) -> Token:
    raise TokenError("no token is good")


def run_credentials(data: bytes) -> None:
    for read in (subject_name, alternative_names, valid_until):
        with suppress(CertificateError):
            read(data)
    text = data.decode("utf-8", "replace")
    with suppress(jaas.JaasError):
        jaas.parse(text)
    settings = OAuthSettings.of({}, {"unsecuredValidatorRequiredScope": "x"}, "", "")
    validate = UnsecuredValidator(settings, lambda: float(_NOW))
    with suppress(AuthenticationError):
        OAuthBearerServer(validate).respond(data)
    with suppress(TokenError):
        validate(text)


def _framed(*requests: object) -> bytes:
    frames = [codec.encode_request(request, number, "fuzz") for number, request in enumerate(requests)]
    return b"".join(pack(">i", len(frame)) + frame for frame in frames)


def session_seeds() -> list[bytes]:
    def conversation(mechanism: str, *messages: bytes) -> bytes:
        return _framed(
            sasl_handshake.SaslHandshakeRequest(mechanism=mechanism),
            *(sasl_authenticate.SaslAuthenticateRequest(auth_bytes=message) for message in messages),
        )

    old = codec.encode_request(codec.request_type(17, 0)(mechanism="PLAIN"), 1, "fuzz")
    raw = b"\0alice\0guess"
    return [
        conversation("PLAIN", b"\0alice\0guess"),
        conversation("PLAIN", f"\0alice\0{PASSWORD}".encode(), b"again"),
        conversation(SCRAM, b"n,,n=alice,r=nonce", b"c=biws,r=nonce,p=AAAA"),
        conversation("OAUTHBEARER", b"n,,\x01auth=Bearer a.b.c\x01\x01", b"\x01"),
        conversation("GSSAPI"),
        pack(">i", len(old)) + old + pack(">i", len(raw)) + raw,
    ]


def credential_seeds() -> list[bytes]:
    claims = {"sub": "alice", "exp": _NOW + 60, "scope": "x"}
    parts = (json.dumps({"alg": "none"}), json.dumps(claims))
    token = b".".join(base64.urlsafe_b64encode(part.encode()).rstrip(b"=") for part in parts) + b"."
    return [
        ssl.PEM_cert_to_DER_cert(_CERTIFICATE.read_text()),
        b'a.b.PlainLoginModule required username="x" password="y\\"z" user_a=\'b\';',
        token,
        b"n,a=alice,\x01host=h\x01auth=Bearer " + token + b"\x01\x01",
    ]


SESSIONS = Target(
    name="sasl",
    about="the bytes of a connection that is not authenticated",
    run=run_sessions,
    seeds=session_seeds,
    mutate=mutate_bytes,
)
CREDENTIALS = Target(
    name="credentials",
    about="certificates, JAAS texts and tokens",
    run=run_credentials,
    seeds=credential_seeds,
    mutate=mutate_bytes,
)
