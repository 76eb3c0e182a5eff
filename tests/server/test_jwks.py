"""The keys of an identity provider: from a file that changes, and from a URL that fails."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Awaitable, Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from insync.security.errors import SecuritySettingError
from insync.security.oauthbearer import OAuthSettings
from insync.server import jwks
from insync.server.jwks import KeyFile, KeyUrl


def document(*key_ids: str) -> bytes:
    key = jwt.algorithms.ECAlgorithm.to_jwk(ec.generate_private_key(ec.SECP256R1()).public_key(), as_dict=True)
    return json.dumps({"keys": [{**key, "kid": key_id} for key_id in key_ids]}).encode()


class Provider(HTTPServer):
    """Returns `answers` in order, and the last one from then on. None is an error."""

    def __init__(self, *answers: bytes | None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers = list(answers)
        self.asked = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/keys"


class _Handler(BaseHTTPRequestHandler):
    server: Provider

    def do_GET(self) -> None:
        self.server.asked += 1
        answers = self.server.answers
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        self.send_response(200 if answer is not None else 503)
        self.end_headers()
        self.wfile.write(answer or b"")

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def provider() -> Iterator[Provider]:
    made = Provider(document("first"))
    thread = threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()


def settings(url: str, **more: str) -> OAuthSettings:
    given = {"sasl.oauthbearer.jwks.endpoint.url": url, **{key.replace("_", "."): value for key, value in more.items()}}
    return OAuthSettings.of(given, {}, "", "jaas")


def run(source: KeyUrl, story: Callable[[], Awaitable[None]]) -> None:
    async def body() -> None:
        source.start(asyncio.get_running_loop())
        try:
            await asyncio.wait_for(story(), 10)
        finally:
            source.close()

    asyncio.run(body())


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


# --- files ---


def test_a_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "keys with blanks.json"
    path.write_bytes(document("first"))
    keys = KeyFile(path.as_uri())
    assert list(keys.keys()) == ["first"]
    path.write_bytes(document("first", "second"))
    assert list(keys.keys()) == ["first", "second"]


def test_a_broken_file_leaves_the_keys_as_they_were(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(document("first"))
    keys = KeyFile(path.as_uri())
    path.write_bytes(b"{")
    with caplog.at_level(logging.ERROR):
        assert list(keys.keys()) == ["first"]
        assert list(keys.keys()) == ["first"]
    assert caplog.text.count("event=jwks_not_read") == 1


@pytest.mark.parametrize("content", [None, b"", b'{"keys": []}'])
def test_a_file_without_keys_is_refused_at_the_start(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "keys.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SecuritySettingError, match=r"sasl\.oauthbearer\.jwks\.endpoint\.url"):
        KeyFile(path.as_uri())


# --- URLs ---


def test_keys_are_fetched_and_refreshed(provider: Provider) -> None:
    provider.answers.append(document("second"))
    source = KeyUrl(settings(provider.url, sasl_oauthbearer_jwks_endpoint_refresh_ms="20"))

    async def story() -> None:
        assert source.keys() == {}  # until the first answer no token is accepted
        await until(lambda: list(source.keys()) == ["first"])
        await until(lambda: list(source.keys()) == ["second"])

    run(source, story)


def test_failures_are_reported_once_and_tried_again(provider: Provider, caplog: pytest.LogCaptureFixture) -> None:
    provider.answers = [None, b"no JWKS", None, document("first")]
    source = KeyUrl(settings(provider.url, sasl_oauthbearer_jwks_endpoint_retry_backoff_ms="1"))

    async def story() -> None:
        await until(lambda: list(source.keys()) == ["first"])

    with caplog.at_level(logging.INFO):
        run(source, story)
    assert caplog.text.count("event=jwks_not_fetched") == 1
    assert "the answer was 503" in caplog.text
    assert "event=jwks_fetched" in caplog.text


def test_an_unknown_key_causes_a_refresh_but_not_often(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jwks, "MIN_REFRESH_S", 0.05)
    provider.answers.append(document("second"))
    source = KeyUrl(settings(provider.url))

    async def story() -> None:
        await until(lambda: list(source.keys()) == ["first"])
        for _ in range(100):
            source.request_refresh()
        await until(lambda: list(source.keys()) == ["second"])
        assert provider.asked == 2

    run(source, story)
