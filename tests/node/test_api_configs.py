"""DescribeConfigs and AlterConfigs: the source of a value, its synonyms, and changes."""

from __future__ import annotations

from typing import Any

import pytest

from insync import findings
from insync.node import config as node_config
from insync.wire.errors import ErrorCode
from insync.wire.messages import alter_configs, describe_configs, incremental_alter_configs
from tests.node.node_harness import Net, config, config_request, describe_configs_of, three_brokers

TOPIC, BROKER = 2, 4
APPEND, SUBTRACT = 2, 3


def describe_one(net: Net, kind: int, name: str, key: str) -> tuple[str | None, int, list[tuple[str, str, int]]]:
    (line,) = describe_configs_of(net, kind, name, key).configs
    return line.value, line.config_source, [(s.name, s.value, s.source) for s in line.synonyms]


def alter(net: Net, kind: int, name: str, key: str, value: str | None, operation: int = 0) -> Any:
    change = incremental_alter_configs.AlterableConfig(name=key, config_operation=operation, value=value)
    resource = incremental_alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=(change,))
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    return net.answered(1, request).responses[0]


def set_cluster_default(net: Net, key: str, value: str) -> None:
    assert alter(net, BROKER, "", key, value).error_code is ErrorCode.none


def replace(net: Net, topic: str, validate_only: bool = False, **values: str | None) -> Any:
    changes = tuple(alter_configs.AlterableConfig(name=k.replace("_", "."), value=v) for k, v in values.items())
    resource = alter_configs.AlterConfigsResource(resource_type=TOPIC, resource_name=topic, configs=changes)
    request = alter_configs.AlterConfigsRequest(resources=(resource,), validate_only=validate_only)
    return net.answered(1, request).responses[0]


def test_the_nearest_value_is_in_force_and_all_others_are_synonyms() -> None:
    net = Net(config(1, topic_defaults={"log.retention.ms": "3"})).up()
    net.create("t")
    assert describe_one(net, TOPIC, "t", "retention.ms") == ("3", 4, [("log.retention.ms", "3", 4)])
    set_cluster_default(net, "log.retention.ms", "2")
    assert describe_one(net, TOPIC, "t", "retention.ms")[:2] == ("2", 3)
    net.answered(1, config_request("t", "retention.ms", "1"))
    value, source, synonyms = describe_one(net, TOPIC, "t", "retention.ms")
    assert (value, source) == ("1", 1)
    assert synonyms == [("retention.ms", "1", 1), ("log.retention.ms", "2", 3), ("log.retention.ms", "3", 4)]
    assert describe_one(net, TOPIC, "t", "segment.bytes") == ("1073741824", 5, [("log.segment.bytes", "1073741824", 5)])


def test_a_config_without_a_broker_default_of_its_own_has_no_synonym() -> None:
    """As in Kafka, where log.retention.ms is null and log.retention.hours has the default."""
    net = Net().up()
    net.create("t")
    assert describe_one(net, TOPIC, "t", "retention.ms") == ("604800000", 5, [])
    assert describe_one(net, BROKER, "1", "log.retention.ms") == (None, 5, [])


def test_every_topic_config_is_described_with_its_type() -> None:
    net = Net().up()
    net.create("t")
    types = {line.name: line.config_type for line in describe_configs_of(net, TOPIC, "t").configs}
    assert types["preallocate"] == 1
    assert types["compression.type"] == 2
    assert types["min.insync.replicas"] == 3
    assert types["retention.ms"] == 5
    assert types["min.cleanable.dirty.ratio"] == 6
    assert types["cleanup.policy"] == 7
    assert list(types) == sorted(types)


def test_a_broker_describes_itself_and_the_cluster_but_no_other_broker() -> None:
    net = three_brokers().up()
    names = {line.name: line for line in describe_configs_of(net, BROKER, "1").configs}
    assert names["node.id"].value == "1"
    assert names["node.id"].read_only
    assert names["log.segment.bytes"].value == "1073741824"
    assert names["node.id"].config_type == 3
    assert describe_configs_of(net, BROKER, "2").error_code is ErrorCode.invalid_request
    assert describe_configs_of(net, BROKER, "").configs == ()
    set_cluster_default(net, "log.retention.ms", "2")
    assert [(line.name, line.value, line.config_source) for line in describe_configs_of(net, BROKER, "").configs] == [
        ("log.retention.ms", "2", 3)
    ]


def test_unknown_topics_and_resources_are_refused() -> None:
    net = Net().up()
    assert describe_configs_of(net, TOPIC, "absent").error_code is ErrorCode.unknown_topic_or_partition
    assert describe_configs_of(net, 8, "1").error_code is ErrorCode.invalid_request


def test_replacing_configs_resets_those_that_are_not_named() -> None:
    """E8: in one batch with what follows from it."""
    net = Net().up()
    net.create("t", retention_ms="1", segment_bytes="1000")
    assert replace(net, "t", retention_ms="7", flush_messages="1").error_code is ErrorCode.none
    assert net.nodes[1].image.configs[TOPIC, "t"] == {"retention.ms": "7", "flush.messages": "1"}
    assert replace(net, "t").error_code is ErrorCode.none
    assert (TOPIC, "t") not in net.nodes[1].image.configs


