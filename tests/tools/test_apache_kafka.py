"""The cluster of Apache Kafka's servers, as far as it can be tested without starting one."""

from pathlib import Path

import pytest

import apache_kafka
from apache_kafka import ApacheCluster, KafkaError


def test_without_the_jars_the_error_names_the_target_that_fetches_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(apache_kafka, "LIBS", tmp_path)
    assert not apache_kafka.is_available()
    with pytest.raises(KafkaError, match="make apache-kafka"):
        ApacheCluster(directory=str(tmp_path / "cluster"))


def test_without_java_the_error_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / ".complete").touch()
    monkeypatch.setattr(apache_kafka, "LIBS", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(KafkaError, match="java"):
        apache_kafka.java("kafka.Kafka")


def test_settings_of_the_caller_override_those_of_a_cluster_of_three(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(apache_kafka, "missing_requirement", lambda: None)
    cluster = ApacheCluster(3, str(tmp_path), {"min.insync.replicas": "3", "num.io.threads": "2"})
    settings = cluster.node_settings(cluster.nodes[2])
    assert (settings["node.id"], settings["min.insync.replicas"], settings["num.io.threads"]) == ("2", "3", "2")
    assert settings["offsets.topic.replication.factor"] == "3"
