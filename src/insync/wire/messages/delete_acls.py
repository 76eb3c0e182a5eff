"""DeleteAcls v3."""

from kio.schema.delete_acls.v3.request import DeleteAclsFilter, DeleteAclsRequest
from kio.schema.delete_acls.v3.response import DeleteAclsFilterResult, DeleteAclsResponse

__all__ = ["DeleteAclsFilter", "DeleteAclsFilterResult", "DeleteAclsRequest", "DeleteAclsResponse"]
