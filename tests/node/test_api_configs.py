"""DescribeConfigs and AlterConfigs: where a value comes from, and replacing all of them."""

from __future__ import annotations

from typing import Any

from node_harness import Net, config, config_request, three_brokers

from insync.wire.errors import ErrorCode
from insync.wire.messages import alter_configs, describe_configs, incremental_alter_configs

TOPIC, BROKER = 2, 4


def ask(net: Net, kind: int, name: str, *keys: str, node_id: int = 1) -> Any:
    resource = describe_configs.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys or None
    )
    request = describe_configs.DescribeConfigsRequest(resources=(resource,), include_synonyms=True)
    return net.answered(node_id, request).results[0]


def one(net: Net, kind: int, name: str, key: str) -> tuple[str, int, list[tuple[str, str, int]]]:
    (line,) = ask(net, kind, name, key).configs
    return line.value, line.config_source, [(s.name, s.value, s.source) for s in line.synonyms]


def set_cluster_default(net: Net, key: str, value: str) -> None:
    change = incremental_alter_configs.AlterableConfig(name=key, config_operation=0, value=value)
    resource = incremental_alter_configs.AlterConfigsResource(resource_type=BROKER, resource_name="", configs=(change,))
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    assert net.answered(1, request).responses[0].error_code is ErrorCode.none


def replace(net: Net, topic: str, validate_only: bool = False, **values: str | None) -> Any:
    changes = tuple(alter_configs.AlterableConfig(name=k.replace("_", "."), value=v) for k, v in values.items())
    resource = alter_configs.AlterConfigsResource(resource_type=TOPIC, resource_name=topic, configs=changes)
    request = alter_configs.AlterConfigsRequest(resources=(resource,), validate_only=validate_only)
    return net.answered(1, request).responses[0]


def test_the_nearest_value_is_in_force_and_all_others_are_synonyms() -> None:
    net = Net(config(1, topic_defaults={"log.retention.ms": "3"})).up()
    net.create("t")
    built_in = ("log.retention.ms", "604800000", 5)
    assert one(net, TOPIC, "t", "retention.ms") == ("3", 4, [("log.retention.ms", "3", 4), built_in])
    set_cluster_default(net, "log.retention.ms", "2")
    assert one(net, TOPIC, "t", "retention.ms")[:2] == ("2", 3)
    net.answered(1, config_request("t", "retention.ms", "1"))
    value, source, synonyms = one(net, TOPIC, "t", "retention.ms")
    assert (value, source) == ("1", 1)
    assert synonyms == [("retention.ms", "1", 1), ("log.retention.ms", "2", 3), ("log.retention.ms", "3", 4), built_in]


def test_every_topic_config_is_described_with_its_type() -> None:
    net = Net().up()
    net.create("t")
    types = {line.name: line.config_type for line in ask(net, TOPIC, "t").configs}
    assert types["preallocate"] == 1
    assert types["compression.type"] == 2
    assert types["min.insync.replicas"] == 3
    assert types["retention.ms"] == 5
    assert types["min.cleanable.dirty.ratio"] == 6
    assert types["cleanup.policy"] == 7
    assert list(types) == sorted(types)


def test_a_broker_describes_itself_and_the_cluster_but_no_other_broker() -> None:
    net = three_brokers().up()
    names = {line.name: line for line in ask(net, BROKER, "1").configs}
    assert names["node.id"].value == "1"
    assert names["node.id"].read_only
    assert names["log.retention.ms"].value == "604800000"
    assert ask(net, BROKER, "2").error_code is ErrorCode.invalid_request
    assert ask(net, BROKER, "").configs == ()
    set_cluster_default(net, "log.retention.ms", "2")
    assert [(line.name, line.value, line.config_source) for line in ask(net, BROKER, "").configs] == [
        ("log.retention.ms", "2", 3)
    ]


def test_unknown_topics_and_resources_are_refused() -> None:
    net = Net().up()
    assert ask(net, TOPIC, "absent").error_code is ErrorCode.unknown_topic_or_partition
    assert ask(net, 8, "1").error_code is ErrorCode.invalid_request


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
    assert replace(net, "t", segment_ms=None).error_code is ErrorCode.invalid_config
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
