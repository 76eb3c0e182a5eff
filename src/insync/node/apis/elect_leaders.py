"""ElectLeaders (43): preferred and unclean elections on request (E1)."""

from dataclasses import replace

from insync.controller.controller import Controller
from insync.controller.decision import Slices
from insync.node import request_parts
from insync.sansio import Message
from insync.wire.errors import ErrorCode
from insync.wire.messages import elect_leaders as api
from insync.wire.types import NO_DURATION

KEY = 43


def split(request: Message) -> list[Message]:
    """Elections of all partitions are divided by the controller itself, which knows them."""
    return request_parts.split_nested(request, "topic_partitions", lambda topic: topic.topic, lambda index: index)


def merge(answers: list[Message]) -> Message:
    topics = (topic for answer in answers for topic in answer.replica_election_results)
    results = request_parts.merge_nested(topics, "topic", "partition_result")
    return request_parts.first_error(answers) or replace(answers[0], replica_election_results=results)


def decide(controller: Controller, request: Message, now: int) -> Slices:
    return controller.elect_leaders(request, now)


def refuse(request: Message, error: ErrorCode) -> Message:
    return api.ElectLeadersResponse(throttle_time=NO_DURATION, error_code=error, replica_election_results=())
