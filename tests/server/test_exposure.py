"""Defaults that are safe: what a node binds to, and what it says when other machines reach it."""

from __future__ import annotations

import logging
import socket
from pathlib import Path
from typing import Any, cast

import pytest

from insync.server import properties
from insync.server.acceptor import Acceptor
from insync.server.process import has_exposed_secrets
from insync.server.server import Server

NEEDED = "node.id=1\nprocess.roles=broker,controller\ncontroller.quorum.voters=1@one:9093\nlog.dirs=/d\n"
AUTHORIZER = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\nsuper.users=User:a\n"


class Bound:
    """A socket that is bound to this address."""

    def __init__(self, host: str) -> None:
        self.host = host

    def getsockname(self) -> tuple[str, int]:
        return (self.host, 9092)


def warnings(caplog: pytest.LogCaptureFixture, *listeners: tuple[str, str, bool], authorizer: bool) -> str:
    """`listeners`: name, address, and whether it uses TLS."""
    server = Server(properties.parse(NEEDED + (AUTHORIZER if authorizer else ""), "node.properties"))
    listening = [
        (Acceptor(name, True, cast(Any, "TLS") if uses_tls else None), cast(socket.socket, Bound(host)))
        for name, host, uses_tls in listeners
    ]
    with caplog.at_level(logging.WARNING):
        server._warn_of_exposure(listening)
    return caplog.text


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1"])
def test_on_loopback_nothing_is_said(caplog: pytest.LogCaptureFixture, host: str) -> None:
    assert warnings(caplog, ("PLAINTEXT", host, False), authorizer=False) == ""


def test_a_node_with_tls_and_an_authorizer_may_be_reached(caplog: pytest.LogCaptureFixture) -> None:
    assert warnings(caplog, ("SSL", "0.0.0.0", True), ("PLAINTEXT", "::1", False), authorizer=True) == ""


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "2001:db8::1"])
def test_a_node_that_others_reach_says_once_what_it_lacks(caplog: pytest.LogCaptureFixture, host: str) -> None:
    text = warnings(caplog, ("PLAINTEXT", host, False), ("SSL", host, True), authorizer=False)
    assert text.count("event=exposed listeners=PLAINTEXT,SSL") == 1
    assert "TLS on the listener PLAINTEXT; an authorizer" in text
    assert "listener SSL" not in text


def test_metrics_are_for_this_machine_unless_set_otherwise() -> None:
    assert properties.parse(NEEDED, "f").metrics_host == "127.0.0.1"
    assert properties.parse(f"{NEEDED}insync.metrics.host=0.0.0.0\n", "f").metrics_host == "0.0.0.0"


@pytest.mark.parametrize(
    ("more", "mode", "is_exposed"),
    [
        ("ssl.keystore.password=x\n", 0o644, True),
        ("listener.name.plaintext.plain.sasl.jaas.config=x\n", 0o604, True),
        ("ssl.keystore.password=x\n", 0o640, False),
        ("ssl.keystore.location=/k\n", 0o644, False),
    ],
)
def test_passwords_in_a_file_that_everybody_reads_are_warned_of(
    tmp_path: Path, more: str, mode: int, is_exposed: bool
) -> None:
    file = tmp_path / "node.properties"
    file.write_text(NEEDED + more)
    file.chmod(mode)
    assert has_exposed_secrets(str(file), properties.load(str(file))) == is_exposed
