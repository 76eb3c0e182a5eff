"""The TLS of a node: of each listener that uses it, and of connections to such listeners of other nodes.

Files are checked for changes every second, and once they have stopped changing a new context takes the place of the
old one: new connections use it, existing ones keep what they have. If none can be made from the new files, the old one
stays, with a line in the log that says what is wrong. As in Kafka, a certificate for another subject or with fewer
names is accepted only if a setting allows it.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from time import monotonic_ns

from insync.escaping import log_value
from insync.security.errors import SecuritySettingError
from insync.security.keystores import is_readable_by_others
from insync.security.principal import ANONYMOUS, MappingRuleError, map_name
from insync.security.tls import TlsMaterial, TlsSettings
from insync.security.x509_fields import CertificateError, alternative_names, subject_name, valid_until
from insync.server.failure_log import FailureLog
from insync.server.pending import PendingConnections
from insync.server.tls_transport import TlsTransport
from insync.server.turns import Turns

log = logging.getLogger("insync.server")

CHECK_S = 1.0
HANDSHAKE_TIMEOUT_S = 10
PEER_ADVICE = (
    "Check that the certificates of both nodes are valid, signed by an authority that the other trusts "
    "(ssl.truststore.location), and issued for the host names in advertised.listeners and controller.quorum.voters."
)


class TlsContext:
    """A context that is made again when the files of its settings change."""

    def __init__(
        self,
        listener: str,
        settings: TlsSettings,
        make: Callable[[TlsSettings, TlsMaterial], ssl.SSLContext],
    ) -> None:
        """SecuritySettingError if the context cannot be made."""
        self.listener = listener
        self.settings = settings
        self._make = make
        self._versions = self._seen = settings.file_versions()
        self._material = settings.read()
        self.context = make(settings, self._material)

    def has_settled_change(self) -> bool:
        """Whether the files differ from those that the context was made from, and were the same at the last call.

        A keystore and a truststore are two files, which are not replaced at the same moment.
        """
        seen, self._seen = self._seen, self.settings.file_versions()
        return self._seen != self._versions and self._seen == seen

    def reload(self) -> None:
        """Read the files again; this blocks. SecuritySettingError if the old context has to stay."""
        self._versions = self._seen
        material = self.settings.read()
        _check_successor(self.settings, self._material, material)
        self.context, self._material = self._make(self.settings, material), material

    def describe(self) -> str:
        identity = self._material.identity
        if identity is None:
            return "no certificate"
        certificate = identity.certificate
        return f"{subject_name(certificate)}, valid until {valid_until(certificate):%Y-%m-%d %H:%M} UTC"

    def is_expired(self) -> bool:
        identity = self._material.identity
        return identity is not None and valid_until(identity.certificate) < datetime.now(UTC)

    def exposed_keystore(self) -> str:
        """The keystore's file if every user of this machine can read it, else empty."""
        store = self.settings.keystore
        return store.location if store and store.location and is_readable_by_others(store.location) else ""


def _check_successor(settings: TlsSettings, before: TlsMaterial, after: TlsMaterial) -> None:
    if before.identity is None or after.identity is None:
        return
    old, new = before.identity.certificate, after.identity.certificate
    if not settings.allows_other_subject and subject_name(old) != subject_name(new):
        raise SecuritySettingError(
            after.identity.setting,
            f"has a certificate for {subject_name(new)} now; it was for {subject_name(old)}. Use one for the same "
            "subject, or set ssl.allow.dn.changes to true.",
        )
    if not settings.allows_other_names and not alternative_names(old) <= alternative_names(new):
        raise SecuritySettingError(
            after.identity.setting,
            "has a certificate that lacks names of the one before it. Use one for the same host names, or set "
            "ssl.allow.san.changes to true.",
        )


class TlsListener(TlsContext):
    """TLS of the connections that one listener accepts."""

    def __init__(self, listener: str, settings: TlsSettings, pending: PendingConnections, turns: Turns) -> None:
        super().__init__(listener, settings, TlsSettings.server_context)
        self._pending = pending
        self._turns = turns
        self.failures = FailureLog("tls_handshake_failed", listener)

    def wrap(self, protocol: asyncio.Protocol) -> TlsTransport:
        return TlsTransport(protocol, self.context, self)

    def principal_of(self, transport: asyncio.BaseTransport) -> str:
        """By the client's certificate; MappingRuleError if its subject cannot be read, or no rule matches it."""
        tls: ssl.SSLObject = transport.get_extra_info("ssl_object")
        certificate = tls.getpeercert(binary_form=True)
        if certificate is None:
            return ANONYMOUS
        try:
            subject = subject_name(certificate)
        except CertificateError as error:  # OpenSSL does not check that it is text
            raise MappingRuleError(str(error)) from error
        return f"User:{map_name(self.settings.principal_rules, subject)}"

    def on_handshake_started(self, transport: TlsTransport) -> None:
        self._pending.add(transport)

    def on_handshake_ended(self, transport: TlsTransport, error: Exception | None) -> None:
        self._pending.remove(transport)
        if error is not None:
            self.failures.record(transport.get_extra_info("peername"), explain(error))

    def on_ready(self, transport: TlsTransport) -> None:
        self._turns.tls_ready(transport)

    def on_ready_later(self, transport: TlsTransport) -> None:
        self._turns.tls_ready_later(transport)


