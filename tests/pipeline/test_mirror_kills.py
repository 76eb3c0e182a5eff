"""A mirror that is killed at any point, and a source that changes meanwhile: nothing is lost, doubled or replaced.

The mirror is a process of its own without Spark that kills itself with -9 after a batch that a seed determines, before
its state counts that batch. INSYNC_KILL_ROUNDS makes the test longer.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from insync.client import admin
from insync.client.offsets import LATEST, list_offsets_with_retry
from insync.client.sync_client import SyncClient
from insync.pipeline.mirror.batches import BatchLimits
from insync.pipeline.mirror.errors import MirrorError, SourceLossError
from insync.pipeline.mirror.job import MirrorOptions
from insync.pipeline.mirror.state import MirrorPosition, MirrorState
from insync.pipeline.mirror.task import MirrorTask, mirror_range
from insync.testing import Cluster
from tests.pipeline.lake_data import delete_records, numbered, produce
from tests.pipeline.mirror_here import compare, make_options, mirror

ROUNDS = int(os.environ.get("INSYNC_KILL_ROUNDS", "2"))
SEED = int(os.environ.get("INSYNC_KILL_SEED", "7"))
UNCLEAN_ELECTION = 1


@pytest.fixture(scope="module")
def target() -> Iterator[Cluster]:
    with Cluster(brokers=1) as running:
        yield running


def log_end(bootstrap: str, topic: str) -> int:
    with SyncClient(bootstrap) as client:
        offsets = client.call(lambda cluster: list_offsets_with_retry(cluster, {(topic, 0): LATEST}))
    return offsets[topic, 0].offset


def commit(bootstrap: str, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def run_until_killed(batches: int, source: str, target: str, state: Path) -> None:
    command = [sys.executable, "-m", "tests.pipeline.mirror_here", source, target, str(state), "kills", str(batches)]
    ended = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=300, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr[-3000:]


def count_rows(state: Path) -> int:
    return sum(mirrored.position.rows for mirrored in MirrorState.load(state).partitions.values())


def test_a_mirror_that_is_killed_continues_exactly(target: Cluster, tmp_path: Path) -> None:
    rng = random.Random(SEED)
    state = tmp_path / "state"
    with Cluster(brokers=1, topics={"kills": 1}) as source:
        produce(source.bootstrap, "kills", numbered(0, 100))
        delete_records(source.bootstrap, "kills", before=40)  # offsets differ by 40 from now on
        produce(source.bootstrap, "kills", numbered(0, 20_000), **{"linger.ms": 0})
        uncounted = []
        for n in range(ROUNDS):
            run_until_killed(2 * rng.randrange(1, 12) + n % 2, source.bootstrap, target.bootstrap, state)
            uncounted.append(log_end(target.bootstrap, "kills") - count_rows(state))
        assert uncounted[0] > 0  # otherwise the kills test nothing
        commit(source.bootstrap, "readers", "kills", 9_000)
        options = make_options(source.bootstrap, target.bootstrap, state, "kills")
        summary = mirror(options)
        assert summary.finished
        comparison = compare(options)
        assert comparison.differences == []
        assert comparison.partitions[0].records == 20_060
        assert log_end(target.bootstrap, "kills") == 20_060
        assert MirrorState.load(state).committed == {"readers": {("kills", 0): (8_960,)}}


def make_old_task(options: MirrorOptions, state: MirrorState) -> MirrorTask:
    """Of offsets 10 to 19 of topic 'cut', planned before another leader was elected."""
    return MirrorTask(
        source=options.source,
        target=options.target,
        topic="cut",
        topic_id=state.topics["cut"].id,
        target_topic="cut",
        target_id=state.topics["cut"].target_id,
        partition=0,
        end=20,
        log_end=20,
        leader_epoch=0,
        position=MirrorPosition(rows=20, source=10, target=20),
        producer=state.producer,
        limits=BatchLimits(merged_bytes=10_000, max_bytes=10_000),
        is_compacted=False,
        allow_loss=False,
    )


def test_a_truncated_source_is_reported_and_not_mirrored_over(target: Cluster, tmp_path: Path) -> None:
    """F3: leader epochs show it, even after the source has grown past the truncation."""
    topic = {"partitions": 1, "replication_factor": 2, "min_insync_replicas": 1}
    with Cluster(brokers=2, controllers=1, topics={"cut": topic}) as source:
        options = make_options(source.bootstrap, target.bootstrap, tmp_path / "state", "cut", groups="")
        first = source.leader_of("cut")
        (second,) = set(source.isr_of("cut")) - {first}
        produce(source.bootstrap, "cut", numbered(0, 10))
        source.kill(second)
        source.wait_for_isr("cut", size=1)
        produce(source.bootstrap, "cut", numbered(10, 15))
        assert mirror(options).rows == 15
        before = MirrorState.load(tmp_path / "state")
        produce(source.bootstrap, "cut", numbered(15, 20))
        assert mirror(options).rows == 5
        source.kill(first)
        source.start(second)
        with SyncClient(source.bootstrap) as client:
            client.call(lambda cluster: admin.elect_leaders(cluster, UNCLEAN_ELECTION, [("cut", 0)]))
        source.wait_for_leader("cut", other_than=first)
        produce(source.bootstrap, "cut", numbered(100, 115))

        assert "were replaced after they were planned" in mirror_range(make_old_task(options, before)).error
        with pytest.raises(SourceLossError, match=r"cut-0: offsets 10 to 19 missing \(truncation\)"):
            mirror(options)
        assert log_end(target.bootstrap, "cut") == 20

        # The mirror was killed before it saved that it had written offsets 10 to 19: the epochs of its state say
        # nothing of the truncation, but the target's records are not the source's.
        before.partitions["cut", 0].position = MirrorPosition(rows=10, source=10, target=10)
        before.save()
        with pytest.raises(MirrorError, match="the target has 10 records from offset 10 on that the source no longer"):
            mirror(options)
        assert log_end(target.bootstrap, "cut") == 20

        allowed = make_options(
            source.bootstrap, target.bootstrap, tmp_path / "state", "cut", groups="", allow_loss=True
        )
        summary = mirror(allowed)
        assert [(report.rows, report.end) for report in summary.partitions] == [(35, 35)]
        assert "which was truncated after they were mirrored" in summary.notes[0]
        (difference,) = compare(options).differences
        assert difference.kind == "added"
        assert "offsets 10 to 19 (10 records) of the target are not in the source" in difference.text
