"""A cluster with a thousand partitions loses nothing, neither in a clean stop nor when all nodes are killed.

Every partition has three replicas, so every node holds a thousand logs. Afterwards every partition has a leader and all
its replicas in the ISR, and every acknowledged record can be read once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from insync.server import node_query
from insync.server.local_cluster import LocalCluster, LocalNode
from insync.wire import batch
from insync.wire.errors import ErrorCode
from insync.wire.messages import create_topics, fetch, metadata, produce
from insync.wire.types import ms
from tests.server.server_harness import eventually

TOPICS, PARTITIONS = 10, 100
WRITTEN_PARTITIONS = range(0, PARTITIONS, 2)
TIMEOUT_S = 60.0

REFUSALS = (ErrorCode.not_leader_or_follower, ErrorCode.not_enough_replicas, ErrorCode.unknown_topic_id)

Place = tuple[UUID, int]
"""A partition: its topic and its number."""

# Three nodes with a thousand logs each start on two cores: none of them must be fenced meanwhile.
SETTINGS = {
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "5000",
    "controller.quorum.fetch.timeout.ms": "5000",
    "controller.quorum.request.timeout.ms": "5000",
    "replica.lag.time.max.ms": "15000",
}


INTERVAL_S = 0.1
"""Between polls: a response about a thousand partitions is work for nodes that are starting."""


class LargeCluster:
    """The cluster, its partitions, and the acknowledged records."""

    def __init__(self, directory: Path) -> None:
        self.cluster = LocalCluster(brokers=3, directory=str(directory), settings=SETTINGS)
        self.acknowledged: dict[Place, list[bytes]] = {}
        self.leaders: dict[Place, int] = {}
        self.topics: tuple[UUID, ...] = ()

    def start(self) -> None:
        self.cluster.start(TIMEOUT_S)

    def create(self) -> None:
        wanted = tuple(
            create_topics.CreatableTopic(
                name=f"topic-{at}", num_partitions=PARTITIONS, replication_factor=3, assignments=(), configs=()
            )
            for at in range(TOPICS)
        )
        request = create_topics.CreateTopicsRequest(topics=wanted, timeout=ms(30_000), validate_only=False)
        answer = node_query.send_request(self.nodes[0].address, request, TIMEOUT_S)
        assert {topic.error_code for topic in answer.topics} == {ErrorCode.none}
        self.topics = tuple(topic.topic_id for topic in answer.topics)

    @property
    def nodes(self) -> list[LocalNode]:
        return list(self.cluster.nodes.values())

    def wait_until_whole(self) -> None:
        """Wait until every node knows a leader and an ISR of three for every partition."""
        what = "every partition is led and in sync"
        for node in self.nodes:
            self.leaders = eventually(partial(self._whole, node), what, TIMEOUT_S, interval_s=INTERVAL_S)

    def _whole(self, node: LocalNode) -> dict[Place, int] | None:
        asked = tuple(metadata.MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in self.topics)
        request = metadata.MetadataRequest(
            topics=asked, allow_auto_topic_creation=False, include_topic_authorized_operations=False
        )
        try:
            answer = node_query.send_request(node.address, request, TIMEOUT_S)
        except node_query.NoAnswerError:
            return None
        lines = [(topic.topic_id, partition) for topic in answer.topics for partition in topic.partitions]
        whole = [line for _, line in lines if line.leader_id > 0 and len(line.isr_nodes) == 3]
        leaders = {(topic_id, line.partition_index): line.leader_id for topic_id, line in lines}
        return leaders if len(whole) == TOPICS * PARTITIONS else None

    def write(self, text: str) -> None:
        """One record, acks=all, to every second partition."""
        places = (place for place in self.leaders if place[1] in WRITTEN_PARTITIONS)
        missing = {place: f"{text} {place[0]} {place[1]}".encode() for place in places}

        def all_written() -> bool:
            self.wait_until_whole()
            for node in self.nodes:
                self._write(node, missing)
            return not missing

        eventually(all_written, f"{text} is acknowledged everywhere", TIMEOUT_S, interval_s=INTERVAL_S)

    def _write(self, node: LocalNode, missing: dict[Place, bytes]) -> None:
        """One request for all partitions of the node. A refusal wrote nothing: the current leader is tried next."""
        mine = {place: value for place, value in missing.items() if self.leaders[place] == node.id}
        for topic in node_query.send_request(node.address, _produce(mine), TIMEOUT_S).responses:
            for line in topic.partition_responses:
                place = (topic.topic_id, line.index)
                if line.error_code is ErrorCode.none:
                    self.acknowledged.setdefault(place, []).append(missing.pop(place))
                else:
                    assert line.error_code in REFUSALS, line

    def read_all(self) -> dict[Place, list[bytes]]:
        """The records of every partition, read from its leader, which is looked up again after an error."""
        data = eventually(self._read, "every partition can be read", TIMEOUT_S, interval_s=INTERVAL_S)
        values: dict[Place, list[bytes]] = {}
        for place, batches in data.items():
            for pos, _ in batch.iter_headers(batches):
                values.setdefault(place, []).extend(record.value or b"" for record in batch.records(batches, pos))
        return values

    def _read(self) -> dict[Place, bytes] | None:
        self.wait_until_whole()
        data: dict[Place, bytes] = {}
        for node in self.nodes:
            mine = [place for place, leader in self.leaders.items() if leader == node.id]
            answer = node_query.send_request(node.address, _fetch(mine), TIMEOUT_S)
            lines = [(topic.topic_id, line) for topic in answer.responses for line in topic.partitions]
            if any(line.error_code is not ErrorCode.none for _, line in lines):
                return None
            data |= {(topic_id, line.partition_index): bytes(line.records or b"") for topic_id, line in lines}
        return data


def _by_topic(places: Any) -> dict[UUID, list[int]]:
    topics: dict[UUID, list[int]] = {}
    for topic_id, index in places:
        topics.setdefault(topic_id, []).append(index)
    return topics


def _produce(values: dict[Place, bytes]) -> Any:
    def data(topic_id: UUID, index: int) -> Any:
        made = batch.build([batch.NewRecord(None, values[topic_id, index])], timestamp_ms=1_700_000_000_000)
        return produce.PartitionProduceData(index=index, records=bytes(made))

    topics = tuple(
        produce.TopicProduceData(topic_id=topic_id, partition_data=tuple(data(topic_id, index) for index in indexes))
        for topic_id, indexes in _by_topic(values).items()
    )
    return produce.ProduceRequest(transactional_id=None, acks=-1, timeout=ms(60_000), topic_data=topics)


def _fetch(places: list[Place]) -> Any:
    topics = tuple(
        fetch.FetchTopic(
            topic_id=topic_id,
            partitions=tuple(
                fetch.FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20) for index in indexes
            ),
        )
        for topic_id, indexes in _by_topic(places).items()
    )
    return fetch.FetchRequest(
        max_wait=ms(0), min_bytes=0, max_bytes=50 << 20, session_epoch=-1, topics=topics, forgotten_topics_data=()
    )


@pytest.fixture
def big(tmp_path: Path) -> Iterator[LargeCluster]:
    big = LargeCluster(tmp_path / "cluster")
    yield big
    for node in big.nodes:
        big.cluster.kill(node.id)


def test_a_thousand_partitions_come_back_after_an_orderly_stop_and_after_kill_9_of_all(big: LargeCluster) -> None:
    """B5, D3: every partition has all acknowledged records, and no others."""
    big.start()
    big.create()
    big.wait_until_whole()
    big.write("first")

    big.cluster.stop(TIMEOUT_S)
    assert [node.process and node.process.returncode for node in big.nodes] == [0, 0, 0]
    big.start()
    big.wait_until_whole()
    assert big.read_all() == big.acknowledged
    assert _restarts(big) == Counter(started=6, stopped=3)
    big.write("second")

    for node in big.nodes:
        big.cluster.kill(node.id)
    big.start()
    big.wait_until_whole()
    assert big.read_all() == big.acknowledged
    assert all(len(values) == 2 for values in big.acknowledged.values())
    big.write("third")


def _restarts(big: LargeCluster) -> Counter[str]:
    lines = "".join(node.log.read_text() for node in big.nodes)
    assert "Traceback" not in lines
    return Counter(word for word in ("started", "stopped") for _ in range(lines.count(f"event={word} ")))
