"""DescribeGroups v6: states, members and assignments."""

from kio.schema.describe_groups.v6.request import DescribeGroupsRequest
from kio.schema.describe_groups.v6.response import DescribedGroup, DescribedGroupMember, DescribeGroupsResponse

__all__ = ["DescribeGroupsRequest", "DescribeGroupsResponse", "DescribedGroup", "DescribedGroupMember"]
