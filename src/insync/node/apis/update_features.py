"""UpdateFeatures (57): the levels of features. Leaves out: changing them.

A cluster runs at the levels it was made with, the only ones that this code knows. A request for just these succeeds,
so that tools which make sure of a level can; anything else is refused and nothing changes.
"""

from insync.controller.controller import Controller
from insync.controller.decision import Decision
from insync.sansio import Message
from insync.wire.errors import ErrorCode
from insync.wire.messages import update_features as api
from insync.wire.types import NO_DURATION

KEY = 57
VERSIONS = (0, 2)


def decide(controller: Controller, request: Message, now: int) -> Decision:
    levels = controller.image.features
    for update in request.feature_updates:
        if levels.get(update.feature, 0) != max(0, update.max_version_level):
            problem = f"The level of {update.feature} is {levels.get(update.feature, 0)} and cannot be changed."
            return Decision(records=(), response=_answer(ErrorCode.invalid_update_version, problem))
    return Decision(records=(), response=_answer(ErrorCode.none, None))


def refuse(request: Message, error: ErrorCode) -> Message:
    return _answer(error, None)


def _answer(error: ErrorCode, message: str | None) -> Message:
    return api.UpdateFeaturesResponse(throttle_time=NO_DURATION, error_code=error, error_message=message)
