"""CreateAcls v3."""

from kio.schema.create_acls.v3.request import AclCreation, CreateAclsRequest
from kio.schema.create_acls.v3.response import AclCreationResult, CreateAclsResponse

__all__ = ["AclCreation", "AclCreationResult", "CreateAclsRequest", "CreateAclsResponse"]
