"""SCRAM against the RFCs' own examples, and against a client that we did not write."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.net.sasl.scram import ScramClient

from insync.client.scram import HASHES, Scram, ScramError

RFC_5802 = (
    "sha1",
    "fyko+d2lbbFgONRv9qkxdawL",
    b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL",
    b"r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
    b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
    b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ=",
)
RFC_7677 = (
    "sha256",
    "rOprNGfwEbeRWgbNEkqO",
    b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
    b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
)


@pytest.mark.parametrize("example", [RFC_5802, RFC_7677], ids=["RFC 5802", "RFC 7677"])
def test_it_says_what_the_rfc_says(example: tuple[str, str, bytes, bytes, bytes, bytes]) -> None:
    hash_name, nonce, first, challenge, final, verdict = example
    talk = Scram(hash_name, "user", "pencil", nonce)
    assert talk.first() == first
    assert talk.answer(challenge) == final
    assert talk.answer(verdict) is None


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_it_proves_what_kafka_python_proves(mechanism: str) -> None:
    """It does not escape user names, so this one needs none."""
    oracle: Any = ScramClient("alice", "p,ä=s", mechanism)
    ours = Scram(HASHES[mechanism], "alice", "p,ä=s", oracle.nonce.decode())
    assert ours.first() == oracle.first_message()
    challenge = f"r={oracle.nonce.decode()}more,s=c2FsdHk=,i=8192".encode()
    oracle.process_server_first_message(challenge)
    assert ours.answer(challenge) == oracle.final_message()


def test_commas_and_equals_signs_of_names_are_escaped() -> None:
    assert Scram("sha256", "a=b,c", "pencil", "mine").first() == b"n,,n=a=3Db=2Cc,r=mine"


@pytest.mark.parametrize(
    ("challenge", "told"),
    [
        (b"r=another,s=QSXCR+Q6sek8bf92,i=4096", "nonce"),
        (b"r=mine,s=QSXCR+Q6sek8bf92,i=4096", "nonce"),
        (b"r=minemore,s=QSXCR+Q6sek8bf92,i=4095", "4095 iterations"),
        (b"r=minemore,s=QSXCR+Q6sek8bf92,i=1000001", "1000001 iterations"),
        (b"r=minemore,s=QSXCR+Q6sek8bf92,i=9999999999", "iterations"),
        (b"r=minemore,s=QSXCR+Q6sek8bf92,i=-1", "iterations"),
        (b"r=minemore,i=4096", "salt"),
        (b"r=minemore,s=!,i=4096", "base64"),
        (b"m=ext,r=minemore,s=QSXCR+Q6sek8bf92,i=4096", "none of SCRAM's"),
        (b"hello", "none of SCRAM's"),
        (b"", "none of SCRAM's"),
        (b"\xff", "no text"),
    ],
)
def test_a_challenge_that_no_honest_server_sends_is_not_answered(challenge: bytes, told: str) -> None:
    with pytest.raises(ScramError, match=told):
        Scram("sha256", "user", "pencil", "mine").answer(challenge)


CHALLENGES = st.binary() | st.tuples(st.text(), st.text(), st.text()).map(
    lambda parts: "r=mine{},s={},i={}".format(*parts).encode()
)


@given(CHALLENGES, st.binary() | st.text().map(lambda text: f"v={text}".encode()))
def test_whatever_a_server_sends_it_is_answered_or_refused(challenge: bytes, verdict: bytes) -> None:
    for first in (challenge, RFC_7677[3]):
        talk = Scram("sha256", "user", "pencil", "mine" if first is challenge else RFC_7677[1])
        try:
            assert talk.answer(first)
            talk.answer(verdict)
        except ScramError:
            continue
        raise AssertionError("nobody can guess a signature")


@pytest.mark.parametrize(
    ("verdict", "told"),
    [
        (b"v=cm1GOXBxVjhTN3N1QW9aV2phNGRKUmtGc0tRPQ==", "signature"),
        (b"v=", "signature"),
        (b"r=again", "signature"),
        (b"e=other-error", "other-error"),
    ],
)
def test_a_server_that_does_not_know_the_password_is_found_out(verdict: bytes, told: str) -> None:
    hash_name, nonce, _, challenge, _, _ = RFC_7677
    talk = Scram(hash_name, "user", "pencil", nonce)
    talk.answer(challenge)
    with pytest.raises(ScramError, match=told):
        talk.answer(verdict)
