"""DescribeLogDirs (35): the one log directory of this broker, and what each replica takes of it.

Leaves out: the size of the volume, which only the operating system knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from insync.replication.replica import Replica
from insync.sansio import Message
from insync.wire.errors import ErrorCode
from insync.wire.messages import describe_log_dirs as api
from insync.wire.types import NO_DURATION

if TYPE_CHECKING:
    from insync.node.broker_role import BrokerRole

KEY = 35
VERSIONS = (1, 4)


def handle(broker: BrokerRole, request: Message, token: int, now: int) -> None:
    topics: dict[str, list[Replica]] = {}
    for replica in broker.replicas.replicas.values():
        if _asked(request.topics, replica):
            topics.setdefault(replica.partition.topic, []).append(replica)
    result = api.DescribeLogDirsResult(
        error_code=ErrorCode.none,
        log_dir=broker.config.log_dir,
        topics=tuple(_topic(name, replicas) for name, replicas in sorted(topics.items())),
    )
    broker.out.reply(
        token,
        api.DescribeLogDirsResponse(throttle_time=NO_DURATION, error_code=ErrorCode.none, results=(result,)),
    )


def _asked(topics: Sequence[Message] | None, replica: Replica) -> bool:
    """Null asks for everything."""
    partition = replica.partition
    return topics is None or any(
        topic.topic == partition.topic and partition.index in topic.partitions for topic in topics
    )


def _topic(name: str, replicas: list[Replica]) -> Message:
    return api.DescribeLogDirsTopic(
        name=name,
        partitions=tuple(
            api.DescribeLogDirsPartition(
                partition_index=replica.partition.index,
                partition_size=replica.log.size_bytes,
                offset_lag=max(0, replica.log.hwm - replica.log.leo),
                is_future_key=False,
            )
            for replica in replicas
        ),
    )