class TlsPeers(TlsContext):
    """TLS of connections to a listener of other nodes."""

    def __init__(self, listener: str, settings: TlsSettings) -> None:
        super().__init__(listener, settings, TlsSettings.client_context)

    async def connect(self, loop: asyncio.AbstractEventLoop, protocol: asyncio.Protocol, host: str, port: int) -> None:
        """Returns after the handshake; OSError, which ssl.SSLError is, if it fails."""
        handshake = _ClientHandshake(loop)
        transport = TlsTransport(protocol, self.context, handshake, host)
        await loop.create_connection(lambda: transport, host, port)
        try:
            async with asyncio.timeout(HANDSHAKE_TIMEOUT_S):
                await handshake.ended
        except TimeoutError:
            raise ConnectionAbortedError(f"no TLS handshake in {HANDSHAKE_TIMEOUT_S} s") from None
        finally:
            if not handshake.is_complete:
                transport.abort()


class _ClientHandshake:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.ended: asyncio.Future[None] = loop.create_future()
        self.is_complete = False

    def on_handshake_started(self, transport: TlsTransport) -> None:
        """A client limits its connections itself."""

    def on_handshake_ended(self, transport: TlsTransport, error: Exception | None) -> None:
        self.is_complete = error is None
        if self.ended.done():
            return
        if error is None:
            self.ended.set_result(None)
        else:
            self.ended.set_exception(error)

    def on_ready(self, transport: TlsTransport) -> None:
        transport.serve(monotonic_ns() + HANDSHAKE_TIMEOUT_S * 1_000_000_000)

    def on_ready_later(self, transport: TlsTransport) -> None:
        self._loop.call_soon(self.on_ready, transport)


class TlsReloader:
    """Checks the files of all contexts, every second."""

    def __init__(self, contexts: Sequence[TlsContext], loop: asyncio.AbstractEventLoop) -> None:
        self._contexts = contexts
        self._loop = loop
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        for context in self._contexts:
            _log_loaded(context, "tls_loaded")
        if self._contexts:
            self._task = self._loop.create_task(self._run())

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(CHECK_S)
            for context in self._contexts:
                if context.has_settled_change():
                    await self.reload(context)

    async def reload(self, context: TlsContext) -> None:
        try:
            await self._loop.run_in_executor(None, context.reload)
        except SecuritySettingError as error:
            log.error(
                "event=tls_not_reloaded listener=%s problem=%s advice=%s",
                log_value(context.listener),
                log_value(str(error)),
                log_value("The previous certificate stays in use. Correct the file; it is read again when it changes."),
            )
        else:
            _log_loaded(context, "tls_reloaded")


def _log_loaded(context: TlsContext, event: str) -> None:
    """Warnings are given for listeners: connections to other nodes use the same files."""
    listener, is_listener = log_value(context.listener), isinstance(context, TlsListener)
    side, certificate = "server" if is_listener else "client", log_value(context.describe())
    log.info("event=%s listener=%s side=%s certificate=%s", event, listener, side, certificate)
    if is_listener and context.is_expired():
        log.warning("event=certificate_expired listener=%s advice=%s", listener, log_value("Renew it."))
    if is_listener and context.settings.unsafe_versions:
        versions, advice = ",".join(context.settings.unsafe_versions), "They are unsafe, and not used."
        log.warning(
            "event=tls_versions_not_used listener=%s versions=%s advice=%s", listener, versions, log_value(advice)
        )
    if is_listener and context.settings.has_unrestricted_suites:
        advice = "Python's ssl cannot choose among the suites of TLS 1.3: all of OpenSSL's are offered."
        log.warning("event=cipher_suites_not_restricted listener=%s advice=%s", listener, log_value(advice))
    if is_listener and (path := context.exposed_keystore()):
        advice = "Every user of this machine can read it. Run chmod o-r."
        log.warning("event=private_key_exposed file=%s advice=%s", log_value(path), log_value(advice))


def explain(error: Exception) -> str:
    """Why a handshake failed, as seen from here."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of the other side was rejected: {error.verify_message}"
    reason = getattr(error, "reason", None)
    if reason in ("HTTP_REQUEST", "WRONG_VERSION_NUMBER", "UNSUPPORTED_PROTOCOL", "RECORD_LAYER_FAILURE"):
        return f"the other side does not speak TLS, or no common version ({str(reason).replace('_', ' ').lower()})"
    return str(reason).replace("_", " ").lower() if reason else str(error)
