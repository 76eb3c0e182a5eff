"""AlterPartition (56): a leader proposes an ISR (I3, I4). Between nodes only."""

from dataclasses import replace

from insync.controller.controller import Controller
from insync.controller.decision import Decision
from insync.node import request_parts
from insync.sansio import Message
from insync.wire.errors import ErrorCode
from insync.wire.messages import alter_partition as api
from insync.wire.types import NO_DURATION

KEY = 56


def split(request: Message) -> list[Message]:
    return request_parts.split_nested(
        request, "topics", lambda topic: topic.topic_id, lambda line: line.partition_index
    )


def merge(answers: list[Message]) -> Message:
    error = request_parts.first_error(answers)
    topics = request_parts.merge_nested((topic for answer in answers for topic in answer.topics), "topic_id")
    return error or replace(answers[0], topics=topics)


def decide(controller: Controller, request: Message, now: int) -> Decision:
    return controller.alter_partition(request, now)


def refuse(request: Message, error: ErrorCode) -> Message:
    return api.AlterPartitionResponse(throttle_time=NO_DURATION, error_code=error, topics=())
