"""kcat as it is used in a shell. Debian's is built on librdkafka 2.0: it is the oldest of these clients."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from tests.interop.interop_clients import (
    CLIENTS,
    CODECS,
    Confluent,
    KafkaPython,
    MakeTopic,
    Record,
    confluent_consumer,
    contents,
    kcat,
    kcat_json,
    stored_bytes,
)
from tests.polling import wait_until

PAIRS = [(f"key{i}", f"value {i}") for i in range(20)]
LINES = "".join(f"{key}:{value}\n" for key, value in PAIRS).encode()


def test_it_lists_brokers_topics_and_replicas(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(3)
    listing = wait_until(lambda: _list_topic(bootstrap, topic), "kcat lists the topic")
    assert sorted(broker["id"] for broker in listing["brokers"]) == [1, 2, 3]
    assert {broker["name"] for broker in listing["brokers"]} >= set(bootstrap.split(","))
    (described,) = listing["topics"]
    assert described["topic"] == topic
    assert [partition["partition"] for partition in described["partitions"]] == [0, 1, 2]
    for partition in described["partitions"]:
        assert sorted(replica["id"] for replica in partition["replicas"]) == [1, 2, 3]
        assert sorted(replica["id"] for replica in partition["isrs"]) == [1, 2, 3]
        assert partition["leader"] == partition["replicas"][0]["id"]


def _list_topic(bootstrap: str, topic: str) -> Any:
    listing = kcat_json(bootstrap, "-L", "-t", topic)
    return listing if listing["topics"][0]["partitions"] else None


def test_all_topics_are_listed_as_text(bootstrap: str, make_topic: MakeTopic) -> None:
    topics = [make_topic(), make_topic()]
    listing = kcat(bootstrap, "-L").stdout.decode()
    assert all(f'topic "{topic}" with 1 partitions' in listing for topic in topics)
    assert "3 brokers:" in listing


@pytest.mark.parametrize("codec", CODECS)
def test_all_clients_read_what_it_writes(bootstrap: str, make_topic: MakeTopic, codec: str) -> None:
    topic = make_topic()
    kcat(bootstrap, "-P", "-t", topic, "-K:", "-z", codec, "-X", "enable.idempotence=true", stdin=LINES)
    for reader in CLIENTS:
        pairs = [(record.key, record.value) for record in contents(reader.read(bootstrap, topic, len(PAIRS)))]
        assert pairs == [(key.encode(), value.encode()) for key, value in PAIRS], reader.name


def test_it_compresses(bootstrap: str, make_topic: MakeTopic) -> None:
    """An old librdkafka does not compress if the broker does not offer Produce from version 0 on."""
    topic = make_topic()
    kcat(bootstrap, "-P", "-t", topic, "-z", "lz4", stdin=b"a" * 500_000)
    assert [record.value for record in contents(KafkaPython.read(bootstrap, topic, 1))] == [b"a" * 500_000]
    assert stored_bytes(bootstrap, topic) < 50_000


def test_it_sends_headers_nulls_and_whole_files(bootstrap: str, make_topic: MakeTopic, tmp_path: Path) -> None:
    topic = make_topic()
    (tmp_path / "whole").write_bytes(b"first line\nsecond line\n")
    kcat(bootstrap, "-P", "-t", topic, "-H", "a=1", "-H", "b=", "-H", "a=2", str(tmp_path / "whole"))
    kcat(bootstrap, "-P", "-t", topic, "-K:", "-Z", stdin=b"gone:\n")
    whole, tombstone = contents(Confluent.read(bootstrap, topic, 2))
    assert whole.value == b"first line\nsecond line\n"
    assert whole.headers == (("a", b"1"), ("b", b""), ("a", b"2"))
    assert (tombstone.key, tombstone.value) == (b"gone", None)


def test_it_prints_records_of_other_clients_as_json(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    headers = (("h", b"1"), ("none", None))
    Confluent.send(bootstrap, topic, [Record(b"text", b"key", headers, 1_234_567), Record(None, None, (), 1_234_568)])
    printed = kcat(bootstrap, "-C", "-t", topic, "-o", "beginning", "-e", "-J").stdout.splitlines()
    first, second = (json.loads(line) for line in printed)
    assert (first["topic"], first["partition"], first["offset"]) == (topic, 0, 0)
    assert (first["tstype"], first["ts"], first["key"], first["payload"]) == ("create", 1_234_567, "key", "text")
    assert first["headers"] == ["h", "1", "none", None]
    assert (second["key"], second["payload"], second["ts"]) == (None, None, 1_234_568)


def test_it_reads_from_offsets_and_timestamps_and_formats_records(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    Confluent.send(
        bootstrap, topic, [Record(b"v%d" % i, b"k%d" % i, (("n", b"%d" % i),), 1_000 + i) for i in range(10)]
    )

    def printed(*arguments: str) -> str:
        template = ("-f", "%o %k=%s %T %h;")
        return kcat(bootstrap, "-C", "-t", topic, "-p", "0", "-e", *arguments, *template).stdout.decode()

    assert printed("-o", "8") == "8 k8=v8 1008 n=8;9 k9=v9 1009 n=9;"
    assert printed("-o", "-1") == "9 k9=v9 1009 n=9;"
    assert printed("-o", "end") == ""
    assert printed("-o", "beginning", "-c", "1") == "0 k0=v0 1000 n=0;"
    assert printed("-o", "s@1003", "-o", "e@1005") == "3 k3=v3 1003 n=3;4 k4=v4 1004 n=4;"


def test_it_queries_offsets_by_timestamp(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    Confluent.send(bootstrap, topic, [Record(b"v", timestamp_ms=1_000 + 10 * i) for i in range(10)])

    def offset(timestamp_ms: int) -> str:
        return kcat(bootstrap, "-Q", "-t", f"{topic}:0:{timestamp_ms}").stdout.decode().strip()

    assert offset(1_035) == f"{topic} [0] offset 4"
    assert offset(5_000) == f"{topic} [0] offset -1"
    assert offset(-1) == f"{topic} [0] offset 10"
    assert offset(-2) == f"{topic} [0] offset 0"


def test_its_group_continues_from_the_committed_offsets(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(3)

    def read_group() -> list[bytes]:
        reset = ("-X", "auto.offset.reset=earliest")
        return sorted(kcat(bootstrap, "-G", topic, *reset, "-e", topic).stdout.splitlines())

    kcat(bootstrap, "-P", "-t", topic, stdin=b"a\nb\nc\nd\n")
    assert read_group() == [b"a", b"b", b"c", b"d"]
    kcat(bootstrap, "-P", "-t", topic, stdin=b"e\nf\n")
    assert read_group() == [b"e", b"f"]
    consumer = confluent_consumer(bootstrap, group_id=topic)
    committed = consumer.committed([TopicPartition(topic, index) for index in range(3)], 30)
    consumer.close()
    assert sum(max(partition.offset, 0) for partition in committed) == 6
