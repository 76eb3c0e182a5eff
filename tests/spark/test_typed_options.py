"""Options that decode keys and values: the columns they give, and the errors for wrong ones."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2
from pyspark.sql.types import DecimalType, LongType, StringType, StructType

from insync.formats.errors import MalformedValueError
from insync.spark.data_source import InsyncDataSource
from insync.spark.log_source import LogDataSource
from insync.spark.option_values import OptionError
from insync.spark.typed_options import TypedColumns, to_arrow
from insync.spark.typed_rows import decode_batch
from tests.formats.protobuf_data import make_file
from tests.formats.registry_server import serve_registry
from tests.formats.test_avro_values import field, record

BASIC = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}
JSON = {"valueFormat": "json", "valueSchema": "id BIGINT, tags ARRAY<STRING>"}


def columns(options: dict[str, str]) -> dict[str, str]:
    schema = InsyncDataSource({**BASIC, **options}).schema()
    return {entry.name: entry.dataType.simpleString() for entry in schema.fields}


def select(options: dict[str, str], schema: StructType) -> Any:
    source = InsyncDataSource({**BASIC, **options})
    return source.reader(schema)


def test_a_decoded_value_is_a_struct_and_malformed_ones_have_a_column() -> None:
    assert columns(JSON) == {
        "key": "binary",
        "value": "struct<id:bigint,tags:array<string>>",
        "topic": "string",
        "partition": "int",
        "offset": "bigint",
        "timestamp": "timestamp",
        "timestampType": "int",
        "_corrupt_record": "struct<reason:string,data:binary>",
    }
    both = columns({**JSON, "keyFormat": "string", "columnNameOfCorruptRecord": "bad"})
    assert both["key"] == "string"
    assert list(both)[-2:] == ["_corrupt_key", "bad"]
    assert "_corrupt_record" not in columns({**JSON, "mode": "FAILFAST"})
    assert columns({})["value"] == "binary"


def test_the_log_source_takes_the_same_options(tmp_path: Path) -> None:
    source = LogDataSource({"path": str(tmp_path), "topics": "orders", **JSON})
    assert source.schema()["value"].dataType.simpleString() == "struct<id:bigint,tags:array<string>>"
    assert "sequence" in source.schema().fieldNames()


def test_schemas_of_json_are_ddl_or_the_json_of_spark_or_json_schema() -> None:
    spark = StructType().add("id", LongType()).add("d", DecimalType(10, 2))
    assert columns({"valueFormat": "json", "valueSchema": spark.json()})["value"] == "struct<id:bigint,d:decimal(10,2)>"
    schema = json.dumps({"type": "object", "properties": {"id": {"type": "integer"}}})
    assert columns({"valueFormat": "json", "valueSchema": schema})["value"] == "struct<id:bigint>"


def test_schemas_come_from_files_or_the_registry(tmp_path: Path) -> None:
    avro = json.dumps(record(field("id", "long")))
    (tmp_path / "order.avsc").write_text(avro)
    file = {"valueFormat": "avro", "valueSchemaFile": str(tmp_path / "order.avsc")}
    assert columns(file)["value"] == "struct<id:bigint>"
    descriptors = descriptor_pb2.FileDescriptorSet(file=[make_file()]).SerializeToString()
    (tmp_path / "order.desc").write_bytes(descriptors)
    protobuf = {"valueFormat": "protobuf", "valueSchemaFile": str(tmp_path / "order.desc"), "valueMessageName": "Order"}
    assert columns(protobuf)["value"].startswith("struct<one_double:double,many_double:array<double>")
    with serve_registry("me:pw") as server:
        options = {"schema.registry.url": server.url, "basic.auth.user.info": "me:pw"}
        server.register("orders-value", avro)
        server.register("orders-key", base64.b64encode(make_file().SerializeToString()).decode(), "PROTOBUF")
        server.register("j", json.dumps({"type": "object", "properties": {"x": {"type": "number"}}}), "JSON")
        assert columns({**options, "valueFormat": "avro-confluent"})["value"] == "struct<id:bigint>"
        assert columns({**options, "keyFormat": "protobuf-confluent"})["key"].startswith("struct<one_double")
        named = {**options, "valueFormat": "json-confluent", "valueSubject": "j", "valueSchemaVersion": "1"}
        assert columns(named)["value"] == "struct<x:double>"


def test_a_query_keeps_the_schema_that_it_began_with() -> None:
    with serve_registry() as server:
        server.register("orders-value", json.dumps(record(field("id", "long"))))
        source = InsyncDataSource({**BASIC, "valueFormat": "avro-confluent", "schema.registry.url": server.url})
        schema = source.schema()
        server.register("orders-value", json.dumps(record(field("id", "long"), field("n", "int", default=0))))
        reader: Any = source.reader(schema)
        assert reader._typed.types["value"] == pa.struct([("id", pa.int64())])


def test_a_users_schema_selects_columns_and_fields() -> None:
    schema = StructType().add("offset", LongType()).add("value", StructType().add("id", LongType()))
    reader = select(JSON, schema)
    assert reader._columns == ("offset", "value")
    assert reader._typed.types["value"] == pa.struct([("id", pa.int64())])
    only_errors = StructType().add("_corrupt_record", to_spark("reason STRING, data BINARY"))
    assert select(JSON, only_errors)._columns == ("value",)
    assert select({"valueFormat": "json"}, schema)._typed.types["value"] == pa.struct([("id", pa.int64())])


def to_spark(ddl: str) -> StructType:
    schema = StructType()
    for entry in ddl.split(","):
        name, kind = entry.split()
        schema = schema.add(name, kind.lower())
    return schema


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"valueFormat": "xml"}, "option 'valueFormat' is 'xml': one of string, json, avro, protobuf"),
        ({"valueFormat": "json"}, "option 'valueSchema' is missing"),
        ({"valueSchema": "id INT"}, "option 'valueSchema' needs 'valueFormat'"),
        ({**JSON, "mode": "DROPMALFORMED"}, "'mode' is 'DROPMALFORMED': permissive or failfast"),
        ({**JSON, "columnNameOfCorruptRecord": "offset"}, "there is a column 'offset' already"),
        ({"valueFormat": "json", "valueSchema": "id NUMBER"}, "there is no type 'number'"),
        ({"valueFormat": "avro"}, "'valueSchema' or 'valueSchemaFile', or 'schema.registry.url'"),
        ({"valueFormat": "avro", "valueSchema": "{}"}, "not an Avro schema"),
        ({"valueFormat": "avro", "valueSchemaFile": "/nowhere.avsc"}, "/nowhere.avsc': No such file"),
        ({"valueFormat": "avro-confluent"}, "give 'schema.registry.url'"),
        ({"valueFormat": "protobuf", "valueSchema": "no base64!"}, "descriptor set in base64"),
        (
            {"subscribe": "a,b", "valueFormat": "avro-confluent", "schema.registry.url": "http://127.0.0.1:9"},
            "give 'valueSubject'",
        ),
        (
            {"valueFormat": "avro-confluent", "schema.registry.url": "http://127.0.0.1:9"},
            "http://127.0.0.1:9/subjects/orders-value/versions/latest for version latest of subject 'orders-value'",
        ),
    ],
)
def test_mistakes_name_the_option(options: dict[str, str], problem: str) -> None:
    with pytest.raises(OptionError) as error:
        columns(options)
    assert problem in str(error.value)


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        (StructType().add("value", StructType().add("missing", LongType())), "'value' has no field 'missing'"),
        (StructType().add("value", StructType().add("id", StringType())), "'value.id' is bigint; the schema declares"),
        (StructType().add("value", StructType().add("id", LongType(), nullable=False)), "declared as not null"),
    ],
)
def test_a_users_schema_that_does_not_fit_is_refused(schema: StructType, problem: str) -> None:
    with pytest.raises(OptionError, match=problem):
        select(JSON, schema)


def typed_columns(options: dict[str, str], *names: str) -> TypedColumns:
    source = InsyncDataSource({**BASIC, **options})
    schema = source.schema()
    reader: Any = source.reader(StructType([schema[name] for name in names or schema.fieldNames()]))
    assert isinstance(reader._typed, TypedColumns)
    return reader._typed


BATCH = pa.RecordBatch.from_pydict(
    {
        "topic": ["orders"] * 4,
        "partition": pa.array([0] * 4, pa.int32()),
        "offset": [5, 6, 7, 8],
        "value": pa.array([b'{"id": 1}', None, b"{", b'{"id": "x", "tags": ["a"]}'], pa.binary()),
        "key": pa.array([b"k", None, b"\xff", b""], pa.binary()),
    }
)


def test_malformed_records_go_to_their_column_and_tombstones_stay_null() -> None:
    names = ("key", "value", "offset", "_corrupt_key", "_corrupt_record")
    rows = decode_batch(BATCH, typed_columns({**JSON, "keyFormat": "string"}, *names)).to_pylist()
    assert [row["key"] for row in rows] == ["k", None, None, ""]
    assert [row["value"] for row in rows] == [{"id": 1, "tags": None}, None, None, {"id": None, "tags": ["a"]}]
    assert [row["_corrupt_key"] for row in rows] == [
        *(None, None),
        *({"reason": "a string that is not UTF-8", "data": b"\xff"}, None),
    ]
    assert [row["_corrupt_record"] for row in rows] == [
        *(None, None, {"reason": "it ends too early", "data": b"{"}),
        {"reason": "a field has another type than in the schema", "data": b'{"id": "x", "tags": ["a"]}'},
    ]


def test_failfast_names_the_record() -> None:
    with pytest.raises(
        MalformedValueError, match="the value of orders-0 at offset 7 cannot be decoded as json: it ends"
    ):
        decode_batch(BATCH, typed_columns({**JSON, "mode": "FAILFAST"}, "value"))


def test_spark_derives_the_arrow_types_that_are_made() -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    options = {"valueFormat": "json", "valueSchema": "a ARRAY<MAP<STRING, STRUCT<t: TIMESTAMP, d: DECIMAL(9,1)>>>"}
    schema = InsyncDataSource({**BASIC, **options}).schema()
    derived = to_arrow_schema(schema, timezone="UTC")
    typed = typed_columns(options)
    for name, kind in typed.types.items():
        assert derived.field(name).type == kind == to_arrow(schema[name].dataType)
