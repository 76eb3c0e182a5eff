"""DeleteGroups v2: empty groups go, with their offsets."""

from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.delete_groups.v2.response import DeletableGroupResult, DeleteGroupsResponse

__all__ = ["DeletableGroupResult", "DeleteGroupsRequest", "DeleteGroupsResponse"]
