"""DescribeLogDirs: this broker's one log directory, and the size of each replica in it.

Not included: the size of the volume, which only the operating system knows.
"""

from __future__ import annotations

from collections.abc import Sequence

from insync.node.broker_role import BrokerRole
from insync.replication.replica import Replica
from insync.sansio import Request
from insync.wire.errors import ErrorCode
from insync.wire.messages import describe_log_dirs as api
from insync.wire.types import NO_DURATION


def handle(broker: BrokerRole, event: Request, now: int) -> None:
    request: api.DescribeLogDirsRequest = event.request
    asked = None if request.topics is None else _indexes_by_topic(request.topics)
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
    answer = api.DescribeLogDirsResponse(throttle_time=NO_DURATION, error_code=ErrorCode.none, results=(result,))
    broker.out.reply(event.token, answer)


def _indexes_by_topic(topics: Sequence[api.DescribableLogDirTopic]) -> dict[str, set[int]]:
    """A topic may be named more than once."""
    indexes: dict[str, set[int]] = {}
    for topic in topics:
        indexes.setdefault(topic.topic, set()).update(topic.partitions)
    return indexes


def _topic(name: str, replicas: list[Replica]) -> api.DescribeLogDirsTopic:
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
