"""Config keys: valid values and their meaning (E8, R6)."""

from __future__ import annotations

import pytest

from insync.metadata import configs

LEGAL = [
    ("min.insync.replicas", "2", 2),
    ("retention.ms", "-1", -1),
    ("min.cleanable.dirty.ratio", "0.25", 0.25),
    ("unclean.leader.election.enable", "TRUE", True),
    ("unclean.recovery.strategy", "proactive", "proactive"),
    ("cleanup.policy", "compact,delete", ("compact", "delete")),
    ("cleanup.policy", "", ()),
    ("leader.replication.throttled.replicas", "*", ("*",)),
    ("leader.replication.throttled.replicas", "", ()),
]

ILLEGAL = [
    ("min.insync.replicas", "0"),
    ("min.insync.replicas", "1.5"),
    ("min.insync.replicas", ""),
    ("retention.ms", "-2"),
    ("min.cleanable.dirty.ratio", "1.5"),
    ("unclean.leader.election.enable", "yes"),
    ("unclean.recovery.strategy", "none"),
    ("cleanup.policy", "shred"),
    ("leader.replication.throttled.replicas", "0:1,x"),
    ("leader.replication.throttled.replicas", "²:1"),  # a digit that is no number
    ("leader.replication.throttled.replicas", "0:" + "1" * 5_000),
    ("segment.bytes", str(2**31)),
]


@pytest.mark.parametrize(("name", "text", "value"), LEGAL)
def test_a_valid_value_is_parsed(name: str, text: str, value: object) -> None:
    """E8"""
    assert configs.parse(configs.TOPIC_KEYS[name], text) == value
    assert configs.find_problem(configs.TOPIC_KEYS, name, text) is None


@pytest.mark.parametrize(("name", "text"), ILLEGAL)
def test_an_invalid_value_is_refused(name: str, text: str) -> None:
    """E8"""
    assert name in (configs.find_problem(configs.TOPIC_KEYS, name, text) or "")


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("retention.ms", "soon", "a whole number from -1 up"),
        ("segment.bytes", "1", "a whole number from 14 to 2147483647"),
        ("min.cleanable.dirty.ratio", "2", "a number from 0 to 1"),
        ("unclean.leader.election.enable", "maybe", "true or false"),
        ("message.timestamp.type", "Now", "one of CreateTime, LogAppendTime"),
        ("cleanup.policy", "shred", "a list of delete, compact, or empty"),
        ("leader.replication.throttled.replicas", "all", "a list of partition:broker, or *"),
    ],
)
def test_the_refusal_of_a_value_says_what_it_must_be(name: str, text: str, why: str) -> None:
    problem = configs.find_problem(configs.TOPIC_KEYS, name, text)
    assert problem == f"Invalid value {text} for configuration {name}: it must be {why}"


def test_unknown_keys_and_null_values_are_refused() -> None:
    """E8"""
    assert configs.find_problem(configs.TOPIC_KEYS, "nope", "1")
    assert configs.find_problem(configs.TOPIC_KEYS, "retention.ms", None)


@pytest.mark.parametrize("key", [*configs.TOPIC_KEYS.values(), *configs.BROKER_KEYS.values()], ids=lambda key: key.name)
def test_every_default_is_valid(key: configs.ConfigKey) -> None:
    """M1: an invalid default would break every new topic."""
    assert configs.parse(key, key.default) is not None
    assert configs.value_of(key, None) == configs.value_of(key, key.default)


def test_every_topic_key_but_the_throttled_replicas_has_a_cluster_wide_synonym() -> None:
    """R6: the throttled replicas belong to one topic."""
    without = [key.name for key in configs.TOPIC_KEYS.values() if not key.synonym]
    assert without == [configs.LEADER_THROTTLED_REPLICAS, configs.FOLLOWER_THROTTLED_REPLICAS]
    assert configs.LEADER_THROTTLED_RATE in configs.BROKER_KEYS


def test_the_configs_that_kafkas_reassignment_tool_unsets_are_known() -> None:
    """R6: kafka-reassign-partitions --verify unsets all three, whether they were set or not."""
    rates = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
    for name in (*rates, "replica.alter.log.dirs.io.max.bytes.per.second"):
        assert configs.find_problem(configs.BROKER_KEYS, name, "1000") is None
