"""Options that decode keys and values: `valueFormat`, `valueSchema`, …, and the columns that a query then has.

The reader's schema is looked up once, when a DataFrame is made, and travels with it: a stream has the same columns
until it is restarted, whatever a registry gets in the meantime. The executors look up what values were written with.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import types as spark_types
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import DataType, StructField, StructType

from insync.formats import avro_schema, protobuf_schema
from insync.formats.arrow_types import DURATION, LOCAL_TIMESTAMP, TIMESTAMP, list_of, map_of, struct_of
from insync.formats.ddl import parse_ddl
from insync.formats.errors import RegistryError, SchemaError
from insync.formats.json_schema import parse_json_schema
from insync.formats.registry import LATEST, RegisteredSchema, RegistrySettings, registry_for
from insync.formats.value_format import AVRO, JSON, PROTOBUF, STRING, ValueFormat
from insync.spark.option_values import OptionError, OptionValues

ListTopics = Callable[[], tuple[str, ...]]

CONFLUENT = "-confluent"
FORMATS = (STRING, JSON, AVRO, PROTOBUF, JSON + CONFLUENT, AVRO + CONFLUENT, PROTOBUF + CONFLUENT)
PERMISSIVE, FAILFAST = "permissive", "failfast"
CORRUPT_TYPE = struct_of((("reason", pa.string()), ("data", pa.binary())))
_DEFAULT_CORRUPT = {"value": "_corrupt_record", "key": "_corrupt_key"}
_CORRUPT_OPTION = {"value": "columnNameOfCorruptRecord", "key": "columnNameOfCorruptKey"}
_OF_EACH = ("Format", "Schema", "SchemaFile", "WriterSchema", "MessageName", "Subject", "SchemaVersion")
_REGISTRY = "schema.registry."
_REGISTRY_NAMES = (
    *("schema.registry.url", "basic.auth.user.info", "bearer.auth.token"),
    *("ssl.ca.location", "ssl.truststore.location", "ssl.certificate.location", "ssl.keystore.location"),
    *("ssl.key.location", "ssl.key.password", "request.timeout.ms"),
)
TYPED_NAMES = (
    *(f"{part}{option}" for part in ("key", "value") for option in _OF_EACH),
    *("mode", "columnNameOfCorruptRecord", "columnNameOfCorruptKey", "schema.registry.url"),
    *("basic.auth.user.info", "basic.auth.credentials.source", "bearer.auth.token"),
    *(_REGISTRY + name for name in _REGISTRY_NAMES if not name.startswith(_REGISTRY)),
    *(_REGISTRY + "basic.auth.credentials.source",),
)


@dataclass(frozen=True, slots=True)
class TypedColumns:
    """What to decode. Pickled to executors."""

    formats: tuple[tuple[str, ValueFormat], ...]
    """By column: key, value or both."""
    corrupt: tuple[tuple[str, str], ...]
    """By the name of a column for malformed records, the column that they were in. Empty: they fail the query."""
    columns: tuple[str, ...] = ()
    """Of the result, once they are selected."""

    @property
    def types(self) -> dict[str, pa.DataType]:
        """Of the columns that are decoded or added."""
        return {name: kind.type for name, kind in self.formats} | {name: CORRUPT_TYPE for name, _ in self.corrupt}

    @property
    def source_columns(self) -> tuple[str, ...]:
        """The columns of the log that are needed to make those of the result."""
        origins = dict(self.corrupt)
        needed = [origins.get(name, name) for name in self.columns]
        if not self.corrupt:  # an error names its record
            needed += ["topic", "partition", "offset"]
        return tuple(dict.fromkeys(needed))


def read_typed_options(values: OptionValues, list_topics: ListTopics, schema: StructType | None) -> TypedColumns | None:
    """None if nothing is to be decoded. `schema` is the user's, if there is one: JSON takes its types from it."""
    parts = [part for part in ("key", "value") if f"{part}Format" in values]
    _reject_unused(values, parts)
    if not parts:
        return None
    mode = values.choice("mode", (PERMISSIVE, FAILFAST), default=PERMISSIVE)
    formats, corrupt = [], []
    for part in parts:
        declared = None
        if schema is not None and part in schema.fieldNames():
            declared = to_arrow(schema[part].dataType)
        formats.append((part, _read_format(values, part, list_topics, declared)))
        if mode == PERMISSIVE:
            corrupt.append((values.get(_CORRUPT_OPTION[part]) or _DEFAULT_CORRUPT[part], part))
    return TypedColumns(tuple(formats), tuple(corrupt))


def _reject_unused(values: OptionValues, parts: list[str]) -> None:
    for part in ("key", "value"):
        for option in _OF_EACH[1:]:
            if f"{part}{option}" in values and part not in parts:
                raise OptionError(f"option '{part}{option}' needs '{part}Format': one of {', '.join(FORMATS)}")


