"""The handwritten codec of followers: the bytes and values of the generic codec, or it leaves a message to that."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from insync.wire import codec, handwritten_fetch
from insync.wire.errors import ErrorCode
from insync.wire.messages import fetch
from insync.wire.types import ms

_i32 = st.integers(-(2**31), 2**31 - 1)
_i64 = st.integers(-(2**63), 2**63 - 1)
_ids = st.integers(1, 2**128 - 1).map(lambda number: UUID(int=number))
_partitions = st.builds(
    fetch.FetchPartition,
    partition=_i32,
    current_leader_epoch=_i32,
    fetch_offset=_i64,
    last_fetched_epoch=_i32,
    log_start_offset=_i64,
    partition_max_bytes=_i32,
)
_topics = st.builds(fetch.FetchTopic, topic_id=_ids, partitions=st.lists(_partitions, max_size=3).map(tuple))
_forgotten = st.builds(fetch.ForgottenTopic, topic_id=_ids, partitions=st.lists(_i32, max_size=3).map(tuple))
_requests = st.builds(
    fetch.FetchRequest,
    cluster_id=st.none(),
    replica_state=st.builds(fetch.ReplicaState, replica_id=_i32, replica_epoch=_i64),
    max_wait=st.integers(0, 2**31 - 1).map(ms),
    min_bytes=_i32,
    max_bytes=_i32,
    isolation_level=st.integers(-128, 127),
    session_id=_i32,
    session_epoch=_i32,
    topics=st.lists(_topics, max_size=3).map(tuple),
    forgotten_topics_data=st.lists(_forgotten, max_size=3).map(tuple),
    rack_id=st.just(""),
)


@given(_requests, st.integers(0, 2**31 - 1))
def test_requests_have_the_bytes_of_the_generic_codec(request: fetch.FetchRequest, correlation_id: int) -> None:
    frame = handwritten_fetch.encode_request(request, correlation_id, b"me")
    assert frame is not None
    assert bytes(frame) == codec.encode_request(request, correlation_id, "me")


@given(_requests, st.sampled_from(["rack", "cluster"]))
def test_requests_that_no_follower_sends_are_left_to_the_generic_codec(request: fetch.FetchRequest, more: str) -> None:
    values = {name: getattr(request, name) for name in type(request).__dataclass_fields__ if not name.startswith("_")}
    values |= {"rack_id": "east"} if more == "rack" else {"cluster_id": "c"}
    assert handwritten_fetch.encode_request(fetch.FetchRequest(**values), 1, b"me") is None


_answers = st.builds(
    fetch.FetchResponse,
    throttle_time=st.integers(0, 2**31 - 1).map(ms),
    error_code=st.sampled_from([ErrorCode.none, ErrorCode.none, ErrorCode.fetch_session_id_not_found]),
    session_id=_i32,
    responses=st.lists(
        st.builds(
            fetch.FetchableTopicResponse,
            topic_id=st.one_of(_ids, st.none()),
            partitions=st.lists(
                st.builds(
                    fetch.PartitionData,
                    partition_index=_i32,
                    error_code=st.sampled_from([ErrorCode.none, ErrorCode.none, ErrorCode.fenced_leader_epoch]),
                    high_watermark=_i64,
                    last_stable_offset=_i64,
                    log_start_offset=_i64,
                    diverging_epoch=st.builds(fetch.EpochEndOffset, epoch=st.sampled_from([-1, 3])),
                    current_leader=st.builds(fetch.LeaderIdAndEpoch, leader_id=st.sampled_from([-1, 3])),
                    aborted_transactions=st.sampled_from([None, ()]),
                    preferred_read_replica=_i32,
                    records=st.one_of(st.none(), st.binary(max_size=300)),
                ),
                max_size=3,
            ).map(tuple),
        ),
        max_size=3,
    ).map(tuple),
)


@given(_answers)
def test_a_response_is_decoded_as_by_the_generic_codec_or_left_to_it(answer: fetch.FetchResponse) -> None:
    read = handwritten_fetch.decode_response(codec.encode_response(answer, 7))
    lines = [line for topic in answer.responses for line in topic.partitions]
    unusual = (
        answer.error_code is not ErrorCode.none
        or any(topic.topic_id is None for topic in answer.responses)
        or any(line.error_code is not ErrorCode.none or line.records is None for line in lines)
        or any(line.diverging_epoch.epoch >= 0 or line.current_leader.leader_id >= 0 for line in lines)
    )
    assert read == (None if unusual else answer)


@given(_answers, st.data())
def test_a_damaged_response_is_decoded_as_by_the_generic_codec_or_left_to_it(
    answer: fetch.FetchResponse, data: st.DataObject
) -> None:
    frame = bytearray(codec.encode_response(answer, 7))
    for _ in range(data.draw(st.integers(0, 3))):
        frame[data.draw(st.integers(4, len(frame) - 1))] = data.draw(st.sampled_from([0, 1, 2, 127, 128, 255]))
    damaged = bytes(frame[: data.draw(st.one_of(st.just(len(frame)), st.integers(4, len(frame))))])
    read = handwritten_fetch.decode_response(damaged)
    if read is not None:
        assert read == codec.decode_response(damaged, fetch.FetchRequest)[1]
