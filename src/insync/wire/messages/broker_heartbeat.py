"""BrokerHeartbeat v1: a broker stays unfenced, or asks to leave (B3, B7)."""

from kio.schema.broker_heartbeat.v1.request import BrokerHeartbeatRequest
from kio.schema.broker_heartbeat.v1.response import BrokerHeartbeatResponse

__all__ = ["BrokerHeartbeatRequest", "BrokerHeartbeatResponse"]
