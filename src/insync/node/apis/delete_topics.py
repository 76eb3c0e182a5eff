"""DeleteTopics (20): decided by the controller."""

from insync.controller.controller import Controller
from insync.controller.decision import Decision
from insync.node import request_parts
from insync.sansio import Message
from insync.wire.errors import ErrorCode
from insync.wire.messages import delete_topics as api
from insync.wire.types import NO_DURATION

KEY = 20


def split(request: Message) -> list[Message]:
    return request_parts.split_flat(request, "topics", lambda topic: (topic.name, topic.topic_id))


def merge(answers: list[Message]) -> Message:
    lines = tuple(line for answer in answers for line in answer.responses)
    return api.DeleteTopicsResponse(throttle_time=NO_DURATION, responses=lines)


def decide(controller: Controller, request: Message, now: int) -> Decision:
    return controller.delete_topics(request, now)


def refuse(request: Message, error: ErrorCode) -> Message:
    return api.DeleteTopicsResponse(
        throttle_time=NO_DURATION,
        responses=tuple(
            api.DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=error)
            for topic in request.topics
        ),
    )
