"""SCRAM against the examples of the RFCs, and against kafka-python."""

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
def test_the_examples_of_the_rfcs(example: tuple[str, str, bytes, bytes, bytes, bytes]) -> None:
    hash_name, nonce, first, challenge, final, verdict = example
    conversation = Scram(hash_name, "user", "pencil", nonce)
    assert conversation.first() == first
    assert conversation.answer(challenge) == final
    assert conversation.answer(verdict) is None


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_the_proof_equals_that_of_kafka_python(mechanism: str) -> None:
    """kafka-python does not escape user names, so this one needs no escaping."""
    oracle: Any = ScramClient("alice", "p,ä=s", mechanism)
    ours = Scram(HASHES[mechanism], "alice", "p,ä=s", oracle.nonce.decode())
    assert ours.first() == oracle.first_message()
    challenge = f"r={oracle.nonce.decode()}more,s=c2FsdHk=,i=8192".encode()
    oracle.process_server_first_message(challenge)
    assert ours.answer(challenge) == oracle.final_message()


def test_commas_and_equals_signs_of_names_are_escaped() -> None:
    assert Scram("sha256", "a=b,c", "pencil", "mine").first() == b"n,,n=a=3Db=2Cc,r=mine"


@pytest.mark.parametrize(
    ("challenge", "message"),
    [
        (b"r=another,s=QSXCR+Q6sek8bf92,i=4096", "nonce"),
        (b"r=mine,s=QSXCR+Q6sek8bf92,i=4096", "nonce"),
        (b"r=minemore,s=QSXCR+Q6sek8bf92,i=4095", "4095 iterations"),
        (b"r=minemore,s=QSXCR+Q6sek8bf92,i=1000001", "1000001 iterations"),
        (b"r=minemore,s=QSXCR+Q6sek8bf92,i=9999999999", "iteration count"),
        (b"r=minemore,s=QSXCR+Q6sek8bf92,i=-1", "iteration count"),
        (b"r=minemore,i=4096", "salt"),
        (b"r=minemore,s=!,i=4096", "base64"),
        (b"m=ext,r=minemore,s=QSXCR+Q6sek8bf92,i=4096", "not a SCRAM message"),
        (b"hello", "not a SCRAM message"),
        (b"", "not a SCRAM message"),
        (b"\xff", "not UTF-8"),
    ],
)
def test_an_invalid_challenge_is_refused(challenge: bytes, message: str) -> None:
    with pytest.raises(ScramError, match=message):
        Scram("sha256", "user", "pencil", "mine").answer(challenge)


CHALLENGES = st.binary() | st.tuples(st.text(), st.text(), st.text()).map(
    lambda parts: "r=mine{},s={},i={}".format(*parts).encode()
)


@given(CHALLENGES, st.binary() | st.text().map(lambda text: f"v={text}".encode()))
def test_any_message_of_a_server_is_answered_or_refused(challenge: bytes, verdict: bytes) -> None:
    for first in (challenge, RFC_7677[3]):
        conversation = Scram("sha256", "user", "pencil", "mine" if first is challenge else RFC_7677[1])
        try:
            assert conversation.answer(first)
            conversation.answer(verdict)
        except ScramError:
            continue
        raise AssertionError("a random signature was accepted")


@pytest.mark.parametrize(
    ("verdict", "message"),
    [
        (b"v=cm1GOXBxVjhTN3N1QW9aV2phNGRKUmtGc0tRPQ==", "signature"),
        (b"v=", "signature"),
        (b"r=again", "signature"),
        (b"e=other-error", "other-error"),
    ],
)
def test_a_server_that_does_not_know_the_password_is_refused(verdict: bytes, message: str) -> None:
    hash_name, nonce, _, challenge, _, _ = RFC_7677
    conversation = Scram(hash_name, "user", "pencil", nonce)
    conversation.answer(challenge)
    with pytest.raises(ScramError, match=message):
        conversation.answer(verdict)
