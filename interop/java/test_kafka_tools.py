"""Apache Kafka's tools for topics, settings, records and groups print on insync what they print on Kafka."""

from __future__ import annotations

import json
import re
from pathlib import Path

from insync.wire.compression import NAMES
from interop.java.kafka_tools import CLASSES, Tools, find_lines, property_options, run


def list_offsets(tools: Tools, topic: str, time: str = "latest") -> list[str]:
    """Lines of the form topic:partition:offset."""
    return tools("kafka-get-offsets", "--topic", topic, "--time", time).split()


# --- topics and configs ----------------------------------------------------------------------------------------------


def test_topics_are_created_listed_described_grown_and_deleted(tools: Tools) -> None:
    tools.create_topic("t", "--replica-assignment", "1:2:3,2:3:1", "--config", "min.insync.replicas=2")
    tools("kafka-topics", "--alter", "--topic", "t", "--partitions", "3")
    text = tools("kafka-topics", "--describe", "--topic", "t")
    assert re.search(r"Topic: t\tTopicId: \S{22}\tPartitionCount: 3\tReplicationFactor: 3\tConfigs: min.insync", text)
    assert tools.describe_replicas("t")[:2] == [("1", "1,2,3", "1,2,3"), ("2", "2,3,1", "2,3,1")]
    assert "t" in tools("kafka-topics", "--list").split()
    assert tools("kafka-topics", "--describe", "--under-replicated-partitions").strip() == ""
    assert "Topic 't' already exists" in tools.fail("kafka-topics", "--create", "--topic", "t")
    tools("kafka-topics", "--delete", "--topic", "t")
    assert "does not exist" in tools.fail("kafka-topics", "--describe", "--topic", "t")


def test_settings_of_a_topic_are_set_described_and_removed(tools: Tools) -> None:
    tools.create_topic("set", "--partitions", "1")
    entity = ("--entity-type", "topics", "--entity-name", "set")
    settings = "retention.ms=60000,cleanup.policy=[compact,delete]"
    output = tools("kafka-configs", "--alter", *entity, "--add-config", settings)
    assert "Completed updating config for topic set." in output
    described = tools("kafka-configs", "--describe", *entity)
    assert "retention.ms=60000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=60000" in described
    assert "cleanup.policy=compact,delete sensitive=false" in described
    tools("kafka-configs", "--alter", *entity, "--delete-config", "retention.ms,cleanup.policy")
    described = tools("kafka-configs", "--describe", *entity, "--all")
    assert "retention.ms=604800000 sensitive=false synonyms={}" in described
    default = "{DEFAULT_CONFIG:log.segment.bytes=1073741824}"
    assert f"segment.bytes=1073741824 sensitive=false synonyms={default}" in described
    output = tools.fail("kafka-configs", "--alter", *entity, "--add-config", "nope=1")
    assert "Unknown topic config name: nope" in output


def test_settings_of_brokers_are_set_described_and_removed(tools: Tools) -> None:
    broker = ("--entity-type", "brokers", "--entity-name", "1")
    tools("kafka-configs", "--alter", *broker, "--add-config", "leader.replication.throttled.rate=1000000")
    described = tools("kafka-configs", "--describe", *broker)
    assert "leader.replication.throttled.rate=1000000 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:" in described
    tools("kafka-configs", "--alter", *broker, "--delete-config", "leader.replication.throttled.rate")
    default = ("--entity-type", "brokers", "--entity-default")
    tools("kafka-configs", "--alter", *default, "--add-config", "log.segment.bytes=123456789")
    assert "log.segment.bytes=123456789" in tools("kafka-configs", "--describe", *default)
    tools("kafka-configs", "--alter", *default, "--delete-config", "log.segment.bytes")
    assert "log.segment.bytes" not in tools("kafka-configs", "--describe", *default)


# --- records ---------------------------------------------------------------------------------------------------------


def test_the_console_consumer_reads_what_the_console_producer_wrote_in_every_codec(tools: Tools) -> None:
    tools.create_topic("console", "--partitions", "1", "--replication-factor", "3")
    parse = property_options("parse.key=true", "key.separator=:", "parse.headers=true", "headers.delimiter=|")
    for codec in NAMES:
        tools.produce_lines("console", f"h:1|k:{codec}\n", "--compression-codec", codec, *parse)
    printed = property_options("print.key=true", "print.headers=true", "print.offset=true", "print.partition=true")
    lines = tools.consume("console", len(NAMES), *printed)
    assert lines == [f"Partition:0\tOffset:{offset}\th:1\tk\t{codec}" for offset, codec in enumerate(NAMES)]


