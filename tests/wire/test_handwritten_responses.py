"""The handwritten encoders of Produce and Fetch responses: the bytes of the generic codec, which kafka-python reads."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.consumer import FetchRequest as TheirFetch
from kafka.protocol.consumer import FetchResponse as TheirFetchResponse
from kafka.protocol.producer import ProduceRequest as TheirProduce
from kafka.protocol.producer import ProduceResponse as TheirProduceResponse

from insync.wire import codec, handwritten_broker
from insync.wire.errors import ErrorCode
from insync.wire.messages import fetch, produce
from insync.wire.types import instant, ms
from insync.wire.versions.context import RequestContext
from insync.wire.versions.translator import VersionTranslator
from tests.slow_parameters import last_quick
from tests.wire.translator_harness import OTHER, TOPIC, TYPES, Names, make_translator

PRODUCE_VERSIONS = range(3, 14)
FETCH_VERSIONS = range(4, 19)

i32 = st.integers(-(2**31), 2**31 - 1)
i64 = st.integers(-(2**63), 2**63 - 1)
few = st.sampled_from([-1, 0, 5])
errors = st.sampled_from(
    [
        ErrorCode.none,
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_server_error,
        ErrorCode.unknown_topic_id,
        ErrorCode.inconsistent_topic_id,
    ]
)
topic_ids = st.sampled_from([TOPIC, OTHER, None, UUID(int=9)])
records = st.one_of(st.none(), st.binary(max_size=40), st.sampled_from([127, 128, 5000, 70_000]).map(bytes))
throttles = st.integers(0, 100_000).map(ms)


def arrays(items: st.SearchStrategy[Any], most: int = 3) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(items, max_size=most).map(tuple)


produce_lines = st.builds(
    produce.PartitionProduceResponse,
    index=i32,
    error_code=errors,
    base_offset=i64,
    log_append_time=st.one_of(st.none(), st.integers(0, 2**42).map(instant)),
    log_start_offset=i64,
    record_errors=arrays(st.builds(produce.BatchIndexAndErrorMessage, batch_index=i32), 1),
    error_message=st.one_of(st.none(), st.just("why")),
    current_leader=st.builds(produce.LeaderIdAndEpoch, leader_id=few, leader_epoch=few),
)
produce_responses = st.builds(
    produce.ProduceResponse,
    responses=arrays(
        st.builds(produce.TopicProduceResponse, topic_id=topic_ids, partition_responses=arrays(produce_lines))
    ),
    throttle_time=throttles,
    node_endpoints=arrays(st.builds(produce.NodeEndpoint, node_id=i32, host=st.just("h"), port=i32), 1),
)
fetch_lines = st.builds(
    fetch.PartitionData,
    partition_index=i32,
    error_code=errors,
    high_watermark=i64,
    last_stable_offset=i64,
    log_start_offset=i64,
    diverging_epoch=st.builds(fetch.EpochEndOffset, epoch=few, end_offset=few),
    current_leader=st.builds(fetch.LeaderIdAndEpoch, leader_id=few, leader_epoch=few),
    snapshot_id=st.builds(fetch.SnapshotId, epoch=few, end_offset=few),
    aborted_transactions=st.one_of(
        st.none(), arrays(st.builds(fetch.AbortedTransaction, producer_id=i64, first_offset=i64), 1)
    ),
    preferred_read_replica=i32,
    records=records,
)
fetch_responses = st.builds(
    fetch.FetchResponse,
    throttle_time=throttles,
    error_code=errors,
    session_id=i32,
    responses=arrays(st.builds(fetch.FetchableTopicResponse, topic_id=topic_ids, partitions=arrays(fetch_lines))),
    node_endpoints=arrays(st.builds(fetch.NodeEndpoint, node_id=i32, host=st.just("h"), port=i32), 1),
)


def make_context(key: int, version: int) -> RequestContext:
    context = RequestContext(codec.RequestHeader(key, version, 77, "c"))
    context.request = TYPES[key]
    return context


def encode_generically(context: RequestContext, response: Any) -> bytes:
    content = codec.encode_response(VersionTranslator(Names()).downgrade(context, response), 77)
    return len(content).to_bytes(4, "big") + content


def name_of(topic_id: UUID | None) -> str:
    return "" if topic_id is None else Names().name_of(topic_id) or ""


@pytest.mark.parametrize("version", last_quick(PRODUCE_VERSIONS))
@settings(max_examples=60)
@given(response=produce_responses)
def test_produce_responses_have_the_bytes_of_the_generic_codec(version: int, response: Any) -> None:
    pieces = handwritten_broker.encode_produce(response, version, 77, name_of)
    assert pieces is None or b"".join(pieces) == encode_generically(make_context(0, version), response)


@pytest.mark.parametrize("version", last_quick(FETCH_VERSIONS))
@settings(max_examples=60)
@given(response=fetch_responses)
def test_fetch_responses_have_the_bytes_of_the_generic_codec(version: int, response: Any) -> None:
    pieces = handwritten_broker.encode_fetch(response, version, 77, name_of)
    assert pieces is None or b"".join(pieces) == encode_generically(make_context(1, version), response)


def fetched(content: bytes, **fields: Any) -> fetch.FetchResponse:
    line = fetch.PartitionData(
        partition_index=1, error_code=ErrorCode.none, high_watermark=9, last_stable_offset=9, log_start_offset=2,
        aborted_transactions=(), records=content, **fields,
    )  # fmt: skip
    topic = fetch.FetchableTopicResponse(topic_id=TOPIC, partitions=(line,))
    return fetch.FetchResponse(throttle_time=ms(0), error_code=ErrorCode.none, session_id=3, responses=(topic,))


def produced(**fields: Any) -> produce.ProduceResponse:
    line = produce.PartitionProduceResponse(
        index=1, error_code=ErrorCode.none, base_offset=7, log_start_offset=2, record_errors=(), **fields
    )
    topic = produce.TopicProduceResponse(topic_id=TOPIC, partition_responses=(line,))
    return produce.ProduceResponse(responses=(topic,), throttle_time=ms(0))


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_usual_fetch_responses_are_encoded_without_a_copy_of_their_records(version: int) -> None:
    content = bytes(100_000)
    pieces = handwritten_broker.encode_fetch(fetched(content), version, 1, name_of)
    assert pieces is not None
    assert any(piece is content for piece in pieces)


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_usual_produce_responses_are_encoded_by_handwritten_code(version: int) -> None:
    assert handwritten_broker.encode_produce(produced(), version, 1, name_of) is not None
    refused = produced(error_message="no")
    assert handwritten_broker.encode_produce(refused, version, 1, name_of) is not None


@pytest.mark.parametrize("version", [8, 9, 11, 12])
def test_kafka_python_reads_the_errors_of_refused_records(version: int) -> None:
    """P5: KIP-467, from version 8 on."""
    errors = tuple(
        produce.BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=why)
        for at, why in ((3, "no key"), (70_000, None), (4, "é" * 100))
    )
    pieces = handwritten_broker.encode_produce(refused_batch(errors, "two of them"), version, 5, name_of)
    assert pieces is not None
    theirs = TheirProduceResponse.decode(b"".join(pieces)[9 if version >= 9 else 8 :], version=version)
    line = theirs.responses[0].partition_responses[0]
    assert [(e.batch_index, e.batch_index_error_message) for e in line.record_errors] == [
        (3, "no key"), (70_000, None), (4, "é" * 100),
    ]  # fmt: skip
    assert line.error_message == "two of them"


def refused_batch(
    errors: tuple[produce.BatchIndexAndErrorMessage, ...], message: str | None
) -> produce.ProduceResponse:
    line = produce.PartitionProduceResponse(
        index=1, error_code=ErrorCode.invalid_record, base_offset=-1, record_errors=errors, error_message=message
    )
    topic = produce.TopicProduceResponse(topic_id=TOPIC, partition_responses=(line,))
    return produce.ProduceResponse(responses=(topic,), throttle_time=ms(0))


@pytest.mark.parametrize("version", [4, 9, 10, 11, 12, 16])
def test_kafka_python_reads_a_handwritten_fetch_response(version: int) -> None:
    pieces = handwritten_broker.encode_fetch(fetched(b"records" * 1000), version, 5, name_of)
    assert pieces is not None
    body = b"".join(pieces)[9 if version >= 12 else 8 :]
    theirs = TheirFetchResponse.decode(body, version=version)
    topic = theirs.responses[0]
    assert (topic.topic_id if version >= 13 else topic.topic) == (TOPIC if version >= 13 else "t")
    line = topic.partitions[0]
    assert (line.partition_index, line.high_watermark, bytes(line.records)) == (1, 9, b"records" * 1000)


@pytest.mark.parametrize("version", [3, 5, 8, 9, 11, 12])
def test_kafka_python_reads_a_handwritten_produce_response(version: int) -> None:
    pieces = handwritten_broker.encode_produce(produced(), version, 5, name_of)
    assert pieces is not None
    theirs = TheirProduceResponse.decode(b"".join(pieces)[9 if version >= 9 else 8 :], version=version)
    line = theirs.responses[0].partition_responses[0]
    assert (theirs.responses[0].name, line.index, line.base_offset, line.log_append_time_ms) == ("t", 1, 7, -1)


# --- requests ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [3, 7, 8, 9, 12])
def test_kafka_pythons_produce_requests_reach_the_node(version: int) -> None:
    Topic, Data = TheirProduce.TopicProduceData, TheirProduce.TopicProduceData.PartitionProduceData  # noqa: N806
    theirs = TheirProduce(
        transactional_id=None, acks=-1, timeout_ms=500, topic_data=[Topic(name="t", partition_data=[Data(3, b"xyz")])]
    )
    theirs.with_header(correlation_id=5, client_id="kp")
    request = make_translator().receive(bytes(theirs.encode(version=version, header=True))).request
    data = (produce.PartitionProduceData(index=3, records=b"xyz"),)
    topic = produce.TopicProduceData(topic_id=TOPIC, partition_data=data)
    assert request == produce.ProduceRequest(acks=-1, timeout=ms(500), topic_data=(topic,))


@pytest.mark.parametrize("version", [4, 6, 7, 9, 11, 12])
def test_kafka_pythons_fetch_requests_reach_the_node(version: int) -> None:
    Topic, Part = TheirFetch.FetchTopic, TheirFetch.FetchTopic.FetchPartition  # noqa: N806
    part = Part(
        partition=2,
        current_leader_epoch=6,
        fetch_offset=44,
        last_fetched_epoch=5,
        log_start_offset=3,
        partition_max_bytes=1000,
    )
    theirs = TheirFetch(max_wait_ms=500, min_bytes=1, max_bytes=5000, topics=[Topic(topic="t", partitions=[part])])
    theirs.with_header(correlation_id=5, client_id="kp")
    request = make_translator().receive(bytes(theirs.encode(version=version, header=True))).request
    assert (request.max_wait, request.min_bytes, request.max_bytes, request.session_epoch) == (ms(500), 1, 5000, -1)
    assert request.topics[0].topic_id == TOPIC
    assert request.topics[0].partitions[0] == fetch.FetchPartition(
        partition=2,
        current_leader_epoch=6 if version >= 9 else -1,
        fetch_offset=44,
        last_fetched_epoch=5 if version >= 12 else -1,
        log_start_offset=3 if version >= 5 else -1,
        partition_max_bytes=1000,
    )
