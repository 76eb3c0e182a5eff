"""LeaveGroup v5: members leave, by id or by instance id."""

from kio.schema.leave_group.v5.request import LeaveGroupRequest, MemberIdentity
from kio.schema.leave_group.v5.response import LeaveGroupResponse, MemberResponse

__all__ = ["LeaveGroupRequest", "LeaveGroupResponse", "MemberIdentity", "MemberResponse"]
