"""A schema registry with Confluent's REST interface, or the same as files of a directory.

Registered schemas never change, so answers are kept for the life of the process, except which version of a subject is
the latest. A directory has the answers as files, such as `schemas/ids/7.json` and
`subjects/orders-value/versions/2.json`; `latest` is the highest version there.
"""

from __future__ import annotations

import base64
import json
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, unquote, urlsplit
from urllib.request import HTTPSHandler, Request, build_opener

from insync.formats.errors import RegistryError

MAX_ANSWER = 32 << 20
LATEST = "latest"
AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
_SERIALIZED = "?format=serialized"


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    url: str = field(repr=False)
    """Several with commas: the next one is asked if one cannot be reached. May contain USER:PASSWORD@."""
    user_info: str = field(default="", repr=False)
    """USER:PASSWORD."""
    token: str = field(default="", repr=False)
    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""
    key_password: str = field(default="", repr=False)
    timeout_s: float = 30.0


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    id: int
    kind: str
    """AVRO, JSON or PROTOBUF."""
    text: str
    """Of Protobuf the descriptor of its file, serialized and in base64."""
    references: Mapping[str, RegisteredSchema]
    """By the name that the text uses. A reference comes after those that it needs."""

    @property
    def texts(self) -> dict[str, str]:
        return {name: reference.text for name, reference in self.references.items()}


class UnknownSchemaError(RegistryError):
    """The registry answers that it does not have the schema, subject or version."""


def _split_user_info(url: str) -> tuple[str, str]:
    """The URL without credentials, and the credentials."""
    parts = urlsplit(url)
    if not parts.username:
        return url.rstrip("/"), ""
    without = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    return without.rstrip("/"), f"{unquote(parts.username)}:{unquote(parts.password or '')}"


@cache
def registry_for(settings: RegistrySettings) -> Registry:
    return Registry(settings)


