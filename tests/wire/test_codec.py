"""Frames of requests and responses: round trips of every pinned message, kafka-python's bytes, and malformed input."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kafka.protocol.admin import CreateTopicsRequest as TheirCreateTopics
from kafka.protocol.metadata import MetadataResponse as TheirMetadata
from kio.index import load_request_schema
from kio.schema.create_topics.v2.request import CreateTopicsRequest as CreateTopicsV2
from kio.schema.update_raft_voter.v0.response import UpdateRaftVoterResponse
from kio.static.constants import EntityType
from kio.static.primitive import Records

from insync.wire import bounds_check, codec, entities, messages
from insync.wire.apis import APIS
from insync.wire.errors import ErrorCode, MalformedFrameError, UnknownApiError
from insync.wire.messages import (
    api_versions,
    create_topics,
    describe_topic_partitions,
    envelope,
    fetch,
    get_replica_log_info,
    list_offsets,
    metadata,
    produce,
)
from insync.wire.types import NO_DURATION, instant, ms

NAMESPACES = [messages.message_classes(api) for api in APIS.values()]
TOPIC = UUID("11111111-2222-3333-4444-555555555555")


def classes(kind: EntityType) -> list[Any]:
    return [cls for names in NAMESPACES for cls in names.values() if cls.__type__ is kind]


st.register_type_strategy(Records, st.binary(max_size=50))

REQUESTS = classes(EntityType.request)
RESPONSES = classes(EntityType.response)


def name_of(cls: type[Any]) -> str:
    return cls.__name__


def test_each_api_has_one_request_and_its_response() -> None:
    assert len(REQUESTS) == len(RESPONSES) == len(APIS)
    for request, response in zip(REQUESTS, RESPONSES, strict=True):
        assert codec.request_type(request.__api_key__, request.__version__) is request
        assert codec.response_type_of(request) is response


@pytest.mark.slow
@pytest.mark.parametrize("cls", REQUESTS, ids=name_of)
@settings(max_examples=8, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_request_survives_its_frame(cls: Any, data: st.DataObject) -> None:
    message = data.draw(st.from_type(cls))
    frame = codec.encode_request(message, 42, "me")
    header, decoded = codec.decode_request(frame)
    assert (header.api_key, header.api_version) == (cls.__api_key__, cls.__version__)
    assert (header.correlation_id, header.client_id) == (42, "me")
    assert codec.encode_request(decoded, 42, "me") == frame


@pytest.mark.slow
@pytest.mark.parametrize("cls", RESPONSES, ids=name_of)
@settings(max_examples=8, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_response_survives_its_frame(cls: Any, data: st.DataObject) -> None:
    message = data.draw(st.from_type(cls))
    request = codec.request_type(cls.__api_key__, cls.__version__)
    frame = codec.encode_response(message, -7)
    assert codec.read_correlation_id(frame) == -7
    correlation_id, decoded = codec.decode_response(frame, request)
    assert correlation_id == -7
    assert codec.encode_response(decoded, -7) == frame


def test_get_replica_log_info_has_the_bytes_of_kafkas_schema() -> None:
    """E6: API 93 is not in kio, so its bytes are spelled out here, field by field."""
    request = get_replica_log_info.GetReplicaLogInfoRequest(
        topic_partitions=(get_replica_log_info.TopicPartitions(topic_id=TOPIC, partitions=(0, 258)),)
    )
    head = "005d00000000000900016300"
    body = "02" + TOPIC.hex + "0300000000000001020000"
    assert codec.encode_request(request, 9, "c").hex() == head + body
    assert codec.decode_request(bytes.fromhex(head + body))[1] == request

    info = get_replica_log_info.PartitionLogInfo(
        partition=1,
        last_written_leader_epoch=2,
        current_leader_epoch=3,
        log_end_offset=4,
        error_code=ErrorCode.unknown_topic_id,
    )
    topic = get_replica_log_info.TopicPartitionLogInfo(topic_id=TOPIC, partition_log_info=(info,))
    response = get_replica_log_info.GetReplicaLogInfoResponse(
        throttle_time=ms(6), broker_epoch=7, truncated=True, topic_partition_log_info_list=(topic,)
    )
    frame = (
        "00000009000000000600000000000000070102" + TOPIC.hex + "0200000001000000020000000300000000000000040064000000"
    )
    assert codec.encode_response(response, 9).hex() == frame
    assert codec.decode_response(bytes.fromhex(frame), type(request)) == (9, response)


def test_we_read_kafka_pythons_requests() -> None:
    theirs = TheirCreateTopics(
        topics=[TheirCreateTopics.CreatableTopic("t", 3, 2, [], [("retention.ms", "5")])],
        timeout_ms=30_000,
        validate_only=True,
    )
    theirs.with_header(correlation_id=5, client_id="kp")
    header, ours = codec.decode_request(bytes(theirs.encode(version=7, header=True)))
    assert (header.api_key, header.api_version, header.correlation_id, header.client_id) == (19, 7, 5, "kp")
    assert (ours.topics[0].name, ours.topics[0].num_partitions, ours.timeout) == ("t", 3, ms(30_000))
    assert (ours.topics[0].configs[0].value, ours.validate_only) == ("5", True)


def test_kafka_python_reads_our_responses() -> None:
    partition = metadata.MetadataResponsePartition(
        error_code=ErrorCode.none,
        partition_index=0,
        leader_id=1,
        leader_epoch=4,
        replica_nodes=(1, 2),
        isr_nodes=(1,),
        offline_replicas=(),
    )
    topic = metadata.MetadataResponseTopic(
        error_code=ErrorCode.none, name="t", topic_id=TOPIC, is_internal=False, partitions=(partition,)
    )
    ours = metadata.MetadataResponse(
        throttle_time=NO_DURATION,
        brokers=(metadata.MetadataResponseBroker(node_id=1, host="h", port=9092, rack=None),),
        cluster_id="c",
        controller_id=1,
        topics=(topic,),
        error_code=ErrorCode.none,
    )
    theirs = TheirMetadata.decode(entities.encode(ours), version=13)
    assert theirs.cluster_id == "c"
    assert theirs.topics[0].topic_id == TOPIC
    assert (theirs.topics[0].partitions[0].leader_epoch, theirs.topics[0].partitions[0].replica_nodes) == (4, [1, 2])


def test_the_answer_to_api_versions_has_the_oldest_header() -> None:
    """Clients ask before they know our versions; the header of a flexible version would have a byte of tags."""
    answer = api_versions.ApiVersionsResponse(
        error_code=ErrorCode.none, api_keys=(), throttle_time=NO_DURATION, supported_features=(), finalized_features=()
    )
    assert codec.encode_response(answer, 3)[4:6] == b"\x00\x00"


def test_an_append_time_keeps_its_milliseconds() -> None:
    partition = produce.PartitionProduceResponse(
        index=0,
        error_code=ErrorCode.none,
        base_offset=3,
        log_append_time=instant(1_700_000_000_123),
        log_start_offset=0,
        record_errors=(),
        error_message=None,
    )
    body = entities.encode(partition)
    assert (1_700_000_000_123).to_bytes(8, "big") in body
    assert entities.decode(produce.PartitionProduceResponse, body) == partition


# --- tagged fields from the future ------------------------------------------------------------------------------------

UNKNOWN_TAG = b"\x01" + b"\x63" + b"\x03" + b"abc"  # one tagged field, number 99, three bytes


def test_an_unknown_tag_at_the_end_is_skipped() -> None:
    message = create_topics.CreateTopicsRequest(topics=(), timeout=ms(5), validate_only=True)
    plain = entities.encode(message)
    assert entities.decode(create_topics.CreateTopicsRequest, plain[:-1] + UNKNOWN_TAG) == message


def test_unknown_tags_are_skipped_in_items_of_arrays_and_in_nullable_structs() -> None:
    topics = (describe_topic_partitions.TopicRequest(name="aa"), describe_topic_partitions.TopicRequest(name="bb"))
    cursor = describe_topic_partitions.RequestCursor(topic_name="cc", partition_index=1)
    message = describe_topic_partitions.DescribeTopicPartitionsRequest(topics=topics, cursor=cursor)
    plain = entities.encode(message)
    for name, tail in ((b"aa", b""), (b"bb", b""), (b"cc", b"\x00\x00\x00\x01")):
        piece = name + tail
        assert plain.count(piece + b"\x00") == 1
        tagged = plain.replace(piece + b"\x00", piece + UNKNOWN_TAG)
        assert entities.decode(type(message), tagged) == message


def test_known_tags_keep_their_values_beside_unknown_ones() -> None:
    """Fetch's replica state is a tagged struct: an unknown tag inside it, and one beside it."""
    message = fetch_request()
    plain = entities.encode(message)
    state = b"\x00\x00\x00\x02" + (5).to_bytes(8, "big") + b"\x00"
    assert plain.endswith(b"\x01" + b"\x01\x0d" + state)
    inside = plain[: -len(state) - 2] + b"\x01" + bytes([len(state) + len(UNKNOWN_TAG) - 1]) + state[:-1] + UNKNOWN_TAG
    beside = plain[: -len(state) - 3] + b"\x02" + b"\x01\x0d" + state + b"\x63\x03abc"
    assert entities.decode(fetch.FetchRequest, inside) == message
    assert entities.decode(fetch.FetchRequest, beside) == message


