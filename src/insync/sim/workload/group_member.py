"""A simulated member of a consumer group: joins, gets its partitions, commits offsets, and sometimes leaves.

Members of one group divide the partitions of the plan's first topics among them. They commit made-up offsets that grow,
so that a fetched one says which commit it is from, and now and then try what must fail: a commit for the generation
before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from insync.properties.group_offsets import GroupHistory, TopicPartition
from insync.sansio import Message
from insync.sim.plans.plan import ClientPlan
from insync.sim.workload.client import Client
from insync.wire.errors import ErrorCode
from insync.wire.messages import (
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    offset_commit,
    offset_fetch,
    sync_group,
)
from insync.wire.types import ms

SESSION_MS = 1_500
REBALANCE_MS = 1_000
PROTOCOL = "range"
_LOST = (
    ErrorCode.not_coordinator,
    ErrorCode.coordinator_not_available,
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.network_exception,
)
"""Errors after which a member looks for the coordinator again."""


class GroupMember:
    """One member; `plan.value_bytes` is the number of its group."""

    def __init__(
        self, client: Client, plan: ClientPlan, history: GroupHistory, partitions: tuple[TopicPartition, ...]
    ) -> None:
        self.client = client
        self.group = f"g{plan.value_bytes}"
        self.acked = 0
        self._plan = plan
        self._history = history
        self._partitions = partitions
        self._instance_id = f"static{plan.client_id}" if plan.idempotent else None
        self._coordinator: int | None = None
        self._member_id = ""
        self._generation = -1
        self._owned: list[TopicPartition] = []
        self._is_stable = False
        self._is_waiting = False

    def start(self) -> None:
        self._tick()

    def _tick(self) -> None:
        if not self.client.active:
            return
        self.client.later(self._plan.every_ms, self._tick)
        if self._is_waiting or not self._partitions:
            return
        if self._coordinator is None:
            self._find_coordinator()
        elif not self._is_stable:
            self._join()
        else:
            self._work()

    def _ask(self, request: Message, on_answer: Callable[[Any, int], None]) -> None:
        """Send to the coordinator; one request at a time."""

        def on_response(response: Message | None, now: int) -> None:
            self._is_waiting = False
            if response is None:
                self._coordinator = None
            else:
                on_answer(response, now)

        self._is_waiting = True
        if self._coordinator is None:
            self.client.ask_random_broker(request, on_response)
        else:
            self.client.ask(self._coordinator, request, on_response)

    def _find_coordinator(self) -> None:
        def on_answer(response: Any, _now: int) -> None:
            coordinator = response.coordinators[0]
            self._coordinator = coordinator.node_id if coordinator.error_code is ErrorCode.none else None

        self._ask(find_coordinator.FindCoordinatorRequest(key_type=0, coordinator_keys=(self.group,)), on_answer)

    # --- generations -------------------------------------------------------------------------------------------------

    def _join(self) -> None:
        request = join_group.JoinGroupRequest(
            group_id=self.group,
            session_timeout=ms(SESSION_MS),
            rebalance_timeout=ms(REBALANCE_MS),
            member_id=self._member_id,
            group_instance_id=self._instance_id,
            protocol_type="consumer",
            protocols=(join_group.JoinGroupRequestProtocol(name=PROTOCOL, metadata=b""),),
        )
        self._ask(request, self._on_joined)

    def _on_joined(self, response: Any, _now: int) -> None:
        if response.error_code in (ErrorCode.none, ErrorCode.member_id_required):
            self._member_id = response.member_id
        if response.error_code is ErrorCode.none:
            self._generation = response.generation_id
            self._sync(response)
        elif response.error_code is not ErrorCode.member_id_required:
            self._on_error(response.error_code)

    def _sync(self, joined: Any) -> None:
        members = sorted(member.member_id for member in joined.members) if joined.leader == self._member_id else []
        request = sync_group.SyncGroupRequest(
            group_id=self.group,
            generation_id=self._generation,
            member_id=self._member_id,
            group_instance_id=self._instance_id,
            protocol_type="consumer",
            protocol_name=PROTOCOL,
            assignments=tuple(
                sync_group.SyncGroupRequestAssignment(
                    member_id=member, assignment=_encode(self._partitions[index :: len(members)])
                )
                for index, member in enumerate(members)
            ),
        )
        generation = self._generation

        def on_answer(response: Any, now: int) -> None:
            if response.error_code is not ErrorCode.none:
                self._on_error(response.error_code)
                return
            self._owned = _decode(response.assignment)
            self._is_stable = True
            owner = self._instance_id or self._member_id  # a static member may come back with another member id
            self._history.assigned(self.group, generation, owner, self._owned, now)

        self._ask(request, on_answer)

    def _on_error(self, error: ErrorCode) -> None:
        if error in _LOST:
            self._coordinator = None
            return
        if error in (ErrorCode.unknown_member_id, ErrorCode.fenced_instance_id):
            self._member_id = ""
        self._is_stable = False

    # --- work of a stable member -------------------------------------------------------------------------------------

    def _work(self) -> None:
        choice = self.client.rng.random()
        if choice < 0.45 and self._owned:
            self._commit(self.client.rng.choice(self._owned), self._generation)
        elif choice < 0.5 and self._owned:
            self._commit(self.client.rng.choice(self._owned), self._generation - 1)
        elif choice < 0.75:
            self._fetch(self.client.rng.choice(self._partitions))
        elif choice < 0.97:
            self._heartbeat()
        else:
            self._leave()

    def _commit(self, partition: TopicPartition, generation: int) -> None:
        topic, index = partition
        value = self._history.next_value()
        place = (self.group, topic, index)
        commit = self._history.commit_sent(place, value, generation, self.client.engine.now)
        line = offset_commit.OffsetCommitRequestPartition(
            partition_index=index, committed_offset=value, committed_metadata=""
        )
        request = offset_commit.OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=generation,
            member_id=self._member_id,
            group_instance_id=self._instance_id,
            topics=(offset_commit.OffsetCommitRequestTopic(name=topic, partitions=(line,)),),
        )
        is_current = generation == self._generation

        def on_answer(response: Any, now: int) -> None:
            error = response.topics[0].partitions[0].error_code
            if error is ErrorCode.none:
                self.acked += 1
                self._history.commit_acked(place, commit, now)
            elif is_current or error is not ErrorCode.illegal_generation:
                self._on_error(error)

        self._ask(request, on_answer)

    def _fetch(self, partition: TopicPartition) -> None:
        topic, index = partition
        started = self.client.engine.now
        topics = (offset_fetch.OffsetFetchRequestTopics(name=topic, partition_indexes=(index,)),)
        group = offset_fetch.OffsetFetchRequestGroup(group_id=self.group, topics=topics)

        def on_answer(response: Any, _now: int) -> None:
            answer = response.groups[0]
            if answer.error_code is not ErrorCode.none:
                self._on_error(answer.error_code)
                return
            for line in answer.topics[0].partitions:
                if line.error_code is ErrorCode.none:
                    self._history.offset_fetched((self.group, topic, index), line.committed_offset, started)

        self._ask(offset_fetch.OffsetFetchRequest(groups=(group,), require_stable=True), on_answer)

    def _heartbeat(self) -> None:
        request = heartbeat.HeartbeatRequest(
            group_id=self.group,
            generation_id=self._generation,
            member_id=self._member_id,
            group_instance_id=self._instance_id,
        )

        def on_answer(response: Any, _now: int) -> None:
            if response.error_code is not ErrorCode.none:
                self._on_error(response.error_code)

        self._ask(request, on_answer)

    def _leave(self) -> None:
        member = leave_group.MemberIdentity(member_id=self._member_id, group_instance_id=self._instance_id)
        self._is_stable, self._member_id = False, ""
        self._ask(leave_group.LeaveGroupRequest(group_id=self.group, members=(member,)), lambda _answer, _now: None)


def _encode(partitions: tuple[TopicPartition, ...]) -> bytes:
    return ",".join(f"{topic}/{index}" for topic, index in partitions).encode()


def _decode(assignment: bytes) -> list[TopicPartition]:
    names = [name.rpartition("/") for name in bytes(assignment).decode().split(",") if name]
    return [(topic, int(index)) for topic, _, index in names]
