"""AlterPartitionReassignments (45): start, replace or cancel a reassignment (R)."""

from dataclasses import replace

from insync.controller.controller import Controller
from insync.controller.decision import Decision
from insync.node import request_parts
from insync.sansio import Message
from insync.wire.errors import ErrorCode
from insync.wire.messages import alter_partition_reassignments as api
from insync.wire.types import NO_DURATION

KEY = 45


def split(request: Message) -> list[Message]:
    return request_parts.split_nested(request, "topics", lambda topic: topic.name, lambda line: line.partition_index)


def merge(answers: list[Message]) -> Message:
    error = request_parts.first_error(answers)
    topics = request_parts.merge_nested((topic for answer in answers for topic in answer.responses), "name")
    return error or replace(answers[0], responses=topics)


def decide(controller: Controller, request: Message, now: int) -> Decision:
    return controller.alter_partition_reassignments(request, now)


def refuse(request: Message, error: ErrorCode) -> Message:
    return api.AlterPartitionReassignmentsResponse(
        throttle_time=NO_DURATION, error_code=error, error_message=None, responses=()
    )
