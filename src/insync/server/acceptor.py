"""The security of a node: of each of its listeners, and of its connections to other nodes.

An `Acceptor` is a listener as its connections see it: its name, how they prove whose they are, and whether other nodes
use it. Code of TLS is imported by nodes that use it only.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from insync.security.principal import ANONYMOUS
from insync.security.setting_error import SecuritySettingError
from insync.server.listeners import BoundListener, ListenerSecurity, ListenerSettings, naming_the_key
from insync.server.pending import PendingConnections
from insync.server.startup_error import StartupError

if TYPE_CHECKING:
    from insync.server.tls_contexts import TlsListener, TlsPeers, TlsReloader


@dataclass(frozen=True, slots=True)
class Acceptor:
    name: str
    serves_nodes: bool
    """Whether it is the inter-broker listener, or one of the controllers'."""
    tls: TlsListener | None = None

    def principal_of(self, transport: asyncio.BaseTransport) -> str:
        """As far as the transport shows it; MappingRuleError if the client's certificate has no principal."""
        return ANONYMOUS if self.tls is None else self.tls.principal_of(transport)


class NodeSecurity:
    """`inter_broker_tls` and `controller_tls`: how other nodes are reached, None for connections without TLS."""

    def __init__(
        self, acceptors: list[Acceptor], inter_broker_tls: TlsPeers | None, controller_tls: TlsPeers | None
    ) -> None:
        self.acceptors = acceptors
        self.inter_broker_tls = inter_broker_tls
        self.controller_tls = controller_tls
        self._reloader: TlsReloader | None = None

    @staticmethod
    def load(listeners: ListenerSettings, pending: PendingConnections) -> NodeSecurity:
        """StartupError if a certificate or a key cannot be read."""
        try:
            acceptors = [_acceptor(listener, pending) for listener in listeners.bound]
            inter_broker = _peers(listeners.inter_broker)
            controller = _peers(listeners.controller) if listeners.has_separate_controller_listener else inter_broker
        except SecuritySettingError as error:
            raise StartupError(str(error)) from error
        return NodeSecurity(acceptors, inter_broker, controller)

    def watch_files(self, loop: asyncio.AbstractEventLoop) -> None:
        """Log what was loaded, and load certificates again when their files change."""
        contexts = [acceptor.tls for acceptor in self.acceptors] + [self.inter_broker_tls, self.controller_tls]
        loaded = list(dict.fromkeys(context for context in contexts if context is not None))
        if loaded:
            from insync.server.tls_contexts import TlsReloader

            self._reloader = TlsReloader(loaded, loop)
            self._reloader.start()

    def close(self) -> None:
        if self._reloader is not None:
            self._reloader.close()


def _acceptor(listener: BoundListener, pending: PendingConnections) -> Acceptor:
    security = listener.security
    if not security.protocol.uses_tls:
        return Acceptor(listener.name, listener.serves_nodes)
    from insync.security.tls import TlsSettings
    from insync.server.tls_contexts import TlsListener

    with naming_the_key(security):
        tls = TlsListener(listener.name, TlsSettings.of_listener(security.settings), pending)
    return Acceptor(listener.name, listener.serves_nodes, tls)


def _peers(security: ListenerSecurity) -> TlsPeers | None:
    if not security.protocol.uses_tls:
        return None
    from insync.security.tls import TlsSettings
    from insync.server.tls_contexts import TlsPeers

    with naming_the_key(security):
        return TlsPeers(security.name, TlsSettings.of(security.settings))
