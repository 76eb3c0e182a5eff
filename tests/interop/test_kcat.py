"""kcat as people use it in a shell. Debian's is built on librdkafka 2.0, so it is the old client among these."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from tests.interop.interop_clients import (
    CLIENTS,
    CODECS,
    Confluent,
    KafkaPython,
    MakeTopic,
    Rec,
    confluent_consumer,
    contents,
    kcat,
    kcat_json,
    stored_bytes,
)
from tests.interop.interop_members import eventually

TEXT = [(f"key{i}", f"value {i}") for i in range(20)]
LINES = "".join(f"{key}:{value}\n" for key, value in TEXT).encode()


def test_it_lists_brokers_topics_and_replicas(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(3)
    seen = eventually(lambda: _listed(bootstrap, topic), "the topic is known everywhere")
    assert sorted(broker["id"] for broker in seen["brokers"]) == [1, 2, 3]
    assert {broker["name"] for broker in seen["brokers"]} >= set(bootstrap.split(","))
    (described,) = seen["topics"]
    assert described["topic"] == topic
    assert [each["partition"] for each in described["partitions"]] == [0, 1, 2]
    for each in described["partitions"]:
        assert sorted(replica["id"] for replica in each["replicas"]) == [1, 2, 3]
        assert sorted(replica["id"] for replica in each["isrs"]) == [1, 2, 3]
        assert each["leader"] == each["replicas"][0]["id"]


def _listed(bootstrap: str, topic: str) -> object:
    found = kcat_json(bootstrap, "-L", "-t", topic)
    return found if found["topics"][0]["partitions"] else None


def test_all_topics_are_listed_as_text(bootstrap: str, make_topic: MakeTopic) -> None:
    topics = [make_topic(), make_topic()]
    told = kcat(bootstrap, "-L").stdout.decode()
    assert all(f'topic "{topic}" with 1 partitions' in told for topic in topics)
    assert "3 brokers:" in told


@pytest.mark.parametrize("codec", CODECS)
def test_what_it_writes_all_clients_read(bootstrap: str, make_topic: MakeTopic, codec: str) -> None:
    topic = make_topic()
    kcat(bootstrap, "-P", "-t", topic, "-K:", "-z", codec, "-X", "enable.idempotence=true", given=LINES)
    for reader in CLIENTS:
        found = [(each.key, each.value) for each in contents(reader.read(bootstrap, topic, len(TEXT)))]
        assert found == [(key.encode(), value.encode()) for key, value in TEXT], reader.name


def test_it_does_compress(bootstrap: str, make_topic: MakeTopic) -> None:
    """An old librdkafka leaves compression out where Produce is not offered from version 0 on."""
    topic = make_topic()
    kcat(bootstrap, "-P", "-t", topic, "-z", "lz4", given=b"a" * 500_000)
    assert [each.value for each in contents(KafkaPython.read(bootstrap, topic, 1))] == [b"a" * 500_000]
    assert stored_bytes(bootstrap, topic) < 50_000


def test_headers_nulls_and_files(bootstrap: str, make_topic: MakeTopic, tmp_path: Path) -> None:
    topic = make_topic()
    (tmp_path / "whole").write_bytes(b"first line\nsecond line\n")
    kcat(bootstrap, "-P", "-t", topic, "-H", "a=1", "-H", "b=", "-H", "a=2", str(tmp_path / "whole"))
    kcat(bootstrap, "-P", "-t", topic, "-K:", "-Z", given=b"gone:\n")
    whole, tombstone = contents(Confluent.read(bootstrap, topic, 2))
    assert whole.value == b"first line\nsecond line\n"
    assert whole.headers == (("a", b"1"), ("b", b""), ("a", b"2"))
    assert (tombstone.key, tombstone.value) == (b"gone", None)


def test_json_of_what_others_wrote(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    headers = (("h", b"1"), ("none", None))
    Confluent.send(bootstrap, topic, [Rec(b"text", b"key", headers, 1_234_567), Rec(None, None, (), 1_234_568)])
    printed = kcat(bootstrap, "-C", "-t", topic, "-o", "beginning", "-e", "-J").stdout.splitlines()
    first, second = (json.loads(line) for line in printed)
    assert (first["topic"], first["partition"], first["offset"]) == (topic, 0, 0)
    assert (first["tstype"], first["ts"], first["key"], first["payload"]) == ("create", 1_234_567, "key", "text")
    assert first["headers"] == ["h", "1", "none", None]
    assert (second["key"], second["payload"], second["ts"]) == (None, None, 1_234_568)


def test_formats_and_offsets(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    Confluent.send(bootstrap, topic, [Rec(b"v%d" % i, b"k%d" % i, (("n", b"%d" % i),), 1_000 + i) for i in range(10)])

    def printed(*arguments: str) -> str:
        shape = ("-f", "%o %k=%s %T %h;")
        return kcat(bootstrap, "-C", "-t", topic, "-p", "0", "-e", *arguments, *shape).stdout.decode()

    assert printed("-o", "8") == "8 k8=v8 1008 n=8;9 k9=v9 1009 n=9;"
    assert printed("-o", "-1") == "9 k9=v9 1009 n=9;"
    assert printed("-o", "end") == ""
    assert printed("-o", "beginning", "-c", "1") == "0 k0=v0 1000 n=0;"
    assert printed("-o", "s@1003", "-o", "e@1005") == "3 k3=v3 1003 n=3;4 k4=v4 1004 n=4;"


def test_offsets_by_time(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    Confluent.send(bootstrap, topic, [Rec(b"v", at=1_000 + 10 * i) for i in range(10)])

    def offset(at: int) -> str:
        return kcat(bootstrap, "-Q", "-t", f"{topic}:0:{at}").stdout.decode().strip()

    assert offset(1_035) == f"{topic} [0] offset 4"
    assert offset(5_000) == f"{topic} [0] offset -1"
    assert offset(-1) == f"{topic} [0] offset 10"
    assert offset(-2) == f"{topic} [0] offset 0"


def test_its_group_goes_on_where_it_stopped(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(3)

    def read_group() -> list[bytes]:
        reset = ("-X", "auto.offset.reset=earliest")
        return sorted(kcat(bootstrap, "-G", topic, *reset, "-e", topic).stdout.splitlines())

    kcat(bootstrap, "-P", "-t", topic, given=b"a\nb\nc\nd\n")
    assert read_group() == [b"a", b"b", b"c", b"d"]
    kcat(bootstrap, "-P", "-t", topic, given=b"e\nf\n")
    assert read_group() == [b"e", b"f"]
    consumer = confluent_consumer(bootstrap, group_id=topic)
    committed = consumer.committed([TopicPartition(topic, index) for index in range(3)], 30)
    consumer.close()
    assert sum(max(each.offset, 0) for each in committed) == 6