def add_typed_columns(columns: dict[str, str], typed: TypedColumns | None) -> StructType:
    """The schema of a DataFrame, from the names and types of the log's columns."""
    types = typed.types if typed else {}
    schema = StructType()
    for name, kind in columns.items():
        schema = schema.add(name, from_arrow_type(types[name] if name in types else parse_ddl(kind)))
    for name, _ in typed.corrupt if typed else ():
        if name in columns:
            raise OptionError(f"there is a column '{name}' already: choose another name for malformed records")
        schema = schema.add(name, from_arrow_type(CORRUPT_TYPE))
    return schema


def select_typed_columns(schema: StructType, typed: TypedColumns) -> TypedColumns:
    """With the columns of a user's schema, and of decoded values only the fields that it has."""
    formats = []
    for name, value_format in typed.formats:
        if name in schema.fieldNames():
            wanted = to_arrow(schema[name].dataType)
            check_part(wanted, value_format.type, name)
            formats.append((name, replace(value_format, type=wanted)))
        elif any(name == part and column in schema.fieldNames() for column, part in typed.corrupt):
            formats.append((name, value_format))
    return replace(typed, formats=tuple(formats), columns=tuple(schema.fieldNames()))


def check_part(wanted: pa.DataType, whole: pa.DataType, path: str) -> None:
    """Raises unless `wanted` is `whole`, or has fewer fields."""
    if wanted == whole:
        return
    if pa.types.is_struct(wanted) and pa.types.is_struct(whole):
        names = [whole.field(i).name for i in range(whole.num_fields)]
        for i in range(wanted.num_fields):
            field = wanted.field(i)
            if field.name not in names:
                raise OptionError(f"'{path}' has no field '{field.name}'; it has {', '.join(names)}")
            check_part(field.type, whole.field(field.name).type, f"{path}.{field.name}")
    elif pa.types.is_list(wanted) and pa.types.is_list(whole):
        check_part(wanted.value_type, whole.value_type, f"{path}.element")
    elif pa.types.is_map(wanted) and pa.types.is_map(whole) and wanted.key_type == whole.key_type:
        check_part(wanted.item_type, whole.item_type, f"{path}.value")
    else:
        actual, declared = (from_arrow_type(kind).simpleString() for kind in (whole, wanted))
        raise OptionError(f"'{path}' is {actual}; the schema declares it as {declared}")


# --- one format ------------------------------------------------------------------------------------------------------


def _read_format(values: OptionValues, part: str, list_topics: ListTopics, declared: pa.DataType | None) -> ValueFormat:
    name = values.choice(f"{part}Format", FORMATS, default="")
    is_confluent = name.endswith(CONFLUENT)
    reader = _Reader(values, part, name.removesuffix(CONFLUENT), is_confluent, list_topics)
    try:
        return reader.read(declared)
    except (SchemaError, RegistryError) as error:
        raise OptionError(f"option '{part}Format' is {name!r}: {error}") from None


class _Reader:
    """Finds the reader's schema of keys or values."""

    def __init__(self, values: OptionValues, part: str, name: str, is_confluent: bool, list_topics: ListTopics) -> None:
        self._values, self._part, self._name, self._is_confluent = values, part, name, is_confluent
        self._list_topics = list_topics
        self._registry = read_registry_settings(values)
        if is_confluent and name == AVRO and self._registry is None:
            raise OptionError(f"option '{part}Format' is '{name}{CONFLUENT}': give 'schema.registry.url', too")

    def read(self, declared: pa.DataType | None) -> ValueFormat:
        if self._name == STRING:
            return ValueFormat(STRING, pa.string())
        if self._name == JSON:
            return ValueFormat(JSON, self._read_json_type(declared), is_confluent=self._is_confluent)
        if self._name == AVRO:
            return self._read_avro()
        return self._read_protobuf()

    def _read_json_type(self, declared: pa.DataType | None) -> pa.DataType:
        text = self._read_text()
        if text.lstrip().startswith("{"):
            return self._parse_json_type(text)
        if text:
            return parse_ddl(text)
        if declared is not None:
            return declared
        if self._registry is None or not self._is_confluent:
            example = "'id BIGINT, name STRING'"
            raise OptionError(f"option '{self._part}Schema' is missing: the types of the fields, such as {example}")
        return parse_json_schema(self._get_registered().text)

    def _parse_json_type(self, text: str) -> pa.DataType:
        """The JSON of a Spark schema, which has the type `struct`, or else a JSON Schema."""
        try:
            given = json.loads(text)
        except ValueError as error:
            raise SchemaError(f"option '{self._part}Schema' is not valid JSON: {error}") from None
        if given.get("type") != "struct":
            return parse_json_schema(text)
        try:
            return to_arrow(StructType.fromJson(given))
        except (KeyError, TypeError, ValueError) as error:
            raise SchemaError(f"option '{self._part}Schema' is not the JSON of a Spark schema: {error}") from None

    def _read_avro(self) -> ValueFormat:
        text = self._read_text()
        references: tuple[tuple[str, str], ...] = ()
        if not text:
            registered = self._get_registered()
            text, references = registered.text, tuple(registered.texts.items())
        kind = avro_schema.to_arrow_type(avro_schema.parse_avro(text, dict(references)))
        writer = self._option("WriterSchema")
        if writer and self._is_confluent:
            raise OptionError(f"option '{self._part}WriterSchema': values name their writer's schema themselves")
        return ValueFormat(AVRO, kind, self._is_confluent, text, references, writer, registry=self._registry)

    def _read_protobuf(self) -> ValueFormat:
        name = self._option("MessageName")
        if file := self._option("SchemaFile"):
            content = self._read_file(file)
        elif text := self._option("Schema"):
            try:
                content = base64.b64decode(text, validate=True)
            except ValueError:
                raise SchemaError(
                    f"option '{self._part}Schema' has to be a descriptor set in base64; "
                    f"or give its file as '{self._part}SchemaFile'"
                ) from None
        else:
            content = self._get_descriptor_set()
        message = protobuf_schema.load_message(content, name)
        return ValueFormat(
            PROTOBUF,
            protobuf_schema.to_arrow_type(message),
            self._is_confluent,
            base64.b64encode(content).decode(),
            message=message.full_name,
            registry=self._registry,
        )

    def _get_descriptor_set(self) -> bytes:
        registered = self._get_registered()
        descriptors, _ = protobuf_schema.import_protobuf()
        files = protobuf_schema.to_descriptors(registered.text, registered.texts)
        content: bytes = descriptors.FileDescriptorSet(file=files).SerializeToString()
        return content

    def _get_registered(self) -> RegisteredSchema:
        part = self._part
        if self._registry is None:
            raise OptionError(f"give the schema with '{part}Schema' or '{part}SchemaFile', or 'schema.registry.url'")
        subject = self._option("Subject")
        if not subject:
            topics = self._list_topics()
            if len(topics) != 1:
                raise OptionError(f"give '{part}Subject': only a query of one topic has a subject by default")
            subject = f"{topics[0]}-{part}"
        version = self._option("SchemaVersion") or LATEST
        return registry_for(self._registry).get_version(subject, version, self._name.upper())

    def _read_text(self) -> str:
        file = self._option("SchemaFile")
        return self._read_file(file).decode(errors="replace") if file else self._option("Schema")

    def _read_file(self, path: str) -> bytes:
        try:
            with open(path, "rb") as file:
                return file.read()
        except OSError as error:
            reason = error.strerror or str(error)
            raise OptionError(f"option '{self._part}SchemaFile' is {path!r}: {reason}") from None

    def _option(self, name: str) -> str:
        return self._values.get(f"{self._part}{name}").strip()


