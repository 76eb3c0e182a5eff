"""The batch source on real Spark and real brokers: every option, every codec, and errors that name the mistake."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from insync.testing import Cluster
from tests.spark.spark_data import numbered, produce, read, values

pytestmark = pytest.mark.xdist_group("spark")

HOUR_MS = 3_600_000
FIRST_MS = 1_700_000_000_000
PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(scope="module")
def bootstrap(spark_cluster: Cluster) -> str:
    """With batch-hours: 100 records in each of two partitions, one per hour; and batch-few: three records."""
    spark_cluster.create_topic("batch-hours", partitions=2)
    spark_cluster.create_topic("batch-few", partitions=1)
    for partition in (0, 1):
        first = 1_000 * partition
        timestamps = [FIRST_MS + HOUR_MS * i for i in range(100)]
        produce(
            spark_cluster.bootstrap,
            "batch-hours",
            numbered(first, first + 100),
            partition=partition,
            timestamps=timestamps,
        )
    produce(spark_cluster.bootstrap, "batch-few", numbered(0, 3))
    return spark_cluster.bootstrap


def positions(**offsets: int) -> str:
    """Offsets of batch-hours as an option: `p0` is that of partition 0."""
    return json.dumps({"batch-hours": {name.removeprefix("p"): offset for name, offset in offsets.items()}})


def test_rows_have_the_columns_and_types_of_sparks_connector(spark: SparkSession, bootstrap: str) -> None:
    frame = read(spark, bootstrap, {"subscribe": "batch-hours"})
    types = [(field.name, field.dataType.simpleString()) for field in frame.schema]
    assert types == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
    ]
    row = frame.where("partition = 1 and offset = 7").collect()
    assert [(bytes(r.key), bytes(r.value), r.topic, r.timestamp.timestamp() * 1_000, r.timestampType) for r in row] == [
        (b"k7", b"v001007", "batch-hours", FIRST_MS + 7 * HOUR_MS, 0)
    ]


@pytest.mark.parametrize(
    ("options", "first", "second"),
    [
        ({}, (0, 100), (0, 100)),
        ({"startingOffsets": positions(p0=10, p1=-2), "endingOffsets": positions(p0=20, p1=-1)}, (10, 20), (0, 100)),
        ({"startingTimestamp": str(FIRST_MS + 90 * HOUR_MS)}, (90, 100), (90, 100)),
        (
            {"startingTimestamp": str(FIRST_MS + HOUR_MS), "endingTimestamp": str(FIRST_MS + 3 * HOUR_MS)},
            (1, 3),
            (1, 3),
        ),
        ({"endingTimestamp": str(FIRST_MS + 1_000 * HOUR_MS)}, (0, 100), (0, 100)),
        (
            {"startingOffsetsByTimestamp": positions(p0=FIRST_MS + 50 * HOUR_MS, p1=FIRST_MS + 60 * HOUR_MS - 1)},
            (50, 100),
            (60, 100),
        ),
        ({"endingOffsetsByTimestamp": positions(p0=FIRST_MS + HOUR_MS, p1=FIRST_MS)}, (0, 1), (0, 0)),
        (
            {"startingTimestamp": str(FIRST_MS + 1_000 * HOUR_MS), "startingOffsetsByTimestampStrategy": "latest"},
            (0, 0),
            (0, 0),
        ),
    ],
)
def test_options_decide_where_a_query_starts_and_ends(
    spark: SparkSession, bootstrap: str, options: dict[str, str], first: tuple[int, int], second: tuple[int, int]
) -> None:
    frame = read(spark, bootstrap, {"subscribe": "batch-hours", **options})
    assert values(frame) == numbered(*first) + numbered(1_000 + second[0], 1_000 + second[1])


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        ({"subscribe": "batch-hours,batch-few"}, 203),
        ({"subscribePattern": "atch-h"}, 200),
        ({"subscribePattern": r"^batch-\p{Lower}++$"}, 203),
        ({"assign": '{"batch-hours": [1], "batch-few": [0]}'}, 103),
        ({"assign": '{"batch-hours": [1, 7], "batch-few": [4]}'}, 100),  # the connector leaves missing ones out, too
    ],
)
def test_topics_are_selected_by_name_by_pattern_or_by_partition(
    spark: SparkSession, bootstrap: str, options: dict[str, str], rows: int
) -> None:
    assert read(spark, bootstrap, options).count() == rows


def test_more_tasks_than_partitions_read_the_same_rows(spark: SparkSession, bootstrap: str) -> None:
    many_tasks = read(spark, bootstrap, {"subscribe": "batch-hours", "minPartitions": "5"})
    assert many_tasks.rdd.getNumPartitions() >= 5
    small_tasks = read(spark, bootstrap, {"subscribe": "batch-hours", "maxRecordsPerPartition": "30"})
    assert small_tasks.rdd.getNumPartitions() == 8
    assert values(small_tasks) == values(many_tasks) == numbered(0, 100) + numbered(1_000, 1_100)


def test_a_schema_selects_columns(spark: SparkSession, bootstrap: str) -> None:
    frame = read(spark, bootstrap, {"subscribe": "batch-hours"}, "partition int, offset bigint")
    assert sorted(tuple(row) for row in frame.collect()) == [(p, i) for p in (0, 1) for i in range(100)]


def test_a_count_needs_no_column(spark: SparkSession, bootstrap: str) -> None:
    options = {"subscribe": "batch-hours", "startingOffsets": positions(p0=10, p1=3)}
    frame = spark.read.format("insync").option("kafka.bootstrap.servers", bootstrap).options(**options)
    assert frame.schema(StructType([])).load().count() == 187


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_is_read_byte_for_byte(spark: SparkSession, spark_cluster: Cluster, codec: str) -> None:
    topic = f"codec-{codec}"
    spark_cluster.create_topic(topic)
    sent: list[bytes | None] = [bytes([i % 256]) * (i % 300) for i in range(2_000)]
    sent[7] = None  # a tombstone, not an empty value
    produce(spark_cluster.bootstrap, topic, sent, codec=codec)
    assert values(read(spark, spark_cluster.bootstrap, {"subscribe": topic})) == sent


def test_headers_are_read_on_request(spark: SparkSession, spark_cluster: Cluster) -> None:
    spark_cluster.create_topic("with-headers")
    producer = Producer({"bootstrap.servers": spark_cluster.bootstrap})
    producer.produce("with-headers", b"1", headers=[("a", b"x"), ("a", None), ("ä", b"")])
    producer.produce("with-headers", b"2")
    assert producer.flush(60) == 0
    frame = read(spark, spark_cluster.bootstrap, {"subscribe": "with-headers", "includeHeaders": "true"})
    rows = sorted(frame.collect(), key=lambda row: row.offset)
    headers = [[(h.key, None if h.value is None else bytes(h.value)) for h in row.headers or ()] for row in rows]
    assert headers == [[("a", b"x"), ("a", None), ("ä", b"")], []]
    assert rows[1].headers is None


def test_with_log_append_time_the_timestamp_is_the_brokers(spark: SparkSession, spark_cluster: Cluster) -> None:
    spark_cluster.create_topic("appended", message_timestamp_type="LogAppendTime")
    produce(spark_cluster.bootstrap, "appended", numbered(0, 3), timestamps=[1_000, 2_000, 3_000])
    rows = read(spark, spark_cluster.bootstrap, {"subscribe": "appended"}).collect()
    assert {row.timestampType for row in rows} == {1}
    assert all(row.timestamp.year > 2000 for row in rows)


@pytest.mark.parametrize(
    ("options", "messages"),
    [
        ({"subscribe": "batch-few,nope"}, ["'subscribe' is 'batch-few,nope'", "there is no topic 'nope'"]),
        ({"subscribePattern": "(?<=a+)b"}, ["'subscribePattern' is '(?<=a+)b'", "a lookbehind of variable length"]),
        (
            {"subscribe": "batch-hours", "startingOffsets": '{"batch-hours": {"0": 1}}'},
            ["'startingOffsets'", "batch-hours-1 is to be read but not named"],
        ),
        (
            {"subscribe": "batch-hours", "startingTimestamp": str(FIRST_MS + 1_000 * HOUR_MS)},
            ["'startingTimestamp'", "no record of batch-hours-"],
        ),
        (
            {
                "subscribe": "batch-few",
                "startingOffsets": '{"batch-few":{"0":3}}',
                "endingOffsets": '{"batch-few":{"0":1}}',
            },
            ["from 3 to 1", "'startingOffsets'", "'endingOffsets'"],
        ),
        (
            {"subscribe": "batch-few", "startingOffsets": '{"batch-few":{"0":99}}'},
            ["'endingOffsets' is 'latest': batch-few-0 would be read from 99 to 3"],
        ),
        (
            {"subscribe": "batch-few", "kafka.bootstrap.servers": "127.0.0.1:1"},
            ["option 'kafka.bootstrap.servers' is '127.0.0.1:1': no broker can be reached", "Is the cluster running?"],
        ),
        (
            {"subscribe": "batch-few", "endingOffsets": '{"batch-few":{"0":99}}'},
            ["batch-few-0: offsets 3 to 98 missing", "the log ends at offset 3", "failOnDataLoss"],
        ),
        ({"subscribe": "batch-few", "kafka.bootstrap.servers": "localhost"}, ["'localhost' is not a broker address"]),
    ],
)
def test_errors_name_the_option_and_its_value(
    spark: SparkSession, bootstrap: str, options: dict[str, str], messages: list[str]
) -> None:
    reader: Any = spark.read.format("insync").option("kafka.bootstrap.servers", bootstrap).options(**options)
    with pytest.raises(Exception) as caught:  # noqa: PT011  Spark wraps it in an exception of its own
        reader.load().count()
    for message in messages:
        assert message in str(caught.value)


def test_an_unknown_column_or_type_is_an_error(spark: SparkSession, bootstrap: str) -> None:
    with pytest.raises(Exception, match="there is no column 'colour'"):
        read(spark, bootstrap, {"subscribe": "batch-few"}, "colour string").count()
    with pytest.raises(Exception, match="column 'value' is binary; the schema declares it as string"):
        read(spark, bootstrap, {"subscribe": "batch-few"}, "value string").count()


def test_missing_offsets_can_be_ignored(spark: SparkSession, bootstrap: str) -> None:
    options = {"subscribe": "batch-few", "endingOffsets": '{"batch-few":{"0":99}}', "failOnDataLoss": "false"}
    assert values(read(spark, bootstrap, options)) == numbered(0, 3)


def test_spark_finds_the_source_without_registration(spark: SparkSession, bootstrap: str) -> None:
    """Sources are registered per session; Spark looks for modules called pyspark_* in every session."""
    assert values(read(spark.newSession(), bootstrap, {"subscribe": "batch-few"})) == numbered(0, 3)


# --- conditions of a query -------------------------------------------------------------------------------------------


@pytest.fixture
def pushing(spark: SparkSession) -> Iterator[None]:
    spark.conf.set(PUSH_DOWN, "true")
    yield
    spark.conf.unset(PUSH_DOWN)


def fetched_bytes(cluster: Cluster) -> int:
    """What brokers have sent in answers to Fetch requests; followers are idle, and their answers almost empty."""
    total = 0
    for node in cluster.nodes.values():
        with urllib.request.urlopen(f"http://127.0.0.1:{node.metrics_port}/metrics") as answer:
            counts = re.findall(r'insync_response_bytes_total\{api="fetch"\} (\S+)', answer.read().decode().lower())
        total += sum(int(float(count)) for count in counts)
    return total


def test_only_what_a_condition_on_the_time_needs_is_fetched(
    spark: SparkSession, spark_cluster: Cluster, pushing: None
) -> None:
    spark_cluster.create_topic("pushed", partitions=2)
    times = [FIRST_MS + HOUR_MS * i for i in range(24)]
    for partition in (0, 1):
        for hour in times:
            sent = numbered(0, 40)
            produce(
                spark_cluster.bootstrap,
                "pushed",
                [value + bytes(1_000) for value in sent],
                partition=partition,
                timestamps=[hour] * len(sent),
            )

    def count(condition: str) -> tuple[int, int]:
        """(rows, bytes)"""
        frame = read(spark, spark_cluster.bootstrap, {"subscribe": "pushed", "pushFilters": "true"})
        before = fetched_bytes(spark_cluster)
        return frame.where(condition).count(), fetched_bytes(spark_cluster) - before

    rows, everything = count("offset >= 0")
    assert rows == 24 * 80
    assert everything > 24 * 80 * 1_000
    rows, fetched = count(f"timestamp >= timestamp_millis({times[-1]}) and partition = 1")
    assert rows == 40
    assert fetched < everything / 12
    rows, fetched = count(f"timestamp > timestamp_millis({times[-1]})")
    assert rows == 0
    assert fetched < everything / 20


def random_condition(random: Random) -> str:
    hour = FIRST_MS + HOUR_MS * random.randrange(-2, 102) + random.choice((0, 0, -1, 1))
    comparison = random.choice(("=", "<", "<=", ">", ">=", "<=>", "<>"))
    return random.choice(
        (
            f"timestamp {comparison} timestamp_millis({hour})",
            f"timestamp {comparison} timestamp_micros({hour}001)",
            f"offset {comparison} {random.randrange(-1, 102)}",
            f"partition {comparison} {random.randrange(3)}",
            f"offset in ({random.randrange(100)}, {random.randrange(100)}, null)",
            f"not partition in ({random.randrange(3)})",
            f"topic {comparison} '{random.choice(('batch-hours', 'batch', 'zoo'))}'",
            f"topic like '{random.choice(('batch%', '%hours', '%tch%', 'x%'))}'",
            "timestamp is not null",
            f"(offset < {random.randrange(100)} or partition = 1)",
        )
    )


def test_conditions_select_the_same_rows_with_and_without_push_down(
    spark: SparkSession, bootstrap: str, pushing: None
) -> None:
    random = Random(12)
    frame = read(spark, bootstrap, {"subscribe": "batch-hours"})
    everything = [tuple(row) for row in frame.select("topic", "partition", "offset", "timestamp").collect()]
    local = spark.createDataFrame(everything, "topic string, partition int, offset long, timestamp timestamp").cache()
    for _ in range(12):
        condition = " and ".join(random_condition(random) for _ in range(random.randint(1, 3)))
        expected = sorted(tuple(row) for row in local.where(condition).collect())
        frame = read(spark, bootstrap, {"subscribe": "batch-hours", "pushFilters": "true"}).where(condition)
        pushed = frame.select("topic", "partition", "offset", "timestamp").collect()
        assert sorted(tuple(row) for row in pushed) == expected, condition
    local.unpersist()


def test_without_the_option_a_frame_can_be_used_with_different_conditions(
    spark: SparkSession, bootstrap: str, pushing: None
) -> None:
    """Spark would reuse the plan of the condition that it pushed first."""
    frame = read(spark, bootstrap, {"subscribe": "batch-hours"})
    assert frame.where("offset >= 90").count() == 20
    assert frame.count() == 200
    assert frame.where("offset < 5").union(frame.where("offset >= 95")).count() == 20
