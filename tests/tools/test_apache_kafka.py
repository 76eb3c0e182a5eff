"""Apache Kafka beside us: what can be said without starting it."""

from pathlib import Path

import pytest

import apache_kafka
from apache_kafka import ApacheCluster, KafkaError


def test_without_the_jars_the_error_names_the_target_that_fetches_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(apache_kafka, "LIBS", tmp_path)
    assert not apache_kafka.available()
    with pytest.raises(KafkaError, match="make apache-kafka"):
        ApacheCluster(directory=str(tmp_path / "cluster"))


def test_without_java_the_error_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / ".complete").touch()
    monkeypatch.setattr(apache_kafka, "LIBS", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(KafkaError, match="java"):
        apache_kafka.java("kafka.Kafka")


def test_settings_given_by_the_caller_win_over_those_of_a_cluster_of_three(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(apache_kafka, "unavailable", lambda: None)
    cluster = ApacheCluster(3, str(tmp_path), {"min.insync.replicas": "3", "num.io.threads": "2"})
    lines = cluster._properties(cluster.nodes[2]).splitlines()
    assert "node.id=2" in lines
    assert "min.insync.replicas=3" in lines
    assert "num.io.threads=2" in lines
    assert len([line for line in lines if line.startswith("min.insync.replicas=")]) == 1