class Registry:
    def __init__(self, settings: RegistrySettings) -> None:
        self._settings = settings
        self._servers = dict(map(_split_user_info, filter(None, map(str.strip, settings.url.split(",")))))
        """By URL, the USER:PASSWORD that it contained: no message shows them."""
        self._by_id: dict[tuple[int, str], RegisteredSchema] = {}
        self._by_version: dict[tuple[str, str, str], RegisteredSchema] = {}
        self._opener: Any = None

    def get_by_id(self, schema_id: int, kind: str) -> RegisteredSchema:
        key = schema_id, kind
        if key not in self._by_id:
            query = _SERIALIZED if kind == PROTOBUF else ""
            answer = self._get(f"/schemas/ids/{schema_id}", query, f"schema id {schema_id}")
            self._by_id[key] = self._parse({**answer, "id": schema_id}, kind, f"schema id {schema_id}")
        return self._by_id[key]

    def get_version(self, subject: str, version: str, kind: str) -> RegisteredSchema:
        key = subject, version, kind
        if key in self._by_version:
            return self._by_version[key]
        query = _SERIALIZED if kind == PROTOBUF else ""
        what = f"version {version} of subject '{subject}'"
        answer = self._get(f"/subjects/{quote(subject, safe='')}/versions/{version}", query, what)
        schema = self._parse(answer, kind, what)
        if version != LATEST:
            self._by_version[key] = schema
        return schema

    def _parse(self, answer: Mapping[str, Any], kind: str, what: str) -> RegisteredSchema:
        text, actual = answer.get("schema"), str(answer.get("schemaType") or AVRO)
        if not isinstance(text, str):
            raise RegistryError(f"the schema registry {', '.join(self._servers)} answered without a schema for {what}")
        if actual != kind:
            raise UnknownSchemaError(
                f"{what} of the schema registry {', '.join(self._servers)} is {actual}, not {kind}"
            )
        references: dict[str, RegisteredSchema] = {}
        for entry in answer.get("references") or ():
            schema = self.get_version(str(entry["subject"]), str(entry["version"]), kind)
            references.update(schema.references)
            references[str(entry["name"])] = schema
        return RegisteredSchema(int(answer.get("id", 0)), actual, text, references)

    # --- answers -----------------------------------------------------------------------------------------------------

    def _get(self, path: str, query: str, what: str) -> dict[str, Any]:
        for i, url in enumerate(self._servers):
            try:
                content = self._read(url, path, query, what)
            except (OSError, ValueError, HTTPException) as error:
                if i + 1 < len(self._servers):
                    continue
                reason = getattr(error, "reason", error)
                raise RegistryError(
                    f"the schema registry did not answer {url}{path} for {what}: {reason}. "
                    "Check 'schema.registry.url', and that this machine can reach it"
                ) from None
            try:
                answer = json.loads(content)
            except ValueError:
                answer = None
            if not isinstance(answer, dict):
                raise RegistryError(f"{url}{path} did not answer with JSON: is it a schema registry?")
            return answer
        raise RegistryError("option 'schema.registry.url' is empty: give the URL of a schema registry")

    def _read(self, url: str, path: str, query: str, what: str) -> bytes:
        if not url.startswith(("http://", "https://")):
            return self._read_file(url, path, what)
        request = Request(url + path + query, headers={"Accept": "application/vnd.schemaregistry.v1+json, */*"})
        if authorization := self._authorization(url):
            request.add_unredirected_header("Authorization", authorization)
        try:
            with self._open(request) as response:
                content: bytes = response.read(MAX_ANSWER)
                return content
        except HTTPError as error:
            raise self._explain(error, url + path, what) from None

    def _explain(self, error: HTTPError, url: str, what: str) -> RegistryError:
        if error.code == 404:
            return UnknownSchemaError(f"the schema registry does not have {what} ({url})")
        if error.code in (401, 403):
            return RegistryError(
                f"the schema registry refused {url} for {what} (HTTP {error.code}): "
                "check 'basic.auth.user.info' (USER:PASSWORD) and the rights of that user"
            )
        return RegistryError(f"the schema registry answered {url} for {what} with HTTP {error.code}: see its log")

    def _authorization(self, url: str) -> str:
        if self._settings.token:
            return f"Bearer {self._settings.token}"
        user_info = self._settings.user_info or self._servers[url]
        return "Basic " + base64.b64encode(user_info.encode()).decode() if user_info else ""

    def _open(self, request: Request) -> Any:
        if self._opener is None:
            self._opener = build_opener(HTTPSHandler(context=self._tls_context()))
        return self._opener.open(request, timeout=self._settings.timeout_s)

    def _tls_context(self) -> ssl.SSLContext:
        settings = self._settings
        try:
            context = ssl.create_default_context(cafile=settings.ca_file or None)
            if settings.certificate_file:
                key = settings.key_file or None
                context.load_cert_chain(settings.certificate_file, key, settings.key_password or None)
        except (OSError, ssl.SSLError) as error:
            files = ", ".join(name for name in (settings.ca_file, settings.certificate_file, settings.key_file) if name)
            raise RegistryError(f"the TLS files of the schema registry ({files}) cannot be used: {error}") from None
        return context

    def _read_file(self, url: str, path: str, what: str) -> bytes:
        directory = url.removeprefix("file://")
        if not os.path.isdir(directory):
            raise RegistryError(f"the schema registry {url} is neither a URL nor a directory")
        if path.endswith(f"/{LATEST}"):
            folder = directory + path.removesuffix(f"/{LATEST}")
            names = os.listdir(folder) if os.path.isdir(folder) else []
            versions = sorted(int(name[:-5]) for name in names if name.endswith(".json") and name[:-5].isdigit())
            path = path.removesuffix(LATEST) + str(versions[-1] if versions else 0)
        try:
            with open(f"{directory}{path}.json", "rb") as file:
                return file.read(MAX_ANSWER)
        except FileNotFoundError:
            raise UnknownSchemaError(f"the schema registry does not have {what} ({directory}{path}.json)") from None
