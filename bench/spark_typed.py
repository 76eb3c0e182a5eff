"""Typed values: decoding alone beside libraries, and queries of `valueFormat` beside Spark's own functions.

The functions get the same bytes from the same source, so that only decoding differs. `from_avro` needs a jar of Spark:
it is measured if build/spark-avro has one. `from_protobuf` is not measured.
"""

from __future__ import annotations

import io
import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.json
from common import table
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, from_json
from spark_measure import Sample, measure
from spark_queries import noop

from insync.formats.avro_schema import parse_avro, to_arrow_type
from insync.formats.ddl import parse_ddl
from insync.formats.decoder import Decoder
from insync.formats.value_format import AVRO, JSON, ValueFormat
from insync.testing import Cluster

AVRO_JARS = Path(__file__).parents[1] / "build" / "spark-avro"
DISTINCT = 40_000
DDL = "id BIGINT, user STRING, amount DOUBLE, ok BOOLEAN, tags ARRAY<STRING>, note STRING"
SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "user", "type": "string"},
        {"name": "amount", "type": "double"},
        {"name": "ok", "type": "boolean"},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}
_PARSED = fastavro.parse_schema(SCHEMA)


def make_orders() -> list[dict[str, Any]]:
    numbers = random.Random(1)
    return [
        {
            "id": i,
            "user": f"user-{numbers.randrange(10**6)}",
            "amount": numbers.random() * 100,
            "ok": bool(i % 2),
            "tags": ["a", "bc"][: i % 3],
            "note": None if i % 4 else "hello",
        }
        for i in range(DISTINCT)
    ]


def encode_avro(order: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, _PARSED, order)
    return out.getvalue()


# --- decoding alone --------------------------------------------------------------------------------------------------


def measure_decoding(seconds: float) -> dict[str, float]:
    orders = make_orders()
    texts = [json.dumps(order).encode() for order in orders]
    binaries = [encode_avro(order) for order in orders]
    text_column, binary_column = pa.array(texts, pa.binary()), pa.array(binaries, pa.binary())
    kind = parse_ddl(DDL)
    decode_json = Decoder(ValueFormat(JSON, kind)).decode
    schema = json.dumps(SCHEMA)
    decode_avro = Decoder(ValueFormat(AVRO, to_arrow_type(parse_avro(schema)), schema=schema)).decode
    ways: dict[str, Callable[[], object]] = {
        "JSON, insync": lambda: decode_json(text_column),
        "JSON, pyarrow.json": lambda: _read_lines(texts, kind),
        "JSON, json.loads": lambda: pa.array([json.loads(text) for text in texts], kind),
        "Avro, insync": lambda: decode_avro(binary_column),
        "Avro, fastavro": lambda: pa.array(
            [fastavro.schemaless_reader(io.BytesIO(value), _PARSED) for value in binaries], kind
        ),
    }
    rates = {name: DISTINCT / _fastest(work, seconds) for name, work in ways.items()}
    lines = [(name, rate / 1e6, f"{rate / rates[name[:4] + ', insync']:.2f} x") for name, rate in rates.items()]
    sizes = [sum(map(len, values)) // DISTINCT for values in (texts, binaries)]
    title = f"typed values, decoding, one core (JSON {sizes[0]} B, Avro {sizes[1]} B)"
    table(title, ("", "Mrec/s", "of insync"), lines)
    return rates


def _read_lines(texts: list[bytes], kind: pa.DataType) -> pa.Table:
    content = b"\n".join(texts)
    return pyarrow.json.read_json(
        pa.BufferReader(content),
        read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(content) + 1),
        parse_options=pyarrow.json.ParseOptions(explicit_schema=pa.schema(list(kind))),
    )


def _fastest(work: Callable[[], object], seconds: float) -> float:
    work()
    until, best = time.perf_counter() + seconds, float("inf")
    while time.perf_counter() < until or best == float("inf"):
        began = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - began)
    return best


# --- queries ---------------------------------------------------------------------------------------------------------


def measure_queries(spark: SparkSession, cluster: Cluster, rows: int, *, warm: int, runs: int) -> dict[str, float]:
    orders = make_orders()
    _fill(cluster, "typed-json", [json.dumps(order).encode() for order in orders], rows)
    _fill(cluster, "typed-avro", [encode_avro(order) for order in orders], rows)

    def read(topic: str, **options: str) -> DataFrame:
        reader = spark.read.format("insync").option("kafka.bootstrap.servers", cluster.bootstrap)
        return reader.options(subscribe=topic, **options).load().select("offset", "value")

    def decode(frame: DataFrame, function: Callable[[Any], Any]) -> DataFrame:
        return frame.select("offset", function(col("value")).alias("value"))

    schema = json.dumps(SCHEMA)
    ways: dict[str, Callable[[], DataFrame]] = {
        "JSON, valueFormat": lambda: read("typed-json", valueFormat="json", valueSchema=DDL),
        "JSON, from_json": lambda: decode(read("typed-json"), lambda value: from_json(value.cast("string"), DDL)),
        "JSON, bytes only": lambda: read("typed-json"),
        "Avro, valueFormat": lambda: read("typed-avro", valueFormat="avro", valueSchema=schema),
        "Avro, bytes only": lambda: read("typed-avro"),
    }
    if any(AVRO_JARS.glob("*.jar")):
        from pyspark.sql.avro.functions import from_avro

        ways["Avro, from_avro"] = lambda: decode(read("typed-avro"), lambda value: from_avro(value, schema))
    else:
        print("from_avro is not measured (no jar in build/spark-avro)")
    samples = {name: measure(lambda make=make: noop(make()), warm=warm, runs=runs) for name, make in ways.items()}  # type: ignore[misc]
    lines = [_line(name, sample, rows, samples) for name, sample in samples.items()]
    table(f"typed values → noop, {rows:,} rows", ("", "Mrow/s", "CPU s/Mrow", "of valueFormat"), lines)
    return {name: rows / sample.seconds for name, sample in samples.items()}


def _line(name: str, sample: Sample, rows: int, samples: dict[str, Sample]) -> tuple[object, ...]:
    ours = samples[f"{name[:4]}, valueFormat"]
    millions = rows / 1e6
    ratio = f"{ours.seconds / sample.seconds:.2f} x"
    return name, millions / sample.seconds, sample.cpu_seconds / millions, ratio


def _fill(cluster: Cluster, topic: str, values: list[bytes], rows: int) -> None:
    cluster.create_topic(topic, partitions=2)
    settings = {"linger.ms": 20, "batch.size": 1 << 18, "queue.buffering.max.messages": 2_000_000}
    producer = Producer({"bootstrap.servers": cluster.bootstrap, **settings})
    for i in range(rows):
        producer.produce(topic, values[i % len(values)], partition=i % 2)
        if i % 5_000 == 0:
            producer.poll(0)
    if producer.flush(120):
        raise RuntimeError(f"{topic} could not be written")
