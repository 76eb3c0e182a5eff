"""The server's side of SCRAM against our client's, and against what attackers send."""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode
from hashlib import pbkdf2_hmac, sha256

import pytest

from insync.client.scram import Scram
from insync.security.scram import (
    HASHES,
    MIN_ITERATIONS,
    MOCK,
    SALT_BYTES,
    ScramCredential,
    ScramError,
    ScramServer,
    ScramUsers,
    make_credential,
    make_mock_salt,
)

SECRET = b"secret of the process"
ITERATIONS = 4_096


def users(mechanism: str) -> ScramUsers:
    names = {"alice": "wonder=land,1", "b=o,b": "hunter2"}
    credentials = {
        (mechanism, name): make_credential(mechanism, password, b"salt of " + name.encode(), ITERATIONS)
        for name, password in names.items()
    }
    return ScramUsers.of(credentials)


def server(mechanism: str = "SCRAM-SHA-256") -> ScramServer:
    return ScramServer(mechanism, users(mechanism), "server-nonce", SECRET)


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


def server_first(users: ScramUsers, name: str, process_key: bytes) -> bytes:
    server = ScramServer("SCRAM-SHA-256", users, "server-nonce", process_key)
    return server.respond(client(name, "x").first())


def with_mock_key(users: ScramUsers) -> ScramUsers:
    key = ScramCredential(salt=bytes(24), iterations=4_096, stored_key=b"", server_key=b"key of the cluster")
    return ScramUsers.of({**users.credentials, MOCK: key})


def test_all_brokers_show_the_same_salt_for_an_unknown_user() -> None:
    """Or a client that compares two of them would know which names exist."""
    known = with_mock_key(users("SCRAM-SHA-256"))
    reordered = ScramUsers.of(dict(reversed(list(known.credentials.items()))))
    answers = [server_first(known, "mallory", b"one process"), server_first(reordered, "mallory", b"another")]
    assert answers[0] == answers[1]
    without_key = users("SCRAM-SHA-256")
    assert server_first(without_key, "mallory", b"one") != server_first(without_key, "mallory", b"another")


def test_no_client_has_the_name_of_the_mock_credential() -> None:
    with pytest.raises(ScramError):
        server_first(with_mock_key(users("SCRAM-SHA-512")), "", SECRET)


def test_mock_credentials_have_the_shapes_of_real_ones_as_often() -> None:
    shapes = {(4_096, 24): 90, (8_192, 100): 10}
    made = [make_mock_salt(SECRET, "SCRAM-SHA-256", f"user-{number}", shapes) for number in range(1_000)]
    assert {(iterations, len(salt)) for salt, iterations in made} == set(shapes)
    assert 50 < sum(iterations == 8_192 for _, iterations in made) < 150
    assert len({salt for salt, _ in made}) == len(made)


def test_mock_credentials_change_their_shape_together_with_their_salt() -> None:
    """As if the user had changed the password: a salt that stays while the iterations change would be a sign."""
    before, after = {(4_096, 24): 9, (8_192, 24): 1}, {(4_096, 24): 1, (8_192, 24): 9}
    names = [f"user-{number}" for number in range(100)]
    pairs = [[make_mock_salt(SECRET, "SCRAM-SHA-256", name, shapes) for shapes in (before, after)] for name in names]
    changed = [pair for pair in pairs if pair[0][1] != pair[1][1]]
    assert changed
    assert all(pair[0][0] != pair[1][0] for pair in changed)
    assert all(pair[0] == pair[1] for pair in pairs if pair not in changed)


def test_a_cluster_without_users_shows_what_users_would_have() -> None:
    salt, iterations = make_mock_salt(SECRET, "SCRAM-SHA-256", "alice", {})
    assert (len(salt), iterations) == (SALT_BYTES, MIN_ITERATIONS)


def test_the_vector_of_rfc_7677() -> None:
    credential = make_credential("SCRAM-SHA-256", "pencil", b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="), ITERATIONS)
    ours = ScramServer(
        "SCRAM-SHA-256",
        ScramUsers.of({("SCRAM-SHA-256", "user"): credential}),
        "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
        SECRET,
    )
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
    replayed = ScramServer("SCRAM-SHA-256", users("SCRAM-SHA-256"), "another-nonce", SECRET)
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
    text = repr(users("SCRAM-SHA-256").credentials["SCRAM-SHA-256", "alice"])
    assert "stored_key" not in text
    assert "server_key" not in text
