"""How a ListOffsets request is divided. `replication.offsets` answers it (H4)."""

from __future__ import annotations

from dataclasses import replace

from insync.node.parts import Parts
from insync.replication import offsets
from insync.replication.offsets import EARLIEST, EARLIEST_LOCAL, LATEST
from insync.wire.errors import ErrorCode
from insync.wire.messages import list_offsets as api

SEARCH_WEIGHT = 10
"""Searching for a timestamp reads indexes and segments."""


def _weigh(asked: api.ListOffsetsPartition) -> int:
    return 1 if asked.timestamp in (LATEST, EARLIEST, EARLIEST_LOCAL) else SEARCH_WEIGHT


def _refuse_repeated(answer: api.ListOffsetsResponse) -> api.ListOffsetsResponse:
    """A partition that several parts asked for is refused, as it is within one part."""
    topics: dict[str, dict[int, api.ListOffsetsPartitionResponse]] = {}
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
