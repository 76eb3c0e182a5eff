"""DeleteRecords (21): raise the log start of the partitions that this broker leads.

Leaves out: waiting for followers. Kafka answers when their log starts have followed, or the request's time is up;
here the answer comes at once and they follow with their next fetches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from insync.sansio import Message
from insync.wire.messages import delete_records as api

if TYPE_CHECKING:
    from insync.node.broker_role import BrokerRole

KEY = 21
VERSIONS = (0, 2)
REQUEST = api.DeleteRecordsRequest


def handle(broker: BrokerRole, request: Message, token: int, now: int) -> None:
    broker.replicas.delete_records(request, token, now)
