"""The server's side of SCRAM against our client's, and against what attackers send."""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode
from hashlib import pbkdf2_hmac, sha256

import pytest

from insync.client.scram import Scram
from insync.security.scram import HASHES, ScramCredential, ScramError, ScramServer, make_credential

SECRET = b"secret of the process"
ITERATIONS = 4_096


def credentials(mechanism: str) -> dict[str, ScramCredential]:
    names = {"alice": "wonder=land,1", "b=o,b": "hunter2"}
    return {
        name: make_credential(mechanism, password, b"salt of " + name.encode(), ITERATIONS)
        for name, password in names.items()
    }


def server(mechanism: str = "SCRAM-SHA-256") -> ScramServer:
    return ScramServer(mechanism, credentials(mechanism).get, "server-nonce", SECRET)


def client(user: str, password: str, mechanism: str = "SCRAM-SHA-256") -> Scram:
    return Scram(HASHES[mechanism], user, password, "client-nonce")


@pytest.mark.parametrize("mechanism", HASHES)
@pytest.mark.parametrize(("user", "password"), [("alice", "wonder=land,1"), ("b=o,b", "hunter2")])
def test_the_right_password_proves_both_sides(mechanism: str, user: str, password: str) -> None:
    ours, theirs = server(mechanism), client(user, password, mechanism)
    proof = theirs.answer(ours.respond(theirs.first()))
    assert proof is not None
    assert not ours.is_complete
    assert theirs.answer(ours.respond(proof)) is None, "the client accepts the server's signature"
    assert ours.is_complete
    assert ours.user == user


def test_a_client_may_repeat_its_own_nonce_before_the_whole_one() -> None:
    """W22: the proof is made over what the client sends, so nothing is gained by it."""
    ours = server()
    first = "n=alice,r=client-nonce"
    server_first = ours.respond(f"n,,{first}".encode()).decode()
    without_proof = "c=biws,r=client-nonceclient-nonceserver-nonce"
    salted = pbkdf2_hmac("sha256", b"wonder=land,1", b"salt of alice", ITERATIONS)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    signature = hmac.digest(sha256(client_key).digest(), f"{first},{server_first},{without_proof}".encode(), "sha256")
    proof = b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True))).decode()
    ours.respond(f"{without_proof},p={proof}".encode())
    assert ours.user == "alice"


def failure(user: str, password: str) -> str:
    ours, theirs = server(), client(user, password)
    proof = theirs.answer(ours.respond(theirs.first()))
    assert proof is not None
    with pytest.raises(ScramError) as error:
        ours.respond(proof)
    assert not ours.is_complete
    return str(error.value)


def test_an_unknown_user_costs_as_many_hashes_as_a_known_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times are too noisy to compare; what takes the time is not."""
    digest = hmac.digest
    calls = 0

    def counted(key: bytes, message: bytes, name: str) -> bytes:
        nonlocal calls
        calls += 1
        return digest(key, message, name)

    monkeypatch.setattr(hmac, "digest", counted)

    def hashes(user: str) -> int:
        nonlocal calls
        calls = 0
        ours, theirs = server(), client(user, "wrong")
        proof = theirs.answer(ours.respond(theirs.first()))
        assert proof is not None
        with pytest.raises(ScramError):
            ours.respond(proof)
        return calls

    assert hashes("alice") == hashes("nobody")


def test_an_unknown_user_is_answered_as_a_wrong_password_is() -> None:
    assert failure("alice", "wrong") == failure("mallory", "wrong")
    first = client("mallory", "x").first()
    assert server().respond(first) == server().respond(first), "the salt of an unknown user does not change"
    assert server().respond(first) != server().respond(client("eve", "x").first())


def test_the_vector_of_rfc_7677() -> None:
    credential = make_credential("SCRAM-SHA-256", "pencil", b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="), ITERATIONS)
    ours = ScramServer("SCRAM-SHA-256", {"user": credential}.get, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", SECRET)
    assert ours.respond(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO") == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    final = (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert ours.respond(final) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\xff\xfe",
        b"p=tls-unique,,n=alice,r=x",
        b"n,,n=alice",
        b"n,,r=x",
        b"n,,n=,r=x",
        b"n,,m=ext,n=alice,r=x",
        b"n,a=bob,n=alice,r=x",
        b"n,,n=al=ice,r=x",
        b"n,,n=alice,n=bob,r=x",
        b"n,,n=alice,r=x,tokenauth=true",
        b"n,,n=alice,r=" + b"x" * 5_000,
    ],
)
def test_a_first_message_that_is_not_scram_is_refused(message: bytes) -> None:
    with pytest.raises(ScramError):
        server().respond(message)


def test_a_proof_for_another_exchange_is_refused() -> None:
    """A recorded exchange is worth nothing: the server's nonce differs."""
    recorded, theirs = server(), client("alice", "wonder=land,1")
    proof = theirs.answer(recorded.respond(theirs.first()))
    assert proof is not None
    replayed = ScramServer("SCRAM-SHA-256", credentials("SCRAM-SHA-256").get, "another-nonce", SECRET)
    replayed.respond(theirs.first())
    with pytest.raises(ScramError, match="does not continue"):
        replayed.respond(proof)


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_truncated_proof_is_refused(cut: int) -> None:
    ours, theirs = server(), client("alice", "wonder=land,1")
    proof = theirs.answer(ours.respond(theirs.first()))
    assert proof is not None
    with pytest.raises(ScramError):
        ours.respond(proof[:-cut])


def test_credentials_do_not_show_their_keys() -> None:
    text = repr(credentials("SCRAM-SHA-256")["alice"])
    assert "stored_key" not in text
    assert "server_key" not in text
