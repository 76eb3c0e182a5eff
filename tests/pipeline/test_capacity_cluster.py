"""A proposal is applied to a running cluster, and its brokers are even afterwards."""

from __future__ import annotations

import json
from pathlib import Path

from insync.pipeline.capacity.job import Capacity, CapacityOptions, read_capacity
from insync.pipeline.log_directories import list_log_directories
from insync.testing import Cluster
from tests.insync_command import InsyncCommand
from tests.polling import wait_until


def measure(directory: Path) -> Capacity:
    return read_capacity(CapacityOptions(logs=tuple(list_log_directories(str(directory)))))


def _sum_strays(report: Capacity) -> int:
    return sum(broker.stray_size for broker in report.brokers)


def test_the_skew_of_a_running_cluster_falls(tmp_path: Path) -> None:
    directory, plan = tmp_path / "cluster", tmp_path / "plan.json"
    with Cluster(brokers=3, directory=directory) as cluster:
        insync = InsyncCommand(cluster.bootstrap, timeout_s=60)
        insync("topic", "create", "skewed", "--assign", "/".join(["1,2"] * 6))
        for partition in range(6):
            insync("produce", "skewed", *(["x" * 10_000] * 30), "-p", str(partition))
        cluster.wait_for_isr("skewed", 5, size=2)
        before = measure(directory)
        assert [broker.replicas for broker in before.brokers] == [6, 6, 0]
        assert before.skew > 1.4
        plan.write_text(json.dumps(before.document))
        insync("reassign", "start", str(plan), "--wait", "--throttle", str(before.estimate.throttle))
        wait_until(lambda: not _sum_strays(measure(directory)), "the moved replicas are deleted", interval_s=0.2)
        after = measure(directory)
        [described] = insync.json("topic", "describe", "skewed")
    assert after.sizes_after == {broker.id: broker.size for broker in after.brokers}
    assert after.skew < 1.1
    assert after.moves == ()
    assert sorted(broker.preferred for broker in after.brokers) == [2, 2, 2]
    assert all(len(partition["replicas"]) == len(partition["isr"]) == 2 for partition in described["partitions"])
