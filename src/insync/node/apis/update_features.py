"""UpdateFeatures (57): the levels of features. Leaves out: changing them.

A cluster runs at the levels it was made with, the only ones that this code knows. A request for just these succeeds,
so that tools which make sure of a level can; anything else is refused and nothing changes.
"""

from insync.controller.config import FEATURES
from insync.controller.controller import Controller
from insync.controller.decision import Decision
from insync.sansio import Message
from insync.wire.errors import ErrorCode
from insync.wire.messages import update_features as api
from insync.wire.types import NO_DURATION

KEY = 57


def decide(controller: Controller, request: Message, now: int) -> Decision:
    levels = controller.image.features
    for update in request.feature_updates:
        problem = _problem(update, levels.get(update.feature, 0))
        if problem is not None:
            return Decision(records=(), response=_answer(ErrorCode.invalid_update_version, problem))
    return Decision(records=(), response=_answer(ErrorCode.none, None))


def _problem(update: Message, level: int) -> str | None:
    """Why a feature cannot get this level, in Kafka's words: the tools print them for every feature of the request, so
    they name the one that is at fault.
    """
    wanted, supported = update.max_version_level, dict(FEATURES).get(update.feature, 0)
    if wanted < 0:
        reason = "A feature version cannot be less than 0."
    elif wanted == level:
        return None
    elif not supported:
        reason = "This cluster does not support the feature."
    else:
        reason = f"This cluster only supports version {supported}."
    return (
        "The update failed for all features since the following feature had an error: "
        f"Invalid update version {wanted} for feature {update.feature}. {reason}"
    )


def refuse(request: Message, error: ErrorCode) -> Message:
    return _answer(error, None)


def _answer(error: ErrorCode, message: str | None) -> Message:
    return api.UpdateFeaturesResponse(throttle_time=NO_DURATION, error_code=error, error_message=message)
