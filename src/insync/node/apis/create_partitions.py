"""CreatePartitions (37): decided by the controller."""

from insync.controller.controller import Controller
from insync.controller.decision import Slices
from insync.node import request_parts
from insync.sansio import Message
from insync.wire.errors import ErrorCode
from insync.wire.messages import create_partitions as api
from insync.wire.types import NO_DURATION

KEY = 37


def split(request: Message) -> list[Message]:
    return request_parts.split_flat(request, "topics", lambda topic: topic.name)


def merge(answers: list[Message]) -> Message:
    lines = tuple(line for answer in answers for line in answer.results)
    return api.CreatePartitionsResponse(throttle_time=NO_DURATION, results=lines)


def decide(controller: Controller, request: Message, now: int) -> Slices:
    return controller.create_partitions(request, now)


def refuse(request: Message, error: ErrorCode) -> Message:
    return api.CreatePartitionsResponse(
        throttle_time=NO_DURATION,
        results=tuple(api.CreatePartitionsTopicResult(name=topic.name, error_code=error) for topic in request.topics),
    )
