"""CreateTopics (19): decided by the controller."""

from insync.controller.controller import Controller
from insync.controller.decision import Decision
from insync.sansio import Message
from insync.wire.errors import ErrorCode
from insync.wire.messages import create_topics as api
from insync.wire.types import NO_DURATION

KEY = 19
VERSIONS = (2, 7)


def decide(controller: Controller, request: Message, now: int) -> Decision:
    return controller.create_topics(request, now)


def refuse(request: Message, error: ErrorCode) -> Message:
    return api.CreateTopicsResponse(
        throttle_time=NO_DURATION,
        topics=tuple(
            api.CreatableTopicResult(name=topic.name, topic_id=None, error_code=error, error_message=None, configs=None)
            for topic in request.topics
        ),
    )
