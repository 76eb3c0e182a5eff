"""SyncGroup v5: a generation's assignments, from its leader and to each member."""

from kio.schema.sync_group.v5.request import SyncGroupRequest, SyncGroupRequestAssignment
from kio.schema.sync_group.v5.response import SyncGroupResponse

__all__ = ["SyncGroupRequest", "SyncGroupRequestAssignment", "SyncGroupResponse"]
