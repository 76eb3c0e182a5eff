"""Every message of the quorum can be written to the wire and read back."""

from __future__ import annotations

from typing import Any

import pytest

from insync.quorum import messages
from insync.quorum.config import QuorumConfig
from insync.quorum.messages import LeaderInfo, OffsetAndEpoch
from insync.wire import codec
from insync.wire.errors import ErrorCode
from insync.wire.messages import begin_quorum_epoch, end_quorum_epoch, fetch, fetch_snapshot, vote
from tests.quorum.quorum_harness import data

END = OffsetAndEpoch(41, 3)
LEADER_INFO = LeaderInfo(4, 2, ErrorCode.fenced_leader_epoch)

REQUESTS = [
    messages.vote_request("c", 1, 2, 4, END, pre_vote=True),
    messages.begin_request("c", 1, 2, 4),
    messages.end_request("c", 2, 4, (3, 1)),
    messages.fetch_request("c", 9, 4, END, 7, QuorumConfig()),
    messages.fetch_snapshot_request("c", 9, 4, END, 100, 200),
]
RESPONSES = [
    (vote.VoteRequest, messages.vote_response(LEADER_INFO, granted=True)),
    (begin_quorum_epoch.BeginQuorumEpochRequest, messages.begin_response(LEADER_INFO)),
    (end_quorum_epoch.EndQuorumEpochRequest, messages.end_response(LEADER_INFO)),
    (
        fetch.FetchRequest,
        messages.fetch_response(LEADER_INFO, hwm=5, log_start=1, diverging=END, records=data(5, 4, b"x")),
    ),
    (fetch.FetchRequest, messages.fetch_response(LEADER_INFO, snapshot=END)),
    (
        fetch_snapshot.FetchSnapshotRequest,
        messages.fetch_snapshot_response(LEADER_INFO, END, size=9, position=3, chunk=b"half a ba"),
    ),
]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: type(request).__name__)
def test_requests_survive_the_wire(request_: Any) -> None:
    """Q4: encoded and decoded, they are equal."""
    _, read = codec.decode_request(codec.encode_request(request_, 7, "node-1"))
    assert read == request_
    assert messages.metadata_partition(read.topics) is not None


@pytest.mark.parametrize(("kind", "response"), RESPONSES, ids=lambda value: getattr(type(value), "__name__", ""))
def test_responses_survive_the_wire(kind: Any, response: Any) -> None:
    """Q4: encoded and decoded, they are equal, and so is the `LeaderInfo` in them."""
    _, read = codec.decode_response(codec.encode_response(response, 7), kind)
    assert read == response
    answer = messages.metadata_partition(read.responses if hasattr(read, "responses") else read.topics)
    assert answer is not None
    assert messages.read_leader_info(answer) == LEADER_INFO


def test_a_message_about_another_partition_is_refused() -> None:
    """Q1: there is one metadata log, and it has one partition."""

    def topic(name: str, *indexes: int) -> Any:
        partitions = tuple(
            begin_quorum_epoch.RequestPartition(
                partition_index=index, voter_directory_id=None, leader_id=1, leader_epoch=1
            )
            for index in indexes
        )
        return begin_quorum_epoch.RequestTopic(topic_name=name, partitions=partitions)

    assert messages.metadata_partition((topic("__cluster_metadata", 0),)) is not None
    for topics in [(topic("__cluster_metadata", 1),), (topic("other", 0),), (topic("__cluster_metadata", 0, 0),), ()]:
        assert messages.metadata_partition(topics) is None
