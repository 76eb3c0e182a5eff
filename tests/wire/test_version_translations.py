"""Differences between versions beyond added fields, API by API."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from kio.schema.delete_topics.v5.request import DeleteTopicsRequest as DeleteTopicsV5
from kio.schema.fetch.v4.request import FetchRequest as FetchV4
from kio.schema.fetch.v4.request import FetchTopic as FetchTopicV4
from kio.schema.fetch.v11 import request as fetch11
from kio.schema.fetch.v15.request import FetchRequest as FetchV15
from kio.schema.find_coordinator.v0.request import FindCoordinatorRequest as FindV0
from kio.schema.find_coordinator.v3.request import FindCoordinatorRequest as FindV3
from kio.schema.init_producer_id.v3.request import InitProducerIdRequest as InitV3
from kio.schema.join_group.v0.request import JoinGroupRequest as JoinV0
from kio.schema.leave_group.v2.request import LeaveGroupRequest as LeaveV2
from kio.schema.list_offsets.v4 import request as list4
from kio.schema.list_offsets.v7 import request as list7
from kio.schema.list_offsets.v10 import request as list10
from kio.schema.list_offsets.v11 import request as list11
from kio.schema.metadata.v0.request import MetadataRequest as MetadataV0
from kio.schema.metadata.v1.request import MetadataRequest as MetadataV1
from kio.schema.metadata.v10.request import MetadataRequest as MetadataV10
from kio.schema.offset_fetch.v1 import request as offset_fetch1
from kio.schema.offset_fetch.v7 import request as offset_fetch7
from kio.schema.produce.v5 import request as produce5
from kio.schema.produce.v8 import request as produce8
from kio.schema.update_features.v1 import request as features1

from insync.wire import batch, codec
from insync.wire.batch import NewRecord
from insync.wire.errors import ErrorCode
from insync.wire.messages import (
    api_versions,
    fetch,
    find_coordinator,
    init_producer_id,
    leave_group,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    produce,
    update_features,
)
from insync.wire.types import NO_DURATION, ms
from tests.wire.translator_harness import OTHER, TOPIC, Names, make_translator, read_answer, received

ZSTD = bytes(batch.build([NewRecord(None, b"v")], timestamp_ms=1, compression="zstd"))
PLAIN = bytes(batch.build([NewRecord(None, b"v")], timestamp_ms=1))


# --- Produce ----------------------------------------------------------------------------------------------------------


def produce_of(module: Any, topics: dict[str, dict[int, bytes]], acks: int = 1) -> Any:
    data = tuple(
        module.TopicProduceData(
            name=name,
            partition_data=tuple(module.PartitionProduceData(index=i, records=r) for i, r in partitions.items()),
        )
        for name, partitions in topics.items()
    )
    return module.ProduceRequest(acks=acks, timeout=ms(100), topic_data=data)


def produced(topic_id: UUID | None, index: int, error: ErrorCode = ErrorCode.none) -> produce.ProduceResponse:
    line = produce.PartitionProduceResponse(index=index, error_code=error, base_offset=5, record_errors=())
    topic = produce.TopicProduceResponse(topic_id=topic_id, partition_responses=(line,))
    return produce.ProduceResponse(responses=(topic,), throttle_time=NO_DURATION)


def lines(answer: Any) -> dict[tuple[str, int], ErrorCode]:
    return {
        (topic.name, line.index): line.error_code for topic in answer.responses for line in topic.partition_responses
    }


def test_topic_names_become_ids_in_requests_and_names_again_in_responses() -> None:
    translator = make_translator()
    context = received(translator, produce_of(produce8, {"t": {4: PLAIN}}))
    topic = context.request.topic_data[0]
    assert (topic.topic_id, topic.partition_data[0].index, topic.partition_data[0].records) == (TOPIC, 4, PLAIN)
    assert lines(read_answer(context, translator.encode_response(context, produced(TOPIC, 4)))) == {
        ("t", 4): ErrorCode.none
    }


def test_unknown_names_do_not_reach_the_node_and_are_refused_in_the_same_response() -> None:
    translator = make_translator()
    context = received(translator, produce_of(produce8, {"t": {4: PLAIN}, "nowhere": {0: PLAIN, 1: PLAIN}}))
    assert [topic.topic_id for topic in context.request.topic_data] == [TOPIC]
    unknown = ErrorCode.unknown_topic_or_partition
    assert lines(read_answer(context, translator.encode_response(context, produced(TOPIC, 4)))) == {
        ("t", 4): ErrorCode.none,
        ("nowhere", 0): unknown,
        ("nowhere", 1): unknown,
    }


def test_a_topic_deleted_meanwhile_is_refused_by_name_with_an_error_of_that_version() -> None:
    names = Names()
    translator = make_translator(names)
    context = received(translator, produce_of(produce8, {"t": {4: PLAIN}}))
    names.ids.clear()
    answer = read_answer(context, translator.encode_response(context, produced(TOPIC, 4, ErrorCode.unknown_topic_id)))
    assert lines(answer) == {("t", 4): ErrorCode.unknown_topic_or_partition}


def test_zstd_is_refused_before_version_7() -> None:
    """W12."""
    translator = make_translator()
    context = received(translator, produce_of(produce5, {"t": {0: ZSTD, 1: PLAIN}}))
    assert [data.index for data in context.request.topic_data[0].partition_data] == [1]
    answer = read_answer(context, translator.encode_response(context, produced(TOPIC, 1)))
    assert lines(answer) == {("t", 0): ErrorCode.unsupported_compression_type, ("t", 1): ErrorCode.none}
    assert received(translator, produce_of(produce8, {"t": {0: ZSTD}})).refused == []


# --- Fetch ------------------------------------------------------------------------------------------------------------


def fetch_of(*names: str, epoch: int = 0) -> Any:
    topics = tuple(
        fetch11.FetchTopic(
            topic=name, partitions=(fetch11.FetchPartition(partition=3, fetch_offset=8, partition_max_bytes=99),)
        )
        for name in names
    )
    forgotten = tuple(fetch11.ForgottenTopic(topic=name, partitions=(1,)) for name in ("other", "nowhere"))
    return fetch11.FetchRequest(
        replica_id=-1,
        max_wait=ms(500),
        min_bytes=10,
        session_epoch=epoch,
        topics=topics,
        forgotten_topics_data=forgotten,
    )


def fetched(records: bytes, error: ErrorCode = ErrorCode.none) -> fetch.FetchResponse:
    line = fetch.PartitionData(
        partition_index=3, error_code=error, high_watermark=9, aborted_transactions=None, records=records
    )
    topic = fetch.FetchableTopicResponse(topic_id=TOPIC, partitions=(line,))
    return fetch.FetchResponse(throttle_time=NO_DURATION, error_code=ErrorCode.none, responses=(topic,))


def test_a_fetch_by_names_is_served_outside_of_sessions() -> None:
    """W16: a session id of 0 in the answer is legal."""
    request = received(make_translator(), fetch_of("t")).request
    assert (request.session_epoch, request.min_bytes) == (-1, 10)
    assert [topic.topic_id for topic in request.topics] == [TOPIC]
    assert [topic.topic_id for topic in request.forgotten_topics_data] == [OTHER]
    assert received(make_translator(), fetch_of("t", epoch=7)).request.session_epoch == 7


def test_unknown_names_in_a_fetch_are_answered_at_once() -> None:
    translator = make_translator()
    context = received(translator, fetch_of("t", "nowhere"))
    assert context.request.min_bytes == 0
    answer = read_answer(context, translator.encode_response(context, fetched(PLAIN)))
    errors = {
        (topic.topic, line.partition_index): line.error_code for topic in answer.responses for line in topic.partitions
    }
    assert errors == {("t", 3): ErrorCode.none, ("nowhere", 3): ErrorCode.unknown_topic_or_partition}


@pytest.mark.parametrize(("version", "error"), [(4, ErrorCode.unsupported_compression_type), (11, ErrorCode.none)])
def test_zstd_is_not_sent_to_consumers_of_older_versions(version: int, error: ErrorCode) -> None:
    translator = make_translator()
    asked: Any = fetch_of("t")
    if version == 4:
        asked = FetchV4(replica_id=-1, max_wait=ms(1), min_bytes=1, topics=(FetchTopicV4(topic="t", partitions=()),))
    context = received(translator, asked)
    line = read_answer(context, translator.encode_response(context, fetched(ZSTD))).responses[0].partitions[0]
    assert (line.error_code, line.records) == (error, ZSTD if error is ErrorCode.none else b"")


def test_a_replica_id_of_an_older_version_has_no_epoch() -> None:
    asked = FetchV4(replica_id=5, max_wait=ms(1), min_bytes=1, topics=())
    assert received(make_translator(), asked).request.replica_state == fetch.ReplicaState(
        replica_id=5, replica_epoch=-1
    )
    newer = FetchV15(max_wait=ms(1), min_bytes=1, topics=(), forgotten_topics_data=())
    assert received(make_translator(), newer).request.replica_state == fetch.ReplicaState(
        replica_id=-1, replica_epoch=-1
    )


# --- ListOffsets, Metadata, administration ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "error"), [(list4, ErrorCode.leader_not_available), (list7, ErrorCode.offset_not_available)]
)
def test_an_unknown_high_watermark_is_an_error_that_the_version_has(module: Any, error: ErrorCode) -> None:
    """H4, W20: error 78 came with version 5."""
    assert offsets(module, -1, ErrorCode.offset_not_available).error_code is error


def test_special_timestamps_of_newer_versions_are_refused() -> None:
    assert offsets(list4, -3, ErrorCode.none).error_code is ErrorCode.unsupported_version
    assert offsets(list7, -4, ErrorCode.none).error_code is ErrorCode.unsupported_version
    assert offsets(list7, -9, ErrorCode.none).error_code is ErrorCode.unsupported_version
    assert offsets(list7, -3, ErrorCode.none).offset == 12
    assert offsets(list10, -6, ErrorCode.none).error_code is ErrorCode.unsupported_version
    assert offsets(list11, -6, ErrorCode.none).offset == 12


def offsets(module: Any, timestamp: int, error: ErrorCode) -> Any:
    part = module.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    topic = module.ListOffsetsTopic(name="t", partitions=(part,))
    translator = make_translator()
    timeout = {"timeout": ms(500)} if module.ListOffsetsRequest.__version__ >= 10 else {}
    context = received(
        translator, module.ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=(topic,), **timeout)
    )
    line = list_offsets.ListOffsetsPartitionResponse(partition_index=0, error_code=error, offset=12)
    response = list_offsets.ListOffsetsResponse(
        throttle_time=NO_DURATION, topics=(list_offsets.ListOffsetsTopicResponse(name="t", partitions=(line,)),)
    )
    return read_answer(context, translator.encode_response(context, response)).topics[0].partitions[0]


@pytest.mark.parametrize(("requested", "operations"), [(True, 0b1_1111_1010_0000), (False, -(2**31))])
def test_older_metadata_responses_have_the_authorized_operations_of_the_cluster(
    requested: bool, operations: int
) -> None:
    translator = make_translator()
    asked = MetadataV10(
        topics=(),
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=requested,
        include_topic_authorized_operations=False,
    )
    answer = metadata.MetadataResponse(
        throttle_time=NO_DURATION, brokers=(), cluster_id="c", controller_id=1, topics=(), error_code=ErrorCode.none
    )
    context = received(translator, asked)
    assert read_answer(context, translator.encode_response(context, answer)).cluster_authorized_operations == operations


def test_an_empty_metadata_request_means_all_topics_in_version_0_and_none_later() -> None:
    """W9."""
    assert received(make_translator(), MetadataV0(topics=())).request.topics is None
    assert received(make_translator(), MetadataV1(topics=())).request.topics == ()
    assert received(make_translator(), MetadataV1(topics=None)).request.topics is None
    assert received(make_translator(), MetadataV1(topics=None)).request.allow_auto_topic_creation is True


def test_topics_to_delete_by_name() -> None:
    request = received(make_translator(), DeleteTopicsV5(topic_names=("a", "b"), timeout=ms(1))).request
    assert [(topic.name, topic.topic_id) for topic in request.topics] == [("a", None), ("b", None)]


def test_a_fenced_producer_gets_an_error_that_the_version_has() -> None:
    translator = make_translator()
    context = received(translator, InitV3(transactional_id=None, transaction_timeout=ms(1)))
    response = init_producer_id.InitProducerIdResponse(
        throttle_time=NO_DURATION, error_code=ErrorCode.producer_fenced, producer_epoch=0
    )
    assert translator.downgrade(context, response).error_code is ErrorCode.invalid_producer_epoch


@pytest.mark.parametrize(("error", "results"), [(ErrorCode.none, ["a", "b"]), (ErrorCode.invalid_request, [])])
def test_features_have_results_of_their_own_if_the_update_succeeds(error: ErrorCode, results: list[str]) -> None:
    """As in Kafka: a client of an old version that finds the error of the request looks no further."""
    translator = make_translator()
    updates = tuple(features1.FeatureUpdateKey(feature=name, max_version_level=1) for name in ("a", "b"))
    context = received(translator, features1.UpdateFeaturesRequest(feature_updates=updates))
    response = update_features.UpdateFeaturesResponse(throttle_time=NO_DURATION, error_code=error, error_message=None)
    downgraded = translator.downgrade(context, response)
    assert downgraded.error_code is error
    assert [result.feature for result in downgraded.results] == results


def test_api_versions_responses_follow_the_table_of_the_node() -> None:
    translator = make_translator()
    context = received(
        translator, api_versions.ApiVersionsRequest(client_software_name="c", client_software_version="1")
    )
    for high in (3, 3, 4):
        line = api_versions.ApiVersion(api_key=1, min_version=0, max_version=high)
        response = api_versions.ApiVersionsResponse(
            error_code=ErrorCode.none, api_keys=(line,), throttle_time=NO_DURATION
        )
        assert read_answer(context, translator.encode_response(context, response)) == response


# --- groups -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", [FindV0(key="g"), FindV3(key="g", key_type=0)])
def test_a_find_coordinator_for_one_group_is_a_batch_of_one(asked: Any) -> None:
    translator = make_translator()
    context = received(translator, asked)
    assert (context.request.coordinator_keys, context.request.key_type) == (("g",), 0)
    coordinator = find_coordinator.Coordinator(
        key="g", node_id=2, host="h", port=9, error_code=ErrorCode.none, error_message=None
    )
    response = find_coordinator.FindCoordinatorResponse(throttle_time=NO_DURATION, coordinators=(coordinator,))
    answer = read_answer(context, translator.encode_response(context, response))
    assert (answer.node_id, answer.host, answer.port, answer.error_code) == (2, "h", 9, ErrorCode.none)


def offset_answer(error: ErrorCode) -> offset_fetch.OffsetFetchResponse:
    line = offset_fetch.OffsetFetchResponsePartitions(
        partition_index=1, committed_offset=44, metadata="m", error_code=ErrorCode.none
    )
    topics = (offset_fetch.OffsetFetchResponseTopics(name="t", partitions=(line,)),)
    group = offset_fetch.OffsetFetchResponseGroup(
        group_id="g", topics=topics if error is ErrorCode.none else (), error_code=error
    )
    return offset_fetch.OffsetFetchResponse(throttle_time=NO_DURATION, groups=(group,))


@pytest.mark.parametrize("module", [offset_fetch1, offset_fetch7])
def test_an_offset_fetch_for_one_group_is_a_batch_of_one(module: Any) -> None:
    translator = make_translator()
    topic = module.OffsetFetchRequestTopic(name="t", partition_indexes=(1,))
    context = received(translator, module.OffsetFetchRequest(group_id="g", topics=(topic,)))
    group = context.request.groups[0]
    assert (group.group_id, group.topics[0].name, group.topics[0].partition_indexes) == ("g", "t", (1,))
    answer = read_answer(context, translator.encode_response(context, offset_answer(ErrorCode.none)))
    assert answer.topics[0].partitions[0].committed_offset == 44


def test_null_topics_ask_for_all_offsets_of_a_group() -> None:
    request = received(make_translator(), offset_fetch7.OffsetFetchRequest(group_id="g", topics=None)).request
    assert request.groups[0].topics is None


def test_the_error_of_a_group_is_in_the_field_that_the_version_has() -> None:
    translator = make_translator()
    for module, where in ((offset_fetch1, "line"), (offset_fetch7, "top")):
        topic = module.OffsetFetchRequestTopic(name="t", partition_indexes=(1,))
        context = received(translator, module.OffsetFetchRequest(group_id="g", topics=(topic,)))
        answer = read_answer(context, translator.encode_response(context, offset_answer(ErrorCode.not_coordinator)))
        error = answer.error_code if where == "top" else answer.topics[0].partitions[0].error_code
        assert error is ErrorCode.not_coordinator


def test_a_join_of_version_0_has_one_timeout_for_both() -> None:
    asked = JoinV0(group_id="g", session_timeout=ms(7000), member_id="", protocol_type="consumer", protocols=())
    assert received(make_translator(), asked).request.rebalance_timeout == ms(7000)


def test_a_single_member_that_leaves_gets_its_own_error() -> None:
    translator = make_translator()
    context = received(translator, LeaveV2(group_id="g", member_id="m"))
    assert [member.member_id for member in context.request.members] == ["m"]
    member = leave_group.MemberResponse(member_id="m", group_instance_id=None, error_code=ErrorCode.unknown_member_id)
    response = leave_group.LeaveGroupResponse(throttle_time=NO_DURATION, error_code=ErrorCode.none, members=(member,))
    assert read_answer(context, translator.encode_response(context, response)).error_code is ErrorCode.unknown_member_id


# --- OffsetCommit -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [2, 3, 4])
def test_a_retention_time_that_only_old_versions_have_reaches_the_node(version: int) -> None:
    kind = codec.request_type(8, version)
    asked = kind(group_id="g", generation_id_or_member_epoch=-1, member_id="", retention_time=ms(77), topics=())
    request = received(make_translator(), asked).request
    assert isinstance(request, offset_commit.OffsetCommitRequest)
    assert request.retention_ms == 77  # type: ignore[attr-defined]


def test_versions_without_a_retention_time_have_none() -> None:
    kind = codec.request_type(8, 5)
    asked = kind(group_id="g", generation_id_or_member_epoch=-1, member_id="", topics=())
    assert type(received(make_translator(), asked).request) is offset_commit.OffsetCommitRequest
