"""UpdateFeatures: the levels of features. Not included: changing them.

A cluster runs at the levels it was formatted with, the only ones that this code supports. A request for those levels
succeeds, so that tools can ensure a level; any other is refused and nothing changes.
"""

from __future__ import annotations

from insync.controller.config import FEATURES
from insync.controller.decision import Decision
from insync.controller.state import ControllerState
from insync.wire.errors import ErrorCode
from insync.wire.messages import update_features as api
from insync.wire.types import NO_DURATION


def decide(state: ControllerState, request: api.UpdateFeaturesRequest, now: int) -> Decision:
    levels = state.image.features
    for update in request.feature_updates:
        problem = _problem(update, levels.get(update.feature, 0))
        if problem is not None:
            return Decision(records=(), response=_answer(ErrorCode.invalid_update_version, problem))
    return Decision(records=(), response=_answer(ErrorCode.none, None))


def _problem(update: api.FeatureUpdateKey, level: int) -> str | None:
    """Why a feature cannot get this level, in Kafka's words. The tools print it for every feature of the request, so
    it names the feature."""
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


def refuse(_: api.UpdateFeaturesRequest, error: ErrorCode) -> api.UpdateFeaturesResponse:
    return _answer(error, None)


def _answer(error: ErrorCode, message: str | None) -> api.UpdateFeaturesResponse:
    return api.UpdateFeaturesResponse(throttle_time=NO_DURATION, error_code=error, error_message=message)
