"""A schema registry for tests: Confluent's REST interface on a loopback port, in this process."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

NOT_FOUND = {"error_code": 40403, "message": "Schema not found"}


class RegistryServer:
    """`register` returns the id of a schema. `requests` are the paths that were asked for."""

    def __init__(self, user_info: str = "") -> None:
        self._answers: dict[str, dict[str, Any]] = {}
        self._versions: dict[str, int] = {}
        self._authorization = "Basic " + base64.b64encode(user_info.encode()).decode() if user_info else ""
        self.requests: list[str] = []
        self.url = ""

    def register(
        self, subject: str, schema: str, kind: str = "AVRO", references: list[dict[str, Any]] | None = None
    ) -> int:
        schema_id = 1_000 + len(self._answers)
        version = self._versions[subject] = self._versions.get(subject, 0) + 1
        answer = {"schema": schema, "schemaType": kind, "references": references or []}
        self._answers[f"/schemas/ids/{schema_id}"] = answer
        for name in (version, "latest"):
            path = f"/subjects/{subject}/versions/{name}"
            self._answers[path] = {"subject": subject, "version": version, "id": schema_id, **answer}
        return schema_id

    def answer(self, path: str, authorization: str) -> tuple[int, dict[str, Any]]:
        self.requests.append(path)
        if self._authorization and authorization != self._authorization:
            return 401, {"error_code": 40101, "message": "Unauthorized"}
        answer = self._answers.get(unquote(urlsplit(path).path))
        return (404, NOT_FOUND) if answer is None else (200, answer)


@contextmanager
def serve_registry(user_info: str = "") -> Iterator[RegistryServer]:
    registry = RegistryServer(user_info)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, answer = registry.answer(self.path, self.headers.get("Authorization", ""))
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *arguments: Any) -> None:
            """Not on the console."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
