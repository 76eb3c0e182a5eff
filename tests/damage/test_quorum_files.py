"""The metadata log, its snapshots and the vote, damaged on real nodes (Q8): what docs/guides/damage.md promises."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from insync.client import topics
from insync.client.sync_client import SyncClient
from insync.findings import CONFIG_KEY, Finding, decode
from insync.testing import Cluster
from tests.damage.damage_harness import (
    DAMAGES,
    FULL,
    back_up,
    damaged_cluster,
    find_lost_records,
    findings,
    metadata_directory,
    node_directory,
    remove,
    replace,
    start_all,
    stop_all,
    warnings,
    write_all,
)
from tests.polling import wait_until

SUBJECT = "__cluster_metadata"
SETTINGS = {"insync.metadata.snapshot.records": "30"}


def metadata_log(cluster: Cluster, node: int) -> list[Path]:
    """The newest segment, which has the records that no snapshot covers."""
    return sorted(metadata_directory(cluster, node).glob("*.log"))[-1:]


def stop_with_records_after_the_snapshot(cluster: Cluster, node: int) -> None:
    """A stop writes records, and every 30th record causes a snapshot. If that is the last record, the newest segment is
    empty, and damage to it would have no effect: then the node stops again, a few records later."""
    cluster.stop(node)
    while not all(path.stat().st_size for path in metadata_log(cluster, node)):
        cluster.start(node)
        with SyncClient(cluster.bootstrap) as client:
            client.call(lambda client: topics.alter_configs(client, "t0", {"retention.ms": "86400000"}))
        cluster.stop(node)


def snapshots(cluster: Cluster, node: int) -> list[Path]:
    """All of them: the log before the oldest one is gone. There is only one if a leader has just installed it."""
    paths = sorted(metadata_directory(cluster, node).glob("*.checkpoint"))
    assert paths
    return paths


def quorum_state(cluster: Cluster, node: int) -> list[Path]:
    return [metadata_directory(cluster, node) / "quorum-state"]


def checkpoint(cluster: Cluster, node: int) -> list[Path]:
    return [node_directory(cluster, node) / "quorum-offset-checkpoint"]


def whole_directory(cluster: Cluster, node: int) -> list[Path]:
    return [metadata_directory(cluster, node)]


FILES: dict[str, Callable[[Cluster, int], list[Path]]] = {
    "log": metadata_log,
    "snapshots": snapshots,
    "quorum-state": quorum_state,
    "checkpoint": checkpoint,
    "directory": whole_directory,
}
ALL_CASES = [(file, damage) for file in FILES for damage in DAMAGES if file != "directory" or damage == "removed"]
SOME_CASES = [("log", "flipped"), ("snapshots", "truncated"), ("quorum-state", "emptied"), ("directory", "removed")]
ESSENTIAL = ("log", "snapshots", "directory")
"""A voter without these is damaged."""
UNREADABLE = ("checkpoint", "emptied")
"""Then it is unknown how much there was. If only a line is damaged, the one before it is used."""


def wait_until_restored(cluster: Cluster, node: int) -> None:
    wait_until(
        lambda: all(finding.subject != SUBJECT for finding in findings(cluster).get(node, [])),
        f"node {node} is restored",
    )


def test_one_damaged_voter_is_restored_by_the_others(tmp_path: Path) -> None:
    """Q8: whatever metadata is damaged, records stay, and a log line reports the damage."""
    plans = {f"t{number}": {"partitions": 20, "replication_factor": 3} for number in range(4)}
    with Cluster(brokers=3, topics=plans, directory=tmp_path, settings=SETTINGS) as cluster:
        acknowledged = write_all(cluster, ["t0"])
        for file, damage in ALL_CASES if FULL else SOME_CASES:
            stop_with_records_after_the_snapshot(cluster, 2)
            before = len(warnings(cluster, 2, SUBJECT))
            for path in FILES[file](cluster, 2):
                DAMAGES[damage](path)
            cluster.start(2)
            wait_until_restored(cluster, 2)
            lines = warnings(cluster, 2, SUBJECT)[before:]
            assert any("metadata_damaged" in line for line in lines) == (
                file in ESSENTIAL or (file, damage) == UNREADABLE
            )
            assert any("quorum_state_rebuilt" in line for line in lines) == (file in ("quorum-state", "directory"))
            cluster.wait_for_isr("t0")
        assert find_lost_records(cluster, acknowledged) == {}


def test_a_damaged_majority_stops_the_quorum_until_its_files_are_restored(tmp_path: Path) -> None:
    """Q8: no leader, and an ERROR on every voter. Once the files are restored, nothing is missing."""
    with damaged_cluster(tmp_path / "cluster", ["t"]) as cluster:
        acknowledged = write_all(cluster, ["t"])
        stop_all(cluster)
        copies = {node: back_up(node_directory(cluster, node), tmp_path / f"copy-{node}") for node in (1, 2)}
        for node in (1, 2):
            remove(metadata_directory(cluster, node))
        for node in cluster.nodes:
            cluster.start(node, wait=False)
        wait_for_error(cluster)
        assert "quorum_no_intact_majority" in [finding.kind for finding in findings_of_any_node(cluster)]
        for node in cluster.nodes:
            assert not re.search(rf"event=quorum_leader epoch=\d+ leader={node}", since_start(cluster, node))
            cluster.kill(node)
        for node, copy in copies.items():
            replace(node_directory(cluster, node), copy)
        start_all(cluster, in_sync=["t"])
        assert find_lost_records(cluster, acknowledged) == {}


def findings_of_any_node(cluster: Cluster) -> list[Finding]:
    """As `insync health` reads them while no broker is registered."""
    with SyncClient(cluster.bootstrap) as client:
        configs = client.call(lambda client: topics.describe_configs(client, "", kind=topics.BROKER, keys=[CONFIG_KEY]))
    return decode(configs[CONFIG_KEY].value or "")


def wait_for_error(cluster: Cluster) -> None:
    for node in cluster.nodes:
        wait_until(partial(no_majority_lines, cluster, node), f"node {node} reports that there is no intact majority")


def no_majority_lines(cluster: Cluster, node: int) -> list[str]:
    lines = warnings(cluster, node, "no intact majority")
    return [line for line in lines if "level=ERROR" in line and "quorum-accept-loss" in line]


def since_start(cluster: Cluster, node: int) -> str:
    """The log of the current process."""
    text = cluster.log_of(node).read_text(errors="replace")
    return text[text.rindex("event=started") :]