def test_a_bad_value_replaces_nothing_and_neither_does_a_trial() -> None:
    net = Net().up()
    net.create("t", retention_ms="1")
    assert replace(net, "t", retention_ms="x").error_code is ErrorCode.invalid_config
    assert replace(net, "t", segment_ms=None).error_code is ErrorCode.invalid_request
    assert replace(net, "t", no_such_thing="1").error_code is ErrorCode.invalid_config
    assert replace(net, "t", validate_only=True, segment_ms="9").error_code is ErrorCode.none
    assert net.nodes[1].image.configs[TOPIC, "t"] == {"retention.ms": "1"}


def test_a_broker_forwards_the_replacement_to_the_controller() -> None:
    net = three_brokers().up()
    net.create("t", (2,))
    change = alter_configs.AlterableConfig(name="retention.ms", value="5")
    resource = alter_configs.AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=(change,))
    request = alter_configs.AlterConfigsRequest(resources=(resource,), validate_only=False)
    token = net.ask(3, request)
    net.advance(1_000)
    assert net.answers[token].responses[0].error_code is ErrorCode.none
    assert net.nodes[3].image.configs[TOPIC, "t"] == {"retention.ms": "5"}


def test_a_brokers_own_default_holds_for_its_replicas() -> None:
    """Under the topic's own value, and above the cluster's."""
    net = three_brokers().up()
    net.create("t", (1, 2))
    set_cluster_default(net, "log.retention.ms", "2")
    assert alter(net, BROKER, "1", "log.retention.ms", "7").error_code is ErrorCode.none
    net.advance(2_000)
    settings = [net.log("t", node).config.retention_ms for node in (1, 2)]
    assert settings == [7, 2]
    assert describe_one(net, TOPIC, "t", "retention.ms")[2][:2] == [
        ("log.retention.ms", "7", 2),
        ("log.retention.ms", "2", 3),
    ]
    assert alter(net, TOPIC, "t", "retention.ms", "9").error_code is ErrorCode.none
    net.advance(2_000)
    assert net.log("t").config.retention_ms == 9


def test_settings_of_the_controller_cannot_be_set_for_one_broker() -> None:
    """E8."""
    net = three_brokers().up()
    for key in ("min.insync.replicas", "unclean.leader.election.enable", "unclean.recovery.strategy"):
        refused = alter(net, BROKER, "1", key, "1")
        assert refused.error_code is ErrorCode.invalid_config
        assert key in refused.error_message


def test_how_long_producers_are_remembered_can_be_set_while_a_broker_runs() -> None:
    """P4."""
    net = Net().up()
    net.create("t")
    log = net.log("t")
    assert log.config.producer_id_expiration_ms == 86_400_000
    set_cluster_default(net, "producer.id.expiration.ms", "5000")
    net.advance(1_000)
    assert log.config.producer_id_expiration_ms == 5_000


def test_lists_can_be_added_to_and_taken_from() -> None:
    net = Net().up()
    net.create("t")

    def policy() -> str | None:
        return describe_one(net, TOPIC, "t", "cleanup.policy")[0]

    assert alter(net, TOPIC, "t", "cleanup.policy", "compact", APPEND).error_code is ErrorCode.none
    assert policy() == "delete,compact", "a list that is not set begins with its default"
    assert alter(net, TOPIC, "t", "cleanup.policy", "compact", APPEND).error_code is ErrorCode.none
    assert policy() == "delete,compact"
    assert alter(net, TOPIC, "t", "cleanup.policy", "delete", SUBTRACT).error_code is ErrorCode.none
    assert policy() == "compact"
    for operation, verb in ((APPEND, "APPEND to"), (SUBTRACT, "SUBTRACT from")):
        refused = alter(net, TOPIC, "t", "retention.ms", "1", operation)
        assert refused.error_code is ErrorCode.invalid_config
        assert refused.error_message == f"Can't {verb} key retention.ms because its type is not LIST."


def test_a_refused_value_names_the_key_and_what_it_must_be() -> None:
    net = Net().up()
    net.create("t")
    refused = alter(net, TOPIC, "t", "message.timestamp.type", "Yesterday")
    assert refused.error_code is ErrorCode.invalid_config
    for word in ("message.timestamp.type", "CreateTime", "LogAppendTime"):
        assert word in refused.error_message
    unknown = alter(net, TOPIC, "t", "no.such.key", "1")
    assert (unknown.error_code, "no.such.key" in unknown.error_message) == (ErrorCode.invalid_config, True)


def test_configs_come_with_their_documentation_if_it_is_asked_for() -> None:
    net = Net().up()
    net.create("t")
    for kind, name in ((TOPIC, "t"), (BROKER, "1")):
        lines = [line for line in describe_configs_of(net, kind, name).configs if not line.read_only]
        assert all(line.documentation for line in lines)
    resource = describe_configs.DescribeConfigsResource(resource_type=TOPIC, resource_name="t", configuration_keys=None)
    (result,) = net.answered(1, describe_configs.DescribeConfigsRequest(resources=(resource,))).results
    assert all(line.documentation is None and line.synonyms == () for line in result.configs)


