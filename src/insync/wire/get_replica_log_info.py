"""GetReplicaLogInfo v0 (KIP-966): the controller asks a replica how far its log goes, to choose after data loss (E6).

kio lacks this API, so its schema is defined here in kio's style, for kio's readers and writers.
(No `from __future__ import annotations`: kio reads the field types.)
"""

from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.static.primitive import i32, i32Timedelta, i64

from insync.wire.schema import entity, kafka, request, response

API_KEY = 93
MAX_PARTITIONS = 1000
"""In one response, which sets `truncated` if the request has more."""


@entity(version=0)
class TopicPartitions:
    topic_id: UUID | None = kafka("uuid")
    partitions: tuple[i32, ...] = kafka("int32")


@request(API_KEY)
class GetReplicaLogInfoRequest:
    topic_partitions: tuple[TopicPartitions, ...] | None


@entity(version=0)
class PartitionLogInfo:
    partition: i32 = kafka("int32")
    last_written_leader_epoch: i32 = kafka("int32")
    """The epoch of the log's last batch."""
    current_leader_epoch: i32 = kafka("int32")
    """The newest leader epoch of the partition that this broker knows."""
    log_end_offset: i64 = kafka("int64")
    error_code: ErrorCode = kafka("error_code")


@entity(version=0)
class TopicPartitionLogInfo:
    topic_id: UUID | None = kafka("uuid")
    partition_log_info: tuple[PartitionLogInfo, ...]


@response(API_KEY)
class GetReplicaLogInfoResponse:
    throttle_time: i32Timedelta = kafka("timedelta_i32")
    broker_epoch: i64 = kafka("int64")
    truncated: bool = kafka("bool")
    topic_partition_log_info_list: tuple[TopicPartitionLogInfo, ...]
