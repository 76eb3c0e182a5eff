"""ConsumerGroupHeartbeat: refused with UNSUPPORTED_VERSION, as Kafka does where the consumer protocol is off.

It is advertised nevertheless (ADR 18): without the API librdkafka waits forever and reports nothing, while the refusal
is a fatal error that the application sees.
"""

from __future__ import annotations

from insync.node.broker_role import BrokerRole
from insync.sansio import Request
from insync.wire.errors import ErrorCode
from insync.wire.messages import consumer_group_heartbeat as api
from insync.wire.types import NO_DURATION

NOT_SUPPORTED = "The consumer group protocol (KIP-848) is not supported. Set group.protocol=classic."


def handle(broker: BrokerRole, event: Request, now: int) -> None:
    answer = api.ConsumerGroupHeartbeatResponse(
        throttle_time=NO_DURATION,
        error_code=ErrorCode.unsupported_version,
        error_message=NOT_SUPPORTED,
        member_epoch=0,
        heartbeat_interval=NO_DURATION,
    )
    broker.out.reply(event.token, answer)
