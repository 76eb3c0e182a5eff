"""DescribeGroups v5: states, members and assignments."""

from kio.schema.describe_groups.v5.request import DescribeGroupsRequest
from kio.schema.describe_groups.v5.response import DescribedGroup, DescribedGroupMember, DescribeGroupsResponse

__all__ = ["DescribeGroupsRequest", "DescribeGroupsResponse", "DescribedGroup", "DescribedGroupMember"]