def read_registry_settings(values: OptionValues) -> RegistrySettings | None:
    """Under Confluent's names: those of its serializers, or with the prefix `schema.registry.`."""

    def get(*names: str) -> str:
        given = (values.get(prefix + name).strip() for name in names for prefix in (_REGISTRY, ""))
        return next(filter(None, given), "")

    url = values.get("schema.registry.url").strip()
    if not url:
        return None
    source = get("basic.auth.credentials.source").upper()
    if source not in ("", "USER_INFO", "URL"):
        raise values.error("basic.auth.credentials.source", "USER_INFO or URL")
    return RegistrySettings(
        url,
        user_info=get("basic.auth.user.info"),
        token=get("bearer.auth.token"),
        ca_file=get("ssl.ca.location", "ssl.truststore.location"),
        certificate_file=get("ssl.certificate.location", "ssl.keystore.location"),
        key_file=get("ssl.key.location"),
        key_password=get("ssl.key.password"),
        timeout_s=(values.number(_REGISTRY + "request.timeout.ms") or 30_000) / 1_000,
    )


# --- types -----------------------------------------------------------------------------------------------------------

_PLAIN: dict[type[DataType], pa.DataType] = {
    spark_types.BooleanType: pa.bool_(),
    spark_types.ByteType: pa.int8(),
    spark_types.ShortType: pa.int16(),
    spark_types.IntegerType: pa.int32(),
    spark_types.LongType: pa.int64(),
    spark_types.FloatType: pa.float32(),
    spark_types.DoubleType: pa.float64(),
    spark_types.StringType: pa.string(),
    spark_types.BinaryType: pa.binary(),
    spark_types.DateType: pa.date32(),
    spark_types.TimestampType: TIMESTAMP,
    spark_types.TimestampNTZType: LOCAL_TIMESTAMP,
    spark_types.DayTimeIntervalType: DURATION,
    spark_types.NullType: pa.null(),
}


def to_arrow(kind: DataType) -> pa.DataType:
    """The Arrow type of a Spark type, whatever the version of PySpark."""
    if isinstance(kind, StructType):
        return struct_of((field.name, to_arrow(_checked(field).dataType)) for field in kind.fields)
    if isinstance(kind, spark_types.ArrayType):
        return list_of(to_arrow(kind.elementType))
    if isinstance(kind, spark_types.MapType):
        return map_of(to_arrow(kind.valueType), to_arrow(kind.keyType))
    if isinstance(kind, spark_types.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    for plain, arrow_type in _PLAIN.items():
        if isinstance(kind, plain):
            return arrow_type
    raise OptionError(f"a decoded value cannot have the type {kind.simpleString()}")


def _checked(field: StructField) -> StructField:
    if not field.nullable:
        raise OptionError(f"field '{field.name}' is declared as not null: any field of a decoded value may be null")
    return field
