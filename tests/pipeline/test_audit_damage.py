"""Every kind of damage that is planted in a cluster's directories is one cause of an audit, with its place, and a
healthy cluster has none."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from insync.pipeline.audit.findings import group_by_cause
from insync.pipeline.audit.logs import audit_logs
from tests.pipeline.cluster_directories import ClusterDirectories, make_cluster
from tests.pipeline.planted_damage.catalogue import DAMAGES
from tests.slow_parameters import first_quick

SEEDS = range(4)


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> dict[int, ClusterDirectories]:
    root = tmp_path_factory.mktemp("clusters")
    return {seed: make_cluster(root / str(seed), seed) for seed in SEEDS}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_healthy_cluster_has_no_findings(clusters: dict[int, ClusterDirectories], seed: int) -> None:
    """Compacted and transactional topics, deleted records, moved, lagging and new replicas, a node that was killed."""
    audited = audit_logs(clusters[seed].options())
    assert [str(finding) for finding in audited.findings] == []
    assert audited.policies_known
    assert audited.replicas >= 23
    assert audited.stretches >= 8


@pytest.mark.parametrize("seed", first_quick(SEEDS))
@pytest.mark.parametrize("name", DAMAGES)
def test_each_damage_is_named_once_with_its_place(
    clusters: dict[int, ClusterDirectories], tmp_path: Path, name: str, seed: int
) -> None:
    cluster = clusters[seed].copy_to(tmp_path / "cluster")
    expected = DAMAGES[name](cluster, random.Random(f"{name} {seed}"))
    causes = group_by_cause(audit_logs(cluster.options()).findings)
    assert len(causes) == 1, (expected, [str(cause) for cause in causes])
    cause = causes[0]
    first = cause.example
    place = (first.kind, first.broker, first.topic, first.partition)
    if expected.topic:
        assert place == (expected.kind, expected.node, expected.topic, expected.partition), str(cause)
    else:
        assert place[:2] == (expected.kind, expected.node), str(cause)
    if expected.offset is not None:
        assert first.offset == expected.offset, str(cause)
    if expected.file is not None:
        assert first.file == str(expected.file), str(cause)
