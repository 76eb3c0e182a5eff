"""ApiVersions: which APIs and features this node serves. `wire` itself answers a version that it does not know."""

from __future__ import annotations

from insync.controller.config import FEATURES
from insync.node.node_view import NodeView
from insync.sansio import Request
from insync.wire.apis import SERVED
from insync.wire.errors import ErrorCode
from insync.wire.messages import api_versions as api
from insync.wire.types import NO_DURATION


def handle(node: NodeView, event: Request, now: int) -> None:
    image = node.image
    answer = api.ApiVersionsResponse(
        error_code=ErrorCode.none,
        api_keys=tuple(
            api.ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in SERVED.items()
        ),
        throttle_time=NO_DURATION,
        supported_features=tuple(
            api.SupportedFeatureKey(name=name, min_version=level, max_version=level)  # the only level supported
            for name, level in FEATURES
        ),
        finalized_features_epoch=image.offset,
        finalized_features=tuple(
            api.FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in image.features.items()
        ),
    )
    node.out.reply(event.token, answer)
