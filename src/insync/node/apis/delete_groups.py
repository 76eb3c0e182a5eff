"""DeleteGroups (42): empty groups and their offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from insync.node.parts import Parts, without_repeats
from insync.sansio import Message

if TYPE_CHECKING:
    from insync.node.broker_role import BrokerRole

KEY = 42

PARTS = Parts(asked=("groups_names",), answered=("results",), limit=25, without_repeats=without_repeats("groups_names"))


def handle(broker: BrokerRole, request: Message, token: int, now: int) -> None:
    broker.groups.coordinator.delete(request, token, now)
