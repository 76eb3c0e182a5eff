"""Apache Kafka's tools for topics, configs, records and groups: on insync they print what they print on Kafka."""

from __future__ import annotations

import json
import re
from pathlib import Path

from insync.wire.compression import NAMES
from interop.java.kafka_tools import CLASSES, Tools, lines_of, properties, run


def offsets(tools: Tools, topic: str, when: str = "latest") -> list[str]:
    return tools("kafka-get-offsets", "--topic", topic, "--time", when).split()


# --- topics and configs ----------------------------------------------------------------------------------------------


def test_topics_are_created_listed_described_grown_and_deleted(tools: Tools) -> None:
    tools.create("t", "--replica-assignment", "1:2:3,2:3:1", "--config", "min.insync.replicas=2")
    tools("kafka-topics", "--alter", "--topic", "t", "--partitions", "3")
    text = tools("kafka-topics", "--describe", "--topic", "t")
    assert re.search(r"Topic: t\tTopicId: \S{22}\tPartitionCount: 3\tReplicationFactor: 3\tConfigs: min.insync", text)
    assert tools.replicas("t")[:2] == [("1", "1,2,3", "1,2,3"), ("2", "2,3,1", "2,3,1")]
    assert "t" in tools("kafka-topics", "--list").split()
    assert tools("kafka-topics", "--describe", "--under-replicated-partitions").strip() == ""
    assert "Topic 't' already exists" in tools.refused("kafka-topics", "--create", "--topic", "t")
    tools("kafka-topics", "--delete", "--topic", "t")
    assert "does not exist" in tools.refused("kafka-topics", "--describe", "--topic", "t")


def test_a_topics_configs_are_set_shown_and_taken_back(tools: Tools) -> None:
    tools.create("set", "--partitions", "1")
    entity = ("--entity-type", "topics", "--entity-name", "set")
    wanted = "retention.ms=60000,cleanup.policy=[compact,delete]"
    said = tools("kafka-configs", "--alter", *entity, "--add-config", wanted)
    assert "Completed updating config for topic set." in said
    shown = tools("kafka-configs", "--describe", *entity)
    assert "retention.ms=60000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=60000" in shown
    assert "cleanup.policy=compact,delete sensitive=false" in shown
    tools("kafka-configs", "--alter", *entity, "--delete-config", "retention.ms,cleanup.policy")
    everything = tools("kafka-configs", "--describe", *entity, "--all")
    assert "retention.ms=604800000 sensitive=false synonyms={}" in everything
    default = "{DEFAULT_CONFIG:log.segment.bytes=1073741824}"
    assert f"segment.bytes=1073741824 sensitive=false synonyms={default}" in everything
    refused = tools.refused("kafka-configs", "--alter", *entity, "--add-config", "nope=1")
    assert "Unknown topic config name: nope" in refused


def test_a_brokers_configs_are_set_shown_and_taken_back(tools: Tools) -> None:
    one = ("--entity-type", "brokers", "--entity-name", "1")
    tools("kafka-configs", "--alter", *one, "--add-config", "leader.replication.throttled.rate=1000000")
    shown = tools("kafka-configs", "--describe", *one)
    assert "leader.replication.throttled.rate=1000000 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:" in shown
    tools("kafka-configs", "--alter", *one, "--delete-config", "leader.replication.throttled.rate")
    default = ("--entity-type", "brokers", "--entity-default")
    tools("kafka-configs", "--alter", *default, "--add-config", "log.segment.bytes=123456789")
    assert "log.segment.bytes=123456789" in tools("kafka-configs", "--describe", *default)
    tools("kafka-configs", "--alter", *default, "--delete-config", "log.segment.bytes")


# --- records ---------------------------------------------------------------------------------------------------------


def test_the_console_consumer_reads_what_the_console_producer_wrote_in_every_codec(tools: Tools) -> None:
    tools.create("console", "--partitions", "1", "--replication-factor", "3")
    parse = properties("parse.key=true", "key.separator=:", "parse.headers=true", "headers.delimiter=|")
    for codec in NAMES:
        tools.write("console", f"h:1|k:{codec}\n", "--compression-codec", codec, *parse)
    shown = properties("print.key=true", "print.headers=true", "print.offset=true", "print.partition=true")
    lines = tools.read("console", len(NAMES), *shown)
    assert lines == [f"Partition:0\tOffset:{place}\th:1\tk\t{codec}" for place, codec in enumerate(NAMES)]


