"""The broker's part in consumer groups: the offsets topic, and which of its partitions this broker coordinates.

A broker coordinates the groups of the partitions that it leads. In every leader epoch it loads the partition again from
its log (G1), a piece at a time so that other work goes on. It does so even if it led the previous epoch: it may have
been deposed and elected again between two metadata updates. It starts once everything that the last leader may have
acknowledged is known to be committed (the high watermark has reached the start of this leader's epoch): no answer about
a group can be lost later.

Notes: see `insync.groups`; offsets_topic_failed(error).
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from uuid import UUID

from insync.groups.config import OFFSETS_TOPIC
from insync.groups.coordinator import Coordinator, partition_for
from insync.groups.shard import OnCommitted, OnDone
from insync.metadata.changes import Changes
from insync.metadata.image import Image
from insync.node.config import NodeConfig
from insync.node.controller_apis import CREATE_TOPICS
from insync.node.forwarding import Forwarding
from insync.replication.leader import Leader, leader_of
from insync.replication.manager import ReplicaManager
from insync.sansio import Outbox
from insync.storage import verification
from insync.storage.damage import CorruptSegmentError
from insync.wire import batch
from insync.wire.errors import ErrorCode, MalformedBatchError
from insync.wire.messages import create_topics, find_coordinator
from insync.wire.types import NO_DURATION, ms

GROUP_KEYS = 0
TRANSACTION_KEYS = 1


class GroupRole:
    def __init__(
        self,
        config: NodeConfig,
        image: Callable[[], Image],
        replicas: ReplicaManager,
        forwarding: Forwarding,
        out: Outbox,
        rng: Random,
        now: int,
    ) -> None:
        self._config = config.groups
        self._image = image
        self._replicas = replicas
        self._forwarding = forwarding
        self._out = out
        self._topic_id: UUID | None = None
        self._creating = False
        self._loading: dict[int, int] = {}  # partition -> offset of the next record to load
        self._load_at: int | None = None
        self.coordinator = Coordinator(
            config=config.groups,
            log=self,
            out=out,
            rng=rng,
            wall_offset_ms=config.wall_offset_ms,
            has_partition=lambda topic, index: image().find(topic, index) is not None,
            now=now,
        )

    def append(
        self, partition: int, epoch: int, data: bytearray, on_done: OnDone, on_committed: OnCommitted, now: int
    ) -> None:
        """The coordinator's `OffsetsLog`. G1: a decision of one epoch is not written in another."""
        leader = self._leader(partition)
        if self._topic_id is None or leader is None or leader.epoch != epoch:
            on_done(ErrorCode.not_leader_or_follower, -1, now)
            return
        timeout = self._config.offsets_commit_timeout_ms
        self._replicas.append((self._topic_id, partition), data, on_done, now, timeout, on_committed=on_committed)

    # --- which partitions are coordinated here -----------------------------------------------------------------------

    def metadata_changed(self, changes: Changes, now: int) -> None:
        topic_id = self._image().complete_topic(OFFSETS_TOPIC)
        if topic_id != self._topic_id or any(key[0] == topic_id for key in (*changes.partitions, *changes.deleted)):
            self.refresh(now)
        gone = dict.fromkeys(name for name in changes.deleted_topics.values() if name not in self._image().topic_ids)
        if gone:
            self.coordinator.topics_deleted(gone, now)

    def refresh(self, now: int) -> None:
        """G1: load every partition that this broker leads once in each leader epoch; unload those it does not lead."""
        image = self._image()
        topic_id = image.complete_topic(OFFSETS_TOPIC)
        if topic_id != self._topic_id:
            self._unload(tuple(self.coordinator.shards))
            self._topic_id = topic_id
        if topic_id is None:
            return
        self.coordinator.partitions = len(image.partitions[topic_id])
        leaders = {index: self._leader(index) for index in image.partitions[topic_id]}
        epochs = {index: leader.epoch for index, leader in leaders.items() if leader is not None}
        self._unload(tuple(index for index in self.coordinator.shards if index not in epochs))
        for index, epoch in epochs.items():
            shard = self.coordinator.shards.get(index)
            if shard is None or shard.epoch != epoch:
                self.coordinator.begin_load(index, epoch)
                self._loading[index] = 0
                self._load_at = now

    def _unload(self, partitions: tuple[int, ...]) -> None:
        for index in partitions:
            self._loading.pop(index, None)
            self.coordinator.unload(index)

    def _leader(self, index: int) -> Leader | None:
        replica = self._replicas.replicas.get((self._topic_id, index)) if self._topic_id else None
        return None if replica is None else leader_of(replica)

    # --- loading -----------------------------------------------------------------------------------------------------

    def tick(self, now: int) -> None:
        if self._load_at is not None and now >= self._load_at:
            self._load_at = None
            self._load(now)
        self.coordinator.tick(now)

    def next_deadline(self) -> int | None:
        deadline = self.coordinator.next_deadline()
        if self._load_at is None or deadline is None:
            return self._load_at if deadline is None else deadline
        return min(deadline, self._load_at)

    def _load(self, now: int) -> None:
        """Load a limited number of bytes. The rest is due at once, or soon if all of it waits to be committed."""
        budget = self._config.load_step_bytes
        for index in list(self._loading):
            leader = self._leader(index)
            if leader is not None and may_load(leader):
                budget -= self._load_piece(index, leader, budget, now)
                if budget <= 0:
                    break
        soon = now if budget < self._config.load_step_bytes else now + self._config.load_retry_ms
        self._load_at = soon if self._loading else None

    def _load_piece(self, index: int, leader: Leader, max_bytes: int, now: int) -> int:
        log = leader.replica.log
        at, end = max(self._loading[index], log.log_start), log.hwm
        data = self._read_sound(leader, at, max_bytes, end, now) if at < end else b""
        if data is None:
            return 0  # D6: it is damaged; soon this broker has repaired it or no longer leads it
        reached = end if not data else self._replay(index, data, at, end)
        self._loading[index] = reached
        if reached >= end:
            del self._loading[index]
            self.coordinator.finish_load(index, now)
        return len(data)

    def _read_sound(self, leader: Leader, at: int, max_bytes: int, end: int, now: int) -> bytes | None:
        """D6: offsets and groups are not restored from damaged batches; None if the next batch is damaged."""
        replica, log = leader.replica, leader.replica.log
        if log.damage.at(at) is not None:
            return None
        try:
            data = log.read(at, max_bytes, limit_offset=log.damage.limit(at, end))
        except CorruptSegmentError:
            data = b""
        sound = verification.check_batches(log, data).size
        if sound < len(data) or not data:
            self._replicas.suspect(replica, at, "loading of groups", now)
        return data[:sound] or None

    def _replay(self, index: int, data: bytes, at: int, end: int) -> int:
        reached = end
        for pos, header in batch.iter_headers(data):
            reached = header.next_offset
            if header.is_control:
                continue
            try:
                records = list(batch.records(data, pos))
            except MalformedBatchError as error:
                self._out.note("group_record_unreadable", partition=index, offset=header.base_offset, why=str(error))
                continue
            for record in records:
                if at <= record.offset < end:
                    self.coordinator.replay(index, record)
        return reached

    # --- the offsets topic -------------------------------------------------------------------------------------------

    def find_coordinators(
        self, request: find_coordinator.FindCoordinatorRequest, token: int, listener: str, now: int
    ) -> None:
        """Coordinators are named by their endpoints of the listener that the request arrived on."""
        if request.key_type == GROUP_KEYS:
            self._create_topic(now)
        kind = request.key_type
        coordinators = tuple(self._find_coordinator(kind, key, listener) for key in request.coordinator_keys)
        answer = find_coordinator.FindCoordinatorResponse(throttle_time=NO_DURATION, coordinators=coordinators)
        self._out.reply(token, answer)

    def _find_coordinator(self, key_type: int, key: str, listener: str) -> find_coordinator.Coordinator:
        if key_type == TRANSACTION_KEYS:
            return _no_coordinator(key, ErrorCode.transactional_id_authorization_failed)
        if key_type != GROUP_KEYS:
            return _no_coordinator(key, ErrorCode.invalid_request)
        image = self._image()
        topic_id = image.complete_topic(OFFSETS_TOPIC)
        if topic_id is None:
            return _no_coordinator(key, ErrorCode.coordinator_not_available)
        partitions = image.partitions[topic_id]
        broker = image.brokers.get(partitions[partition_for(key, len(partitions))].leader)
        endpoint = None if broker is None or broker.fenced else broker.endpoint(listener)
        if broker is None or endpoint is None:
            return _no_coordinator(key, ErrorCode.coordinator_not_available)
        return find_coordinator.Coordinator(
            key=key,
            node_id=broker.id,
            host=endpoint.host,
            port=endpoint.port,
            error_code=ErrorCode.none,
            error_message="",
        )

    def _create_topic(self, now: int) -> None:
        """On the first request, whose client retries. If two brokers ask, the second gets TOPIC_ALREADY_EXISTS."""
        image = self._image()
        alive = sum(not broker.fenced for broker in image.brokers.values())
        if self._creating or OFFSETS_TOPIC in image.topic_ids or not alive:
            return
        self._creating = True
        request = self._creation_request(min(self._config.offsets_topic_replication_factor, alive))
        self._forwarding.ask(CREATE_TOPICS, request, self._on_created, now)

    def _creation_request(self, replication_factor: int) -> create_topics.CreateTopicsRequest:
        settings = {"cleanup.policy": "compact", "segment.bytes": str(self._config.offsets_topic_segment_bytes)}
        topic = create_topics.CreatableTopic(
            name=OFFSETS_TOPIC,
            num_partitions=self._config.offsets_topic_num_partitions,
            replication_factor=replication_factor,
            assignments=(),
            configs=tuple(create_topics.CreatableTopicConfig(name=n, value=v) for n, v in settings.items()),
        )
        return create_topics.CreateTopicsRequest(topics=(topic,), timeout=ms(30_000), validate_only=False)

    def _on_created(self, response: create_topics.CreateTopicsResponse, now: int) -> None:
        self._creating = False
        error = response.topics[0].error_code
        if error not in (ErrorCode.none, ErrorCode.topic_already_exists):
            self._out.note("offsets_topic_failed", error=error.name)


def may_load(leader: Leader) -> bool:
    """A record below the start of this epoch counts once it is committed under this leader."""
    return leader.knows_true_hwm()


def _no_coordinator(key: str, error: ErrorCode) -> find_coordinator.Coordinator:
    return find_coordinator.Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message=None)
