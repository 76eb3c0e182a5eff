"""Produce, fetch, offsets of records, producers and transactions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from insync.metadata import topic_names
from insync.node.access import Access
from insync.node.apis import transactions
from insync.node.authorization.checks import Entries, Narrowed, NodeFacts, Outcome, Refused, Rights, may_on_topic
from insync.node.authorization.errors import (
    CLUSTER_ERROR,
    CLUSTER_REFUSED,
    MESSAGES,
    TOPIC_ERROR,
    TOPIC_REFUSED,
    TRANSACTIONAL_ID_ERROR,
    TRANSACTIONAL_ID_REFUSED,
)
from insync.replication.fetch_session import INITIAL_EPOCH
from insync.sansio import HangUp
from insync.security.acl import Operation, ResourceType
from insync.wire.errors import ErrorCode
from insync.wire.messages import (
    delete_records,
    describe_producers,
    describe_transactions,
    fetch,
    init_producer_id,
    list_offsets,
    offset_for_leader_epoch,
    produce,
)
from insync.wire.types import METADATA_TOPIC_ID, NO_DURATION

ATTRIBUTES_AT, IS_TRANSACTIONAL = 22, 0x10
"""Where a batch says that it belongs to a transaction."""


def _check_produce(request: produce.ProduceRequest, access: Access, node: NodeFacts) -> Outcome:
    """As in Kafka an unknown topic id gets UNKNOWN_TOPIC_ID from everyone: ids are no secret, names are."""
    if _has_transactional_records(request) and not (
        request.transactional_id is not None
        and access.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
    ):
        return _refuse_produce(request, TRANSACTIONAL_ID_REFUSED)
    names = node.image.topics
    for topic in request.topic_data:
        name = names.get(topic.topic_id)  # type: ignore[arg-type]  # None is no key
        if name is not None and not access.may_on_topic(Operation.WRITE, name):
            return _narrow_produce(request, access, node)
    return None


def _has_transactional_records(request: produce.ProduceRequest) -> bool:
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records
            if records is not None and len(records) > ATTRIBUTES_AT and records[ATTRIBUTES_AT] & IS_TRANSACTIONAL:
                return True
    return False


def _refuse_produce(request: produce.ProduceRequest, error: ErrorCode) -> Refused:
    if request.acks == 0:
        return Refused(HangUp(-1, f"acks=0: {error.name}"))
    lines = tuple(_refused_produce_topic(topic, error) for topic in request.topic_data)
    return Refused(produce.ProduceResponse(responses=lines))


def _refused_produce_topic(topic: produce.TopicProduceData, error: ErrorCode) -> produce.TopicProduceResponse:
    return produce.TopicProduceResponse(
        topic_id=topic.topic_id,
        partition_responses=tuple(
            produce.PartitionProduceResponse(
                index=data.index, error_code=error, base_offset=-1, log_start_offset=-1, record_errors=()
            )
            for data in topic.partition_data
        ),
    )


def _narrow_produce(request: produce.ProduceRequest, access: Access, node: NodeFacts) -> Outcome:
    names = node.image.topics
    kept: list[produce.TopicProduceData] = []
    refused: list[produce.TopicProduceData] = []
    for topic in request.topic_data:
        name = names.get(topic.topic_id)  # type: ignore[arg-type]
        allowed = name is None or access.may_on_topic(Operation.WRITE, name, audited=False)
        (kept if allowed else refused).append(topic)
    if not kept:
        return _refuse_produce(request, TOPIC_REFUSED)
    lines = tuple(_refused_produce_topic(topic, TOPIC_REFUSED) for topic in refused)

    def complete(response: Any) -> Any:
        if request.acks == 0:  # P1: a producer that wants no response learns of a failure by its connection
            return HangUp(-1, f"acks=0: {TOPIC_REFUSED.name}")
        return response if response is None else replace(response, responses=(*response.responses, *lines))

    return Narrowed(replace(request, topic_data=tuple(kept)), complete)


def _check_fetch(request: fetch.FetchRequest, access: Access, node: NodeFacts) -> Outcome:
    """A4: whoever fetches as a replica moves high watermarks, and reads beyond them."""
    if _is_for_metadata_log(request):
        if access.may_on_cluster(Operation.CLUSTER_ACTION):
            return None
        return Refused(_refuse_fetch(CLUSTER_REFUSED))
    if request.replica_state.replica_id < 0 or access.may_on_cluster(Operation.CLUSTER_ACTION):
        return None
    if request.session_epoch > INITIAL_EPOCH:  # names what changed in a session, which is hidden with its topics
        return Refused(_refuse_fetch(ErrorCode.fetch_session_id_not_found))
    topics = tuple(
        fetch.FetchableTopicResponse(
            topic_id=topic.topic_id,
            partitions=tuple(_refused_fetch_line(line.partition) for line in topic.partitions),
        )
        for topic in request.topics
    )
    return Refused(_refuse_fetch(ErrorCode.none, topics))


def _refuse_fetch(error: ErrorCode, topics: tuple[fetch.FetchableTopicResponse, ...] = ()) -> fetch.FetchResponse:
    return fetch.FetchResponse(throttle_time=NO_DURATION, error_code=error, responses=topics)


def _is_for_metadata_log(request: fetch.FetchRequest) -> bool:
    return bool(request.topics) and request.topics[0].topic_id == METADATA_TOPIC_ID


def _refused_fetch_line(index: int) -> fetch.PartitionData:
    return fetch.PartitionData(
        partition_index=index, error_code=TOPIC_REFUSED, high_watermark=-1, aborted_transactions=(), records=b""
    )


_check_list_offsets = Entries(
    asked="topics",
    answered="topics",
    is_allowed=may_on_topic(Operation.DESCRIBE),
    refuse=lambda topic: list_offsets.ListOffsetsTopicResponse(
        name=topic.name,
        partitions=tuple(
            list_offsets.ListOffsetsPartitionResponse(partition_index=line.partition_index, error_code=TOPIC_REFUSED)
            for line in topic.partitions
        ),
    ),
    respond=lambda topics: list_offsets.ListOffsetsResponse(throttle_time=NO_DURATION, topics=topics),
)


def _check_offset_for_leader_epoch(
    request: offset_for_leader_epoch.OffsetForLeaderEpochRequest, access: Access, node: NodeFacts
) -> Outcome:
    is_for_nodes = request.replica_id >= 0 and not access.has_authorizer  # A4
    if access.may_on_cluster(Operation.CLUSTER_ACTION, audited=is_for_nodes):
        return None
    if is_for_nodes:
        return Refused(_respond_epochs(tuple(_refuse_epochs(topic, CLUSTER_REFUSED) for topic in request.topics)))
    return _check_epochs(request, access, node)


def _refuse_epochs(
    topic: offset_for_leader_epoch.OffsetForLeaderTopic, error: ErrorCode
) -> offset_for_leader_epoch.OffsetForLeaderTopicResult:
    return offset_for_leader_epoch.OffsetForLeaderTopicResult(
        topic=topic.topic,
        partitions=tuple(
            offset_for_leader_epoch.EpochEndOffset(error_code=error, partition=line.partition)
            for line in topic.partitions
        ),
    )


def _respond_epochs(
    topics: tuple[offset_for_leader_epoch.OffsetForLeaderTopicResult, ...],
) -> offset_for_leader_epoch.OffsetForLeaderEpochResponse:
    return offset_for_leader_epoch.OffsetForLeaderEpochResponse(throttle_time=NO_DURATION, topics=topics)


_check_epochs = Entries(
    asked="topics",
    answered="topics",
    is_allowed=may_on_topic(Operation.DESCRIBE, "topic"),
    refuse=lambda topic: _refuse_epochs(topic, TOPIC_REFUSED),
    respond=_respond_epochs,
)


_check_delete_records = Entries(
    asked="topics",
    answered="topics",
    is_allowed=may_on_topic(Operation.DELETE),
    refuse=lambda topic: delete_records.DeleteRecordsTopicResult(
        name=topic.name,
        partitions=tuple(
            delete_records.DeleteRecordsPartitionResult(
                partition_index=line.partition_index, low_watermark=-1, error_code=TOPIC_REFUSED
            )
            for line in topic.partitions
        ),
    ),
    respond=lambda topics: delete_records.DeleteRecordsResponse(throttle_time=NO_DURATION, topics=topics),
)


_check_describe_producers = Entries(
    asked="topics",
    answered="topics",
    is_allowed=lambda topic, access, node: (
        not topic_names.is_valid(topic.name) or access.may_on_topic(Operation.READ, topic.name)
    ),
    refuse=lambda topic: describe_producers.TopicResponse(
        name=topic.name,
        partitions=tuple(
            describe_producers.PartitionResponse(
                partition_index=index,
                error_code=TOPIC_REFUSED,
                error_message=MESSAGES[TOPIC_REFUSED],
                active_producers=(),
            )
            for index in topic.partition_indexes
        ),
    ),
    respond=lambda topics: describe_producers.DescribeProducersResponse(throttle_time=NO_DURATION, topics=topics),
)


def _check_init_producer_id(
    request: init_producer_id.InitProducerIdRequest, access: Access, node: NodeFacts
) -> Outcome:
    if request.transactional_id is not None:
        if access.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
            return None
        error = TRANSACTIONAL_ID_REFUSED
    elif access.may_on_any(Operation.WRITE, ResourceType.TOPIC) or access.may_on_cluster(Operation.IDEMPOTENT_WRITE):
        return None
    else:
        error = CLUSTER_REFUSED
    return Refused(
        init_producer_id.InitProducerIdResponse(
            throttle_time=NO_DURATION, error_code=error, producer_id=-1, producer_epoch=-1
        )
    )


_check_describe_transactions = Entries(
    asked="transactional_ids",
    answered="transaction_states",
    is_allowed=lambda name, access, node: access.may(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, name),
    refuse=lambda name: transactions.without_state(name, TRANSACTIONAL_ID_REFUSED),
    respond=lambda states: describe_transactions.DescribeTransactionsResponse(
        throttle_time=NO_DURATION, transaction_states=states
    ),
)


def _check_list_transactions(request: Any, access: Access, node: NodeFacts) -> Outcome:
    def complete(response: Any) -> Any:
        return response and replace(
            response,
            transaction_states=tuple(
                state
                for state in response.transaction_states
                if access.may(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, state.transactional_id, audited=False)
            ),
        )

    return Narrowed(request, complete)


PRODUCE = Rights(
    "WRITE on each topic; for records of a transaction WRITE on the transactional id",
    f"{TOPIC_ERROR} for the topic; {TRANSACTIONAL_ID_ERROR} for the request; acks=0: hang-up",
    _check_produce,
)
FETCH = Rights(
    "READ on each topic; as a replica, or of the metadata log, CLUSTER_ACTION on the cluster",
    f"{TOPIC_ERROR} for the topic; {CLUSTER_ERROR} for the metadata log",
    _check_fetch,
    lambda request: request.replica_state.replica_id >= 0 or _is_for_metadata_log(request),
)
LIST_OFFSETS = Rights("DESCRIBE on each topic", f"{TOPIC_ERROR} for the topic", _check_list_offsets)
OFFSET_FOR_LEADER_EPOCH = Rights(
    "CLUSTER_ACTION on the cluster, or DESCRIBE on each topic",
    f"{TOPIC_ERROR} for the topic",
    _check_offset_for_leader_epoch,
    lambda request: request.replica_id >= 0,
)
DELETE_RECORDS = Rights("DELETE on each topic", f"{TOPIC_ERROR} for the topic", _check_delete_records)
DESCRIBE_PRODUCERS = Rights("READ on each topic", f"{TOPIC_ERROR} for the topic", _check_describe_producers)
INIT_PRODUCER_ID = Rights(
    "IDEMPOTENT_WRITE on the cluster or WRITE on any topic; with a transactional id WRITE on it",
    f"{CLUSTER_ERROR}; {TRANSACTIONAL_ID_ERROR}",
    _check_init_producer_id,
)
DESCRIBE_TRANSACTIONS = Rights(
    "DESCRIBE on each transactional id", f"{TRANSACTIONAL_ID_ERROR} for the id", _check_describe_transactions
)
LIST_TRANSACTIONS = Rights("DESCRIBE on each transactional id", "the id is left out", _check_list_transactions)
