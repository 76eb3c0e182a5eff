"""ListOffsets (2): the first and last offsets, and those of a time (H4)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from insync.node.parts import Parts
from insync.replication import offsets
from insync.replication.offsets import EARLIEST, EARLIEST_LOCAL, LATEST
from insync.sansio import Message
from insync.wire.errors import ErrorCode
from insync.wire.messages import list_offsets as api

if TYPE_CHECKING:
    from insync.node.broker_role import BrokerRole

KEY = 2

SEARCH_WEIGHT = 10
"""A timestamp is looked for in indexes and segments."""


def _weigh(asked: Message) -> int:
    return 1 if asked.timestamp in (LATEST, EARLIEST, EARLIEST_LOCAL) else SEARCH_WEIGHT


def _refuse_repeated(answer: Message) -> Message:
    """A partition that several parts asked for is refused, as it is within one part."""
    topics: dict[str, dict[int, Message]] = {}
    for topic in answer.topics:
        lines = topics.setdefault(topic.name, {})
        for line in topic.partitions:
            index = line.partition_index
            lines[index] = offsets.without_offset(index, ErrorCode.invalid_request) if index in lines else line
    return replace(
        answer,
        topics=tuple(
            api.ListOffsetsTopicResponse(name=name, partitions=tuple(lines.values())) for name, lines in topics.items()
        ),
    )


PARTS = Parts(
    asked=("topics", "partitions"),
    answered=("topics", "partitions"),
    keys=("name",),
    limit=500,
    weigh=_weigh,
    finish=_refuse_repeated,
)


def handle(broker: BrokerRole, request: Message, token: int, now: int) -> None:
    broker.replicas.list_offsets(request, token, now)