def test_a_tagged_struct_that_is_absent_beside_an_unknown_tag_is_the_default_one() -> None:
    absent = bytes(6)
    message = entities.decode(UpdateRaftVoterResponse, absent + b"\x00")
    assert entities.decode(UpdateRaftVoterResponse, absent + UNKNOWN_TAG) == message


def test_tags_in_a_request_header_are_skipped() -> None:
    frame = codec.encode_request(fetch_request(), 1, "c")
    body = entities.encode(fetch_request())
    tagged = frame[: -len(body) - 1] + UNKNOWN_TAG + body
    assert codec.decode_request(tagged)[1] == fetch_request()


def fetch_request() -> Any:
    partition = fetch.FetchPartition(partition=0, fetch_offset=3, partition_max_bytes=5)
    return fetch.FetchRequest(
        replica_state=fetch.ReplicaState(replica_id=2, replica_epoch=5),
        max_wait=ms(500),
        min_bytes=1,
        topics=(fetch.FetchTopic(topic_id=TOPIC, partitions=(partition,)),),
        forgotten_topics_data=(),
    )


# --- abuse ------------------------------------------------------------------------------------------------------------


@given(st.data())
def test_damaged_frames_are_malformed_or_a_request_that_can_be_encoded(data: st.DataObject) -> None:
    """kio alone would abort the process on some of these."""
    frame = bytearray(codec.encode_request(fetch_request(), 1, "c"))
    for _ in range(data.draw(st.integers(1, 3))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(frame)))
    for damaged in (bytes(frame), bytes(frame[:cut]), bytes(frame) + b"\x00"):
        try:
            header, request = codec.decode_request(damaged)
        except MalformedFrameError:
            continue
        encoded = codec.encode_request(request, header.correlation_id, header.client_id)
        assert codec.decode_request(encoded) == (header, request)


