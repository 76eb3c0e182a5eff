"""ElectLeaders (43): preferred and unclean elections on request (E1)."""

from insync.controller.controller import Controller
from insync.controller.decision import Decision
from insync.sansio import Message
from insync.wire.errors import ErrorCode
from insync.wire.messages import elect_leaders as api
from insync.wire.types import NO_DURATION

KEY = 43
VERSIONS = (0, 2)


def decide(controller: Controller, request: Message, now: int) -> Decision:
    return controller.elect_leaders(request, now)


def refuse(request: Message, error: ErrorCode) -> Message:
    return api.ElectLeadersResponse(throttle_time=NO_DURATION, error_code=error, replica_election_results=())
