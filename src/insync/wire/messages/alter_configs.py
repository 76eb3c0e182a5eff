"""AlterConfigs v2: all configs of a resource at once."""

from kio.schema.alter_configs.v2.request import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from kio.schema.alter_configs.v2.response import AlterConfigsResourceResponse, AlterConfigsResponse

__all__ = [
    "AlterConfigsRequest",
    "AlterConfigsResource",
    "AlterConfigsResourceResponse",
    "AlterConfigsResponse",
    "AlterableConfig",
]