@pytest.mark.parametrize("count", [b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\xff\xff\x01", b"\x40"])
def test_an_array_cannot_claim_more_than_the_frame_holds(count: bytes) -> None:
    with pytest.raises(MalformedFrameError):
        entities.decode(create_topics.CreateTopicsRequest, count + bytes(10))


def test_the_entries_of_a_request_are_limited_over_all_its_arrays() -> None:
    """An entry has a few bytes on the wire and some hundred in memory."""
    topics = bounds_check.MAX_ENTRIES // 10

    def frame(partitions: int) -> bytes:
        asked = tuple(
            list_offsets.ListOffsetsPartition(partition_index=i, current_leader_epoch=-1, timestamp=-1)
            for i in range(partitions)
        )
        topic = list_offsets.ListOffsetsTopic(name="t", partitions=asked)
        return entities.encode(
            list_offsets.ListOffsetsRequest(
                replica_id=-1, isolation_level=0, topics=(topic,) * topics, timeout=NO_DURATION
            )
        )

    assert len(entities.decode(list_offsets.ListOffsetsRequest, frame(8)).topics) == topics
    with pytest.raises(MalformedFrameError, match="entries"):
        entities.decode(list_offsets.ListOffsetsRequest, frame(10))


def test_an_answer_may_have_as_many_entries_as_it_needs() -> None:
    lines = tuple(
        list_offsets.ListOffsetsTopicResponse(name="t", partitions=()) for _ in range(bounds_check.MAX_ENTRIES + 1)
    )
    answer = list_offsets.ListOffsetsResponse(throttle_time=NO_DURATION, topics=lines)
    assert len(entities.decode(type(answer), entities.encode(answer)).topics) == len(lines)


def test_tags_count_as_entries() -> None:
    tags = b"\xff\xff\x7f" + b"\x63\x00" * 0x1FFFFF
    body = entities.encode(api_versions.ApiVersionsRequest(client_software_name="a", client_software_version="b"))
    with pytest.raises(MalformedFrameError, match="entries"):
        entities.decode(api_versions.ApiVersionsRequest, body[:-1] + tags)


def test_a_header_has_few_tags() -> None:
    frame = codec.encode_request(fetch_request(), 1, "c")
    body = entities.encode(fetch_request())
    many = b"\xff\xff\x03" + b"\x63\x00" * 0xFFFF
    with pytest.raises(MalformedFrameError, match="tags"):
        codec.decode_request(frame[: -len(body) - 1] + many + body)


@pytest.mark.parametrize(
    ("cls", "null"), [(create_topics.CreateTopicsRequest, b"\x00"), (CreateTopicsV2, b"\xff\xff\xff\xff")]
)
def test_null_is_refused_where_the_schema_allows_none(cls: Any, null: bytes) -> None:
    """A handler that iterates the topics must never be handed None."""
    with pytest.raises(MalformedFrameError, match="null"):
        entities.decode(cls, null + b"\x00\x00\x00\x01\x00" + b"\x00" * cls.__flexible__)


@pytest.mark.parametrize(("key", "version"), [(93, 1), (1, 99), (12345, 0), (-1, 0)])
def test_unknown_apis_and_versions_are_named_in_the_error(key: int, version: int) -> None:
    frame = key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big") + b"\x00\x00\x00\x07\xff\xff"
    assert codec.read_request_header(frame)[0] == codec.RequestHeader(key, version, 7, None)
    with pytest.raises(UnknownApiError) as raised:
        codec.decode_request(frame)
    assert (raised.value.key, raised.value.version) == (key, version)


def test_an_undecodable_client_id_does_not_end_the_connection() -> None:
    frame = codec.encode_request(fetch_request(), 1, "ab").replace(b"ab", b"\xff\xfe", 1)
    assert codec.decode_request(frame)[0].client_id == "\ufffd\ufffd"


@pytest.mark.parametrize("frame", [b"", b"\x00\x01", b"\x00\x01\x00\x11\x00\x00\x00\x01\x00\x05ab"])
def test_frames_too_short_for_their_header_are_malformed(frame: bytes) -> None:
    with pytest.raises(MalformedFrameError):
        codec.decode_request(frame)
    with pytest.raises(MalformedFrameError):
        codec.decode_response(frame[:3], fetch.FetchRequest)


def test_an_envelope_is_kafkas_and_names_the_version_of_the_clients_request() -> None:
    """KIP-590: Kafka skips the tag, and its own envelopes do not have it."""
    fields: dict[str, Any] = {"request_data": b"r", "request_principal": b"p", "client_host_address": b"\x7f\0\0\x01"}
    theirs = load_request_schema(58, 0)
    plain = entities.encode(theirs(**fields))
    assert entities.encode(envelope.EnvelopeRequest(**fields)) == plain
    assert entities.decode(envelope.EnvelopeRequest, plain) == envelope.EnvelopeRequest(**fields)
    tagged = entities.encode(envelope.EnvelopeRequest(**fields, client_version=4))
    assert tagged == plain[:-1] + bytes.fromhex("01904e020004")
    assert entities.decode(theirs, tagged) == theirs(**fields)
    assert entities.decode(envelope.EnvelopeRequest, tagged).client_version == 4
