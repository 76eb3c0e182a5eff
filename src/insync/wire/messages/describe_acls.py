"""DescribeAcls v3."""

from kio.schema.describe_acls.v3.request import DescribeAclsRequest
from kio.schema.describe_acls.v3.response import DescribeAclsResponse

__all__ = ["DescribeAclsRequest", "DescribeAclsResponse"]
