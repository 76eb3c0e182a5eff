"""SASL of the connections that one listener accepts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from insync.security.oauthbearer import JwtValidator, TokenValidator, UnsecuredValidator
from insync.security.sasl import SaslServer, SaslSettings
from insync.security.scram import ScramUsers
from insync.server.authentication import LoginCounts, SaslSession
from insync.server.failure_log import FailureLog
from insync.server.jwks import KeyFile, KeyUrl
from insync.wire.versions.translator import VersionTranslator


class SaslListener:
    def __init__(self, listener: str, settings: SaslSettings, users: Callable[[], ScramUsers]) -> None:
        """`users`: of SCRAM, as the metadata has them now. SecuritySettingError if keys cannot be read."""
        self.max_receive_bytes = settings.max_receive_bytes
        self.keys: KeyFile | KeyUrl | None = None
        self._server = SaslServer(settings, users, self._validator(settings))
        self.failures = FailureLog("authentication_failed", listener)
        self.counts = LoginCounts()

    def new_session(self, translator: VersionTranslator) -> SaslSession:
        return SaslSession(self._server, translator, self.counts)

    def record_failure(self, transport: asyncio.BaseTransport, session: SaslSession, reason: str) -> None:
        self.failures.record(
            transport.get_extra_info("peername"),
            reason,
            mechanism=session.mechanism or "none",
            user=session.claimed_user or "unknown",
        )

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        if isinstance(self.keys, KeyUrl):
            self.keys.start(loop)

    def close(self) -> None:
        if isinstance(self.keys, KeyUrl):
            self.keys.close()

    def _validator(self, settings: SaslSettings) -> TokenValidator | None:
        if settings.oauth is None:
            return None
        url = settings.oauth.jwks_url
        if not url:
            return UnsecuredValidator(settings.oauth, time.time)
        self.keys = KeyFile(url) if url.startswith("file:") else KeyUrl(settings.oauth)
        return JwtValidator(settings.oauth, self.keys)
