"""ListGroups v5: the groups that a broker coordinates."""

from kio.schema.list_groups.v5.request import ListGroupsRequest
from kio.schema.list_groups.v5.response import ListedGroup, ListGroupsResponse

__all__ = ["ListGroupsRequest", "ListGroupsResponse", "ListedGroup"]