def test_records_are_counted_and_deleted(tools: Tools, tmp_path: Path) -> None:
    tools.create("counted", "--partitions", "1", "--replication-factor", "3")
    tools.write("counted", "a\nb\nc\nd\n")
    assert (offsets(tools, "counted"), offsets(tools, "counted", "earliest")) == (["counted:0:4"], ["counted:0:0"])
    assert offsets(tools, "counted", "max-timestamp")[0].startswith("counted:0:")
    assert offsets(tools, "counted", "1") == ["counted:0:0"]
    plan = {"version": 1, "partitions": [{"topic": "counted", "partition": 0, "offset": 3}]}
    (tmp_path / "delete.json").write_text(json.dumps(plan))
    said = tools("kafka-delete-records", "--offset-json-file", str(tmp_path / "delete.json"))
    assert "partition: counted-0\tlow_watermark: 3" in said
    assert offsets(tools, "counted", "earliest") == ["counted:0:3"]
    assert tools.read("counted", 1) == ["d"]


def test_performance_tools_run(tools: Tools) -> None:
    tools.create("perf", "--partitions", "3", "--replication-factor", "3")
    said = tools.write_many("perf", 5_000, 100)
    assert lines_of(r"5000 records sent, .* 99.9th.$", said)
    assert sum(int(line.rpartition(":")[2]) for line in offsets(tools, "perf")) == 5_000
    said = tools("kafka-consumer-perf-test", "--topic", "perf", "--messages", "5000", "--timeout", "60000")
    assert said.splitlines()[1].split(", ")[4] == "5000"
    address = tools.bootstrap.split(",")[0]
    assert "Avg latency" in run(CLASSES["kafka-e2e-latency"], address, "perf", "20", "all", "100").out


def test_verifiable_clients_agree(tools: Tools) -> None:
    tools.create("verified", "--partitions", "2", "--replication-factor", "3")
    sent = tools("kafka-verifiable-producer", "--topic", "verified", "--max-messages", "50", "--acks", "-1")
    assert '"sent":50,"acked":50' in sent.splitlines()[-1]
    options = ("--max-messages", "50", "--reset-policy", "earliest")
    seen = tools("kafka-verifiable-consumer", "--topic", "verified", "--group-id", "verified", *options)
    events = [json.loads(line) for line in seen.splitlines()]
    assert sum(each["count"] for each in events if each["name"] == "records_consumed") == 50
    assert all(each["success"] for each in events if each["name"] == "offsets_committed")


# --- groups ----------------------------------------------------------------------------------------------------------


def test_groups_are_listed_described_moved_and_deleted(tools: Tools) -> None:
    tools.create("grouped", "--partitions", "2", "--replication-factor", "3")
    keyed = "".join(f"{n}:v\n" for n in range(8))
    tools.write("grouped", keyed, *properties("parse.key=true", "key.separator=:"))
    group = ("--group", "readers")
    assert len(tools.read("grouped", 8, *group)) == 8
    assert lines_of("readers +Empty", tools("kafka-consumer-groups", "--list", "--state"))
    assert lines_of("readers +Classic +consumer", tools("kafka-groups", "--list"))
    rows = lines_of(r"readers +grouped +(\d) +(\d) +\d +(\d)", tools("kafka-consumer-groups", "--describe", *group))
    assert [(partition, lag) for partition, _, lag in sorted(rows)] == [("0", "0"), ("1", "0")]
    assert sum(int(committed) for _, committed, _ in rows) == 8
    state = tools("kafka-consumer-groups", "--describe", *group, "--state")
    assert lines_of(r"readers +\S+ +\(\d\) +- +Empty +0", state)
    to_start = ("--topic", "grouped", "--to-earliest", "--execute")
    moved = tools("kafka-consumer-groups", "--reset-offsets", *group, *to_start)
    assert lines_of(r"readers +grouped +\d +(\d)", moved) == ["0", "0"]
    assert len(tools.read("grouped", 8, *group)) == 8
    gone = tools("kafka-consumer-groups", "--delete-offsets", *group, "--topic", "grouped")
    assert gone.count("Successful") == 2
    assert "was successful" in tools("kafka-consumer-groups", "--delete", *group)
    assert "readers" not in tools("kafka-consumer-groups", "--list")


def test_an_application_is_reset(tools: Tools) -> None:
    tools.create("input", "--partitions", "1", "--replication-factor", "3")
    said = tools("kafka-streams-application-reset", "--application-id", "app", "--input-topics", "input")
    assert "Topic: input Partition: 0 Offset: 0" in said
