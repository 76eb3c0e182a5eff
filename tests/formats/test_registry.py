"""Confluent's wire format, and schemas from a registry: over HTTP and from files."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2

from insync.formats.avro_schema import parse_avro, to_arrow_type
from insync.formats.ddl import parse_ddl
from insync.formats.errors import RegistryError
from insync.formats.registry import LATEST, Registry, RegistrySettings, UnknownSchemaError
from insync.formats.value_format import ValueFormat
from tests.formats.format_data import decode
from tests.formats.protobuf_data import make_file, make_message
from tests.formats.registry_server import RegistryServer, serve_registry
from tests.formats.test_avro_values import encode, field, record
from tests.formats.test_protobuf_values import protobuf_format

OLD = record(field("id", "int"))
NEW = record(field("id", "long"), field("name", "string", default="?"))


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with serve_registry() as server:
        yield server


def framed(schema_id: int, content: bytes) -> bytes:
    return struct.pack(">bI", 0, schema_id) + content


def confluent_avro(server: RegistryServer | str, reader: Any = NEW) -> ValueFormat:
    url = server if isinstance(server, str) else server.url
    text = json.dumps(reader)
    kind = to_arrow_type(parse_avro(text))
    return ValueFormat("avro", kind, is_confluent=True, schema=text, registry=RegistrySettings(url))


def test_values_of_several_writers_become_one_column(registry: RegistryServer) -> None:
    old, new = registry.register("s", json.dumps(OLD)), registry.register("s", json.dumps(NEW))
    values = [
        framed(new, encode(NEW, {"id": 1, "name": "a"})),
        framed(old, encode(OLD, {"id": 2})),
        None,
        framed(new, encode(NEW, {"id": 3, "name": "b"})),
    ]
    decoded, reasons = decode(confluent_avro(registry), values)
    assert decoded == [{"id": 1, "name": "a"}, {"id": 2, "name": "?"}, None, {"id": 3, "name": "b"}]
    assert not any(reasons)


def test_an_id_is_asked_for_once(registry: RegistryServer) -> None:
    old = registry.register("s", json.dumps(OLD))
    for _ in range(3):
        decode(confluent_avro(registry), [framed(old, encode(OLD, {"id": 2}))] * 10)
    assert registry.requests == [f"/schemas/ids/{old}"]


def test_values_without_frame_or_with_an_unknown_or_unfitting_schema_are_malformed(registry: RegistryServer) -> None:
    other = registry.register("other", json.dumps(record(field("id", "string"))))
    good = registry.register("s", json.dumps(OLD))
    values = [b"", b"\0\0\0", b"\x01\0\0\0\1x", framed(77, b"x"), framed(other, b"\2x"), framed(good, b"\x02")]
    decoded, reasons = decode(confluent_avro(registry), values)
    assert decoded == [None] * 5 + [{"id": 1, "name": "?"}]
    assert [reason[:28] for reason in reasons[:3]] == ["it does not begin with a zer"] * 3
    assert f"does not have schema id 77 ({registry.url}/schemas/ids/77)" in reasons[3]
    assert f"schema id {other}: Avro string cannot be read as Avro long" in reasons[4]


def test_a_registry_that_cannot_be_reached_fails_the_query(registry: RegistryServer) -> None:
    with pytest.raises(RegistryError, match=r"http://127.0.0.1:9/schemas/ids/5 for schema id 5: .*schema.registry.url"):
        decode(confluent_avro("http://127.0.0.1:9"), [framed(5, b"x")])
    two = f"http://127.0.0.1:9, {registry.url}"
    old = registry.register("s", json.dumps(OLD))
    assert decode(confluent_avro(two), [framed(old, b"\x02")])[0] == [{"id": 1, "name": "?"}]


def test_credentials_are_sent_and_their_lack_explained() -> None:
    with serve_registry("user:pass word") as server:
        server.register("s", json.dumps(OLD))
        settings = RegistrySettings(server.url, user_info="user:pass word")
        assert Registry(settings).get_version("s", LATEST, "AVRO").text == json.dumps(OLD)
        assert "pass word" not in repr(settings)
        inline = RegistrySettings(server.url.replace("http://", "http://user:pass%20word@"))
        assert Registry(inline).get_version("s", LATEST, "AVRO").id
        with pytest.raises(RegistryError, match=r"HTTP 401.*basic\.auth\.user\.info"):
            Registry(RegistrySettings(server.url)).get_version("s", LATEST, "AVRO")
        wrong = RegistrySettings(server.url.replace("http://", "http://user:secret@"))
        with pytest.raises(RegistryError) as error:
            Registry(wrong).get_version("s", LATEST, "AVRO")
        assert "secret" not in str(error.value) + repr(wrong)


def test_references_are_fetched_with_the_schema(registry: RegistryServer) -> None:
    registry.register("point", json.dumps(record(field("x", "int"), name="shop.Point")))
    outer = record(field("at", "shop.Point"))
    references = [{"name": "shop.Point", "subject": "point", "version": 1}]
    schema_id = registry.register("s", json.dumps(outer), references=references)
    reader = record(field("at", record(field("x", "int"), name="shop.Point")))
    assert decode(confluent_avro(registry, reader), [framed(schema_id, b"\x0a")])[0] == [{"at": {"x": 5}}]


def test_the_latest_version_is_asked_for_each_time(registry: RegistryServer) -> None:
    client = Registry(RegistrySettings(registry.url))
    registry.register("a/b", json.dumps(OLD))
    assert client.get_version("a/b", LATEST, "AVRO").text == json.dumps(OLD)
    registry.register("a/b", json.dumps(NEW))
    assert client.get_version("a/b", LATEST, "AVRO").text == json.dumps(NEW)
    assert client.get_version("a/b", "1", "AVRO").text == json.dumps(OLD)
    with pytest.raises(UnknownSchemaError, match="version latest of subject 'c'"):
        client.get_version("c", LATEST, "AVRO")
    with pytest.raises(UnknownSchemaError, match="is AVRO, not PROTOBUF"):
        client.get_version("a/b", LATEST, "PROTOBUF")


def test_a_directory_can_be_the_registry(tmp_path: Path) -> None:
    for path, answer in {
        "schemas/ids/7": {"schema": json.dumps(OLD)},
        "subjects/s/versions/9": {"schema": json.dumps(OLD), "id": 7, "version": 9},
        "subjects/s/versions/10": {"schema": json.dumps(NEW), "id": 8, "version": 10},
    }.items():
        file = tmp_path / f"{path}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(answer))
    for url in (str(tmp_path), f"file://{tmp_path}"):
        assert Registry(RegistrySettings(url)).get_version("s", LATEST, "AVRO").id == 8
        decoded, reasons = decode(confluent_avro(url), [framed(7, b"\x02"), framed(8, b"\x02\x02a")])
        assert decoded == [{"id": 1, "name": "?"}, None]
        assert "8.json" in reasons[1]
    with pytest.raises(RegistryError, match="neither a URL nor a directory"):
        Registry(RegistrySettings(f"{tmp_path}/missing")).get_by_id(1, "AVRO")


@pytest.mark.parametrize("answer", [b"<html>", b"[]", b"{}", b'{"schema": 5}'])
def test_answers_that_are_not_a_registrys(tmp_path: Path, answer: bytes) -> None:
    (tmp_path / "schemas/ids").mkdir(parents=True)
    (tmp_path / "schemas/ids/1.json").write_bytes(answer)
    with pytest.raises(RegistryError):
        Registry(RegistrySettings(str(tmp_path))).get_by_id(1, "AVRO")


def test_json_values_lose_their_frame() -> None:
    value_format = ValueFormat("json", parse_ddl("id INT"), is_confluent=True)
    assert decode(value_format, [framed(3, b'{"id": 5}'), b'{"id": 5}'])[0] == [{"id": 5}, None]


def test_protobuf_messages_are_told_apart_by_their_indexes(registry: RegistryServer) -> None:
    file = make_file(name="default")
    text = base64.b64encode(file.SerializeToString()).decode()
    schema_id = registry.register("s", text, "PROTOBUF")
    reader = descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()
    plain = protobuf_format(reader)
    value_format = ValueFormat(
        "protobuf", plain.type, True, plain.schema, message="shop.Order", registry=RegistrySettings(registry.url)
    )
    content = make_message(file)(one_string="x").SerializeToString()
    values = [
        framed(schema_id, b"\0" + content),  # the first message
        framed(schema_id, b"\2\0" + content),  # the same, written out
        framed(schema_id, b"\2\2" + content),  # the second: Other
        framed(schema_id, b"\4\0\0" + content),  # the first nested one of the first: Order.Line
        framed(schema_id, b"\2\x64"),
        framed(schema_id, b"\xff"),
        framed(4, b"\0"),
    ]
    decoded, reasons = decode(value_format, values)
    assert [row and row["one_string"] for row in decoded] == ["x", "x", *[None] * 5]
    assert "the message shop.Other, not shop.Order" in reasons[2]
    assert "the message shop.Order.Line, not" in reasons[3]
    assert "the message (none), not" in reasons[4]
    assert "varint" in reasons[5]
    assert "does not have schema id 4" in reasons[6]
