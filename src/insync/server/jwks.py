"""The public keys of an identity provider, from a file or a URL, kept up to date while the node runs."""

from __future__ import annotations

import asyncio
import logging
import os
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlparse

from insync.escaping import log_value
from insync.security.errors import SecuritySettingError
from insync.security.oauthbearer import JWKS_URL, OAuthSettings, parse_keys

log = logging.getLogger("insync.server")

TIMEOUT_S = 10.0
MAX_BYTES = 1 << 20
MIN_REFRESH_S = 10.0
"""Tokens with unknown keys cause a refresh at most this often: anyone can make such tokens."""
_FORMAT_ERRORS = (ValueError, KeyError, TypeError, AttributeError)
"""What a document that is no JWKS raises."""


class KeyFile:
    """Read again when it changes; an unreadable one leaves the keys as they were."""

    def __init__(self, url: str) -> None:
        self._path = unquote(urlparse(url).path)
        self._version = self._file_version()
        try:
            self._keys = self._read()
        except (OSError, *_FORMAT_ERRORS) as error:
            raise SecuritySettingError(JWKS_URL, f"{self._path!r} cannot be read: {_explain(error)}.") from None

    def keys(self) -> Mapping[str, Any]:
        version = self._file_version()
        if version != self._version:
            self._version = version
            try:
                self._keys = self._read()
            except (OSError, *_FORMAT_ERRORS) as error:
                log.error("event=jwks_not_read file=%s reason=%s", log_value(self._path), log_value(_explain(error)))
        return self._keys

    def request_refresh(self) -> None:
        """The file is read when it changes."""

    def _read(self) -> dict[str, Any]:
        with open(self._path, "rb") as file:
            return parse_keys(file.read(MAX_BYTES))

    def _file_version(self) -> tuple[int, int, int]:
        try:
            status = os.stat(self._path)
        except OSError:
            return (0, 0, 0)
        return (status.st_ino, status.st_mtime_ns, status.st_size)


class KeyUrl:
    """Fetched in the background: at the start, from time to time, and when a token names a key that is not known.

    Until the first fetch has succeeded no token is accepted.
    """

    def __init__(self, settings: OAuthSettings) -> None:
        self._settings = settings
        self._keys: dict[str, Any] = {}
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._task = loop.create_task(self._run(loop))

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def keys(self) -> Mapping[str, Any]:
        return self._keys

    def request_refresh(self) -> None:
        self._wanted.set()

    async def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        url, refresh_s = self._settings.jwks_url, self._settings.refresh_ms / 1_000
        failures = 0
        while True:
            try:
                self._keys = await loop.run_in_executor(None, fetch_keys, url)
            except (OSError, *_FORMAT_ERRORS) as error:
                advice = "Tokens are checked against the keys that were fetched before." if self._keys else ""
                if not failures:
                    log.error(
                        "event=jwks_not_fetched url=%s reason=%s advice=%s",
                        log_value(url),
                        log_value(_explain(error)),
                        log_value(advice or "No token is accepted until it succeeds. Check the URL and the network."),
                    )
                delay_ms = min(self._settings.retry_ms << min(failures, 20), self._settings.max_retry_ms)
                failures += 1
                await asyncio.sleep(delay_ms / 1_000)
                continue
            if failures:
                log.info("event=jwks_fetched url=%s keys=%d", log_value(url), len(self._keys))
            failures = 0
            self._wanted.clear()
            await asyncio.sleep(min(MIN_REFRESH_S, refresh_s))
            try:
                async with asyncio.timeout(max(0.0, refresh_s - MIN_REFRESH_S)):
                    await self._wanted.wait()
            except TimeoutError:
                pass


def fetch_keys(url: str) -> dict[str, Any]:
    """Blocks."""
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
        data: bytes = answer.read(MAX_BYTES)
    return parse_keys(data)


def _explain(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"the answer was {error.code}"
    if isinstance(error, OSError):
        return str(error.strerror or error)
    return f"it is not a JWKS ({type(error).__name__}: {error})"
