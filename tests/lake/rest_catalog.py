"""A REST catalog of Iceberg on loopback, in a thread: the requests that archiving needs, over a SQL catalog.

    with run_rest_catalog(tmp_path, warehouse="file:///…") as catalog:
        load_catalog("x", uri=catalog.uri)

`catalog.lose_answers` is how many of the next commits are made without an answer.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from pyiceberg.catalog.rest import TableResponse
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, NamespaceAlreadyExistsError, NoSuchTableError
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableRequest, Table

NAMESPACES = "/v1/namespaces"


class RestCatalog(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, sql: SqlCatalog) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.sql = sql
        self.lock = threading.Lock()
        self.lose_answers = 0
        self.uri = f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: RestCatalog

    def log_message(self, *_: object) -> None:
        pass

    def _answer(self, status: int, body: Any = None) -> None:
        data = body.encode() if isinstance(body, str) else json.dumps(body or {}).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _fail(self, status: int, error: Exception) -> None:
        self._answer(status, {"error": {"message": str(error), "type": type(error).__name__, "code": status}})

    def _read(self) -> bytes:
        return self.rfile.read(int(self.headers["content-length"]))

    def _answer_table(self, table: Table) -> None:
        answer = TableResponse(metadata=table.metadata, **{"metadata-location": table.metadata_location})
        self._answer(200, answer.model_dump_json(by_alias=True))

    def do_GET(self) -> None:
        parts = self.path.partition("?")[0].removeprefix(NAMESPACES).strip("/").split("/")
        if self.path.startswith("/v1/config"):
            self._answer(200, {"defaults": {}, "overrides": {}})
        elif len(parts) == 1:
            self._answer(200, {"namespace": parts, "properties": {}})
        elif len(parts) == 2:
            tables = self.server.sql.list_tables(parts[0])
            self._answer(200, {"identifiers": [{"namespace": [space], "name": name} for space, name in tables]})
        else:
            self._load(parts[0], parts[2])

    do_HEAD = do_GET  # noqa: N815 (the base class chooses the name)

    def _load(self, namespace: str, name: str) -> None:
        try:
            self._answer_table(self.server.sql.load_table((namespace, name)))
        except NoSuchTableError as error:
            self._fail(404, error)

    def do_POST(self) -> None:
        parts = self.path.removeprefix(NAMESPACES).strip("/").split("/")
        body = self._read()
        with self.server.lock:
            if parts == [""]:
                self._create_namespace(json.loads(body)["namespace"])
            elif len(parts) == 2:
                self._create_table(parts[0], json.loads(body))
            else:
                self._commit(parts[0], parts[2], CommitTableRequest.model_validate_json(body))

    def _create_namespace(self, namespace: list[str]) -> None:
        try:
            self.server.sql.create_namespace(tuple(namespace))
        except NamespaceAlreadyExistsError as error:
            self._fail(409, error)
        else:
            self._answer(200, {"namespace": namespace, "properties": {}})

    def _create_table(self, namespace: str, asked: dict[str, Any]) -> None:
        schema = Schema.model_validate(asked["schema"])
        sql = self.server.sql
        self._answer_table(sql.create_table((namespace, asked["name"]), schema, properties=asked["properties"]))

    def _commit(self, namespace: str, name: str, asked: CommitTableRequest) -> None:
        table = self.server.sql.load_table((namespace, name))
        try:
            answer = self.server.sql.commit_table(table, asked.requirements, asked.updates)
        except CommitFailedException as error:
            self._fail(409, error)
            return
        if self.server.lose_answers:
            self.server.lose_answers -= 1
            self.close_connection = True
            return
        self._answer(200, answer.model_dump_json(by_alias=True))


@contextmanager
def run_rest_catalog(directory: Path, *, warehouse: str, **properties: str) -> Iterator[RestCatalog]:
    sql = SqlCatalog("rest", uri=f"sqlite:///{directory}/rest.db", warehouse=warehouse, **properties)
    with RestCatalog(sql) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()
            sql.close()
