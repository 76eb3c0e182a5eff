"""The driver's view of the cluster before a batch, while topics are deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast
from uuid import UUID

import pytest

from insync.client.errors import UnknownTopicError
from insync.client.model import Offset, Partition, Topic, TopicPartition
from insync.spark.cluster_snapshot import snapshot_cluster
from insync.spark.cluster_view import ClusterView


class FakeView:
    """Describes the topics `kept` and `gone`, and then does not find `gone` any more."""

    def describe_topics(self, *, must_exist: bool) -> dict[str, Topic]:
        partition = Partition(index=0, leader=1, leader_epoch=0, replicas=(1,), isr=(1,))
        return {name: Topic(name=name, id=UUID(int=1), partitions=(partition,)) for name in ("kept", "gone")}

    def list_partitions(self, described: Mapping[str, Topic]) -> list[TopicPartition]:
        return [(name, 0) for name in described]

    def list_offsets_and_epochs(self, times: Mapping[TopicPartition, int], described: Any) -> dict[Any, Offset]:
        if ("gone", 0) in times:
            raise UnknownTopicError("gone")
        return {key: Offset(7, leader_epoch=0) for key in times}


def test_a_topic_that_is_deleted_meanwhile_is_left_out() -> None:
    """So that a stream reports it as deleted."""
    snapshot = snapshot_cluster(cast(ClusterView, FakeView()), must_exist=False)
    assert (list(snapshot.topics), snapshot.offsets) == (["kept"], {("kept", 0): 7})


def test_a_topic_that_must_exist_is_an_error_if_it_is_deleted_meanwhile() -> None:
    with pytest.raises(UnknownTopicError, match="gone"):
        snapshot_cluster(cast(ClusterView, FakeView()), must_exist=True)
