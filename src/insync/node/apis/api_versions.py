"""ApiVersions (18): which APIs and features this node serves. An unknown version never gets here (the edge answers)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from insync.controller.config import FEATURES
from insync.sansio import Message
from insync.wire.apis import SERVED
from insync.wire.errors import ErrorCode
from insync.wire.messages import api_versions as api
from insync.wire.types import NO_DURATION

if TYPE_CHECKING:
    from insync.node.node import Node

KEY = 18


def handle(node: Node, request: Message, token: int, now: int) -> None:
    image = node.image
    node.out.reply(
        token,
        api.ApiVersionsResponse(
            error_code=ErrorCode.none,
            api_keys=tuple(
                api.ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in SERVED.items()
            ),
            throttle_time=NO_DURATION,
            supported_features=tuple(
                api.SupportedFeatureKey(name=name, min_version=level, max_version=level)  # no other is known here
                for name, level in FEATURES
            ),
            finalized_features_epoch=image.offset,
            finalized_features=tuple(
                api.FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
                for name, level in image.features.items()
            ),
        ),
    )
