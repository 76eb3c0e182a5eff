"""ConsumerGroupHeartbeat (68): refused with UNSUPPORTED_VERSION, as Kafka does where the consumer protocol is off.

It is advertised nevertheless (ADR 18): librdkafka waits without end or message for a broker that has this API,
while the refusal is a fatal error that the application sees.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from insync.sansio import Message
from insync.wire.errors import ErrorCode
from insync.wire.messages import consumer_group_heartbeat as api
from insync.wire.types import NO_DURATION

if TYPE_CHECKING:
    from insync.node.broker_role import BrokerRole

KEY = 68

NOT_SUPPORTED = "The consumer group protocol (KIP-848) is not supported. Set group.protocol=classic."


def handle(broker: BrokerRole, request: Message, token: int, now: int) -> None:
    broker.out.reply(
        token,
        api.ConsumerGroupHeartbeatResponse(
            throttle_time=NO_DURATION,
            error_code=ErrorCode.unsupported_version,
            error_message=NOT_SUPPORTED,
            member_epoch=0,
            heartbeat_interval=NO_DURATION,
        ),
    )
