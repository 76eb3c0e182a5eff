"""Heartbeat v4: a member of a group is alive."""

from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.heartbeat.v4.response import HeartbeatResponse

__all__ = ["HeartbeatRequest", "HeartbeatResponse"]