def test_records_are_counted_and_deleted(tools: Tools, tmp_path: Path) -> None:
    tools.create_topic("counted", "--partitions", "1", "--replication-factor", "3")
    tools.produce_lines("counted", "a\nb\nc\nd\n")
    assert (list_offsets(tools, "counted"), list_offsets(tools, "counted", "earliest")) == (
        ["counted:0:4"],
        ["counted:0:0"],
    )
    assert list_offsets(tools, "counted", "max-timestamp")[0].startswith("counted:0:")
    assert list_offsets(tools, "counted", "1") == ["counted:0:0"]
    plan = {"version": 1, "partitions": [{"topic": "counted", "partition": 0, "offset": 3}]}
    (tmp_path / "delete.json").write_text(json.dumps(plan))
    output = tools("kafka-delete-records", "--offset-json-file", str(tmp_path / "delete.json"))
    assert "partition: counted-0\tlow_watermark: 3" in output
    assert list_offsets(tools, "counted", "earliest") == ["counted:0:3"]
    assert tools.consume("counted", 1) == ["d"]


def test_performance_tools_count_every_record(tools: Tools) -> None:
    tools.create_topic("perf", "--partitions", "3", "--replication-factor", "3")
    report = tools.produce_many("perf", 5_000, 100)
    assert find_lines(r"5000 records sent, .* 99.9th.$", report)
    assert sum(int(line.rpartition(":")[2]) for line in list_offsets(tools, "perf")) == 5_000
    report = tools("kafka-consumer-perf-test", "--topic", "perf", "--messages", "5000", "--timeout", "60000")
    assert report.splitlines()[1].split(", ")[4] == "5000"
    address = tools.bootstrap.split(",")[0]
    assert "Avg latency" in run(CLASSES["kafka-e2e-latency"], address, "perf", "20", "all", "100").stdout


def test_the_verifiable_consumer_reads_what_the_verifiable_producer_sent(tools: Tools) -> None:
    tools.create_topic("verified", "--partitions", "2", "--replication-factor", "3")
    sent = tools("kafka-verifiable-producer", "--topic", "verified", "--max-messages", "50", "--acks", "-1")
    assert '"sent":50,"acked":50' in sent.splitlines()[-1]
    options = ("--max-messages", "50", "--reset-policy", "earliest")
    printed = tools("kafka-verifiable-consumer", "--topic", "verified", "--group-id", "verified", *options)
    events = [json.loads(line) for line in printed.splitlines()]
    assert sum(event["count"] for event in events if event["name"] == "records_consumed") == 50
    commits = [event["success"] for event in events if event["name"] == "offsets_committed"]
    assert set(commits) == {True}


# --- groups ----------------------------------------------------------------------------------------------------------


def test_groups_are_listed_described_reset_and_deleted(tools: Tools) -> None:
    tools.create_topic("grouped", "--partitions", "2", "--replication-factor", "3")
    lines = "".join(f"{n}:v\n" for n in range(8))
    tools.produce_lines("grouped", lines, *property_options("parse.key=true", "key.separator=:"))
    group = ("--group", "readers")
    assert len(tools.consume("grouped", 8, *group)) == 8
    assert find_lines("readers +Empty", tools("kafka-consumer-groups", "--list", "--state"))
    assert find_lines("readers +Classic +consumer", tools("kafka-groups", "--list"))
    rows = find_lines(r"readers +grouped +(\d) +(\d) +\d +(\d)", tools("kafka-consumer-groups", "--describe", *group))
    assert [(partition, lag) for partition, _, lag in sorted(rows)] == [("0", "0"), ("1", "0")]
    assert sum(int(committed) for _, committed, _ in rows) == 8
    state = tools("kafka-consumer-groups", "--describe", *group, "--state")
    assert find_lines(r"readers +\S+ +\(\d\) +- +Empty +0", state)
    to_start = ("--topic", "grouped", "--to-earliest", "--execute")
    reset = tools("kafka-consumer-groups", "--reset-offsets", *group, *to_start)
    assert find_lines(r"readers +grouped +\d +(\d)", reset) == ["0", "0"]
    assert len(tools.consume("grouped", 8, *group)) == 8
    output = tools("kafka-consumer-groups", "--delete-offsets", *group, "--topic", "grouped")
    assert output.count("Successful") == 2
    assert "was successful" in tools("kafka-consumer-groups", "--delete", *group)
    assert "readers" not in tools("kafka-consumer-groups", "--list")


def test_the_offsets_of_a_streams_application_are_reset(tools: Tools) -> None:
    tools.create_topic("input", "--partitions", "1", "--replication-factor", "3")
    output = tools("kafka-streams-application-reset", "--application-id", "app", "--input-topics", "input")
    assert "Topic: input Partition: 0 Offset: 0" in output
