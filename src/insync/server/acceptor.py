"""The security of a node: of each of its listeners, and of its connections to other nodes.

An `Acceptor` is a listener as its connections see it: its name, how they prove whose they are, and whether other nodes
use it. Code of TLS and SASL is imported by nodes that use it only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from insync.security.errors import SecuritySettingError
from insync.security.principal import ANONYMOUS
from insync.security.scram import ScramUsers
from insync.server.listeners import BoundListener, ListenerSecurity, ListenerSettings, naming_the_key
from insync.server.pending import PendingConnections
from insync.server.startup_error import StartupError
from insync.server.turns import Turns

if TYPE_CHECKING:
    from insync.security.sasl import ClientLogin
    from insync.server.sasl_listener import SaslListener
    from insync.server.tls_contexts import TlsListener, TlsPeers, TlsReloader

FindUsers = Callable[[], ScramUsers]
"""The users of SCRAM, as the metadata has them now."""


@dataclass(frozen=True, slots=True)
class Acceptor:
    name: str
    serves_nodes: bool
    """Whether it is the inter-broker listener, or one of the controllers'."""
    tls: TlsListener | None = None
    sasl: SaslListener | None = None

    def principal_of(self, transport: asyncio.BaseTransport) -> str:
        """As far as the transport shows it; MappingRuleError if the client's certificate has no principal."""
        return ANONYMOUS if self.tls is None else self.tls.principal_of(transport)


@dataclass(frozen=True, slots=True)
class PeerSecurity:
    """How a node connects to a listener of other nodes; None: without TLS, or without authentication."""

    tls: TlsPeers | None = None
    login: ClientLogin | None = None


PLAINTEXT = PeerSecurity()


class NodeSecurity:
    def __init__(self, acceptors: list[Acceptor], inter_broker: PeerSecurity, controller: PeerSecurity) -> None:
        self.acceptors = acceptors
        self.inter_broker = inter_broker
        self.controller = controller
        self._reloader: TlsReloader | None = None

    @staticmethod
    def load(listeners: ListenerSettings, pending: PendingConnections, turns: Turns, users: FindUsers) -> NodeSecurity:
        """StartupError if a certificate or a key cannot be read."""
        try:
            acceptors = [_acceptor(listener, pending, turns, users) for listener in listeners.bound]
            inter_broker = _peers(listeners.inter_broker)
            controller = _peers(listeners.controller) if listeners.has_separate_controller_listener else inter_broker
        except SecuritySettingError as error:
            raise StartupError(str(error)) from error
        return NodeSecurity(acceptors, inter_broker, controller)

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Keep certificates and keys of identity providers up to date."""
        contexts = [*(acceptor.tls for acceptor in self.acceptors), self.inter_broker.tls, self.controller.tls]
        loaded = list(dict.fromkeys(context for context in contexts if context is not None))
        if loaded:
            from insync.server.tls_contexts import TlsReloader

            self._reloader = TlsReloader(loaded, loop)
            self._reloader.start()
        for acceptor in self.acceptors:
            if acceptor.sasl is not None:
                acceptor.sasl.start(loop)

    def close(self) -> None:
        if self._reloader is not None:
            self._reloader.close()
        for acceptor in self.acceptors:
            if acceptor.sasl is not None:
                acceptor.sasl.close()


def _acceptor(listener: BoundListener, pending: PendingConnections, turns: Turns, users: FindUsers) -> Acceptor:
    security, tls, sasl = listener.security, None, None
    with naming_the_key(security):
        if security.protocol.uses_tls:
            from insync.security.tls import TlsSettings
            from insync.server.tls_contexts import TlsListener

            tls = TlsListener(listener.name, TlsSettings.of_listener(security.settings), pending, turns)
        if security.protocol.uses_sasl:
            from insync.security.sasl import SaslSettings
            from insync.server.sasl_listener import SaslListener

            sasl = SaslListener(listener.name, SaslSettings.of(security.settings), users)
    return Acceptor(listener.name, listener.serves_nodes, tls, sasl)


def _peers(security: ListenerSecurity) -> PeerSecurity:
    tls, login = None, None
    with naming_the_key(security):
        if security.protocol.uses_tls:
            from insync.security.tls import TlsSettings
            from insync.server.tls_contexts import TlsPeers

            tls = TlsPeers(security.name, TlsSettings.of(security.settings))
        if security.protocol.uses_sasl:
            from insync.security.sasl import ClientLogin

            login = ClientLogin.of(security.settings, security.login_mechanism_key)
    return PeerSecurity(tls, login)