def test_the_cleanup_policy_may_be_emptied() -> None:
    """KIP-1161: neither delete nor compact, so records stay until DeleteRecords."""
    net = Net().up()
    net.create("t")
    assert alter(net, TOPIC, "t", "cleanup.policy", "delete", SUBTRACT).error_code is ErrorCode.none
    assert describe_one(net, TOPIC, "t", "cleanup.policy")[:2] == ("", 1)
    kept = net.log("t").config
    assert (kept.deletes, kept.compacts) == (False, False)
    assert alter(net, TOPIC, "t", "cleanup.policy", "").error_code is ErrorCode.none


def test_brokers_take_dynamic_configs_of_kafka_without_a_meaning_here() -> None:
    net = Net().up()
    assert alter(net, BROKER, "", "num.io.threads", "4").error_code is ErrorCode.none
    assert alter(net, BROKER, "1", "num.io.threads", "6").error_code is ErrorCode.none
    assert describe_one(net, BROKER, "1", "num.io.threads")[:2] == ("6", 2)
    assert [source for *_, source in describe_one(net, BROKER, "1", "num.io.threads")[2]] == [2, 3]
    assert alter(net, BROKER, "", "num.io.threads", "many").error_code is ErrorCode.invalid_request
    assert alter(net, BROKER, "1", "num.io.threads", "", 1).error_code is ErrorCode.none
    assert describe_one(net, BROKER, "1", "num.io.threads")[:2] == ("4", 3)


def test_brokers_keep_unknown_configs_and_hide_their_values() -> None:
    """As Kafka: they may belong to a plugin, and may be secrets."""
    net = Net().up()
    assert alter(net, BROKER, "1", "plugin.key", "secret").error_code is ErrorCode.none
    (line,) = describe_configs_of(net, BROKER, "1", "plugin.key").configs
    assert (line.value, line.is_sensitive, line.config_type) == (None, True, 0)
    assert [synonym.value for synonym in line.synonyms] == [None]


@pytest.mark.parametrize(
    ("kind", "name", "key", "value", "operation", "error"),
    [
        (BROKER, "1", "broker.session.timeout.ms", "5", 0, ErrorCode.invalid_request),
        (BROKER, "1", "listener.name.external.ssl.keystore.location", "/k", 0, ErrorCode.invalid_request),
        (BROKER, "1", "log.retention.ms", "x", 0, ErrorCode.invalid_request),
        (TOPIC, "t", "retention.ms", None, 0, ErrorCode.invalid_request),
        (TOPIC, "t", "retention.ms", "5", APPEND, ErrorCode.invalid_config),
        (TOPIC, "t", "no.such.key", "5", 0, ErrorCode.invalid_config),
        (TOPIC, "t", "no.such.key", None, 1, ErrorCode.none),
        (TOPIC, "", "retention.ms", "5", 0, ErrorCode.invalid_request),
        (TOPIC, "not a name", "retention.ms", "5", 0, ErrorCode.invalid_topic_exception),
    ],
)
def test_bad_changes_get_kafkas_errors(
    kind: int, name: str, key: str, value: str | None, operation: int, error: ErrorCode
) -> None:
    net = Net().up()
    net.create("t")
    assert alter(net, kind, name, key, value, operation).error_code is error


def test_a_broker_returns_the_findings_of_a_controller() -> None:
    """Q8: a client may not reach a controller that is no broker. If it does not answer, the client gets an error."""
    broker = config(1, voters=(9,), roles=(node_config.BROKER,))
    net = Net(broker, config(9, voters=(9,), roles=(node_config.CONTROLLER,))).up()
    net.nodes[9].findings.report("metadata_damaged", "__cluster_metadata", "for the test")
    resource = describe_configs.DescribeConfigsResource(
        resource_type=4, resource_name="9", configuration_keys=(findings.CONFIG_KEY,)
    )
    request = describe_configs.DescribeConfigsRequest(resources=(resource,))
    (result,) = net.answered(1, request).results
    assert result.error_code is ErrorCode.none
    assert [finding.kind for finding in findings.decode(result.configs[0].value or "")] == ["metadata_damaged"]
    net.crash(9)
    token = net.ask(1, request)
    net.advance(5_000)
    (result,) = net.answers[token].results
    assert result.error_code is ErrorCode.request_timed_out
    assert result.error_message == "Controller 9 does not answer."


def test_secrets_are_listed_without_their_value() -> None:
    secret = node_config.StaticConfig(name="ssl.key.password", kind=node_config.PASSWORD, value=None, default=None)
    net = Net(config(1, static_configs=(secret,))).up()
    (line,) = describe_configs_of(net, BROKER, "1", "ssl.key.password").configs
    assert (line.is_sensitive, line.value, line.config_type) == (True, None, node_config.PASSWORD)
    assert [(synonym.value, synonym.source) for synonym in line.synonyms] == [(None, 4)]
