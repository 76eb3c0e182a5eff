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


def handle(broker: BrokerRole, request: Message, token: int, now: int) -> None:
    asked = None if request.topics is None else _by_topic(request.topics)
    topics: dict[str, list[Replica]] = {}
    for replica in broker.replicas.replicas.values():
        partition = replica.partition
        if asked is None or partition.index in asked.get(partition.topic, ()):
            topics.setdefault(partition.topic, []).append(replica)
    result = api.DescribeLogDirsResult(
        error_code=ErrorCode.none,
        log_dir=broker.config.log_dir,
        topics=tuple(_topic(name, replicas) for name, replicas in sorted(topics.items())),
    )
    broker.out.reply(
        token,
        api.DescribeLogDirsResponse(throttle_time=NO_DURATION, error_code=ErrorCode.none, results=(result,)),
    )


def _by_topic(topics: Sequence[Message]) -> dict[str, set[int]]:
    """A topic may be named more than once."""
    asked: dict[str, set[int]] = {}
    for topic in topics:
        asked.setdefault(topic.topic, set()).update(topic.partitions)
    return asked


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
