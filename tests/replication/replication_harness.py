"""Two or three ReplicaManagers on simulated disks, connected directly: sends are delivered one by one or all at once.

There is no controller here: tests hand out metadata with `apply` and answer AlterPartition themselves.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

from insync.metadata.partition import Partition
from insync.replication.config import ReplicationConfig
from insync.replication.leader import Leader, leader_of
from insync.replication.manager import ReplicaManager
from insync.replication.replica import Replica
from insync.replication.throttle import NO_RATES, NO_THROTTLE, ThrottleRates, TopicThrottle
from insync.sansio import Note, Outbox, Reply, Send
from insync.sim.engine.disk import SimDisk
from insync.storage.config import LogConfig
from insync.storage.log_store import LogStore
from insync.wire import batch
from insync.wire.errors import ErrorCode
from insync.wire.messages import alter_partition, fetch, list_offsets, produce
from insync.wire.types import NO_DURATION, ms

TOPIC = "t"
TOPIC_ID = UUID(int=0x70)
PARTITIONS = 3
CONTROLLER = 9

FetchResponse = fetch.FetchResponse
PartitionData = fetch.PartitionData
ListOffsetsPartitionResponse = list_offsets.ListOffsetsPartitionResponse


class Cluster:
    """The metadata that brokers see beyond their partitions; tests change it."""

    def __init__(self, broker: int, shared: Shared) -> None:
        self.broker = broker
        self.shared = shared

    @property
    def broker_epoch(self) -> int:
        return self.shared.epochs[self.broker]

    @property
    def controller_id(self) -> int:
        return self.shared.controller

    def is_fenced(self, broker: int) -> bool:
        return broker in self.shared.fenced

    def is_shutting_down(self, broker: int) -> bool:
        return broker in self.shared.leaving

    def broker_epoch_of(self, broker: int) -> int | None:
        return self.shared.epochs.get(broker)

    def min_insync_replicas(self, topic: str) -> int:
        return self.shared.min_isr

    def log_config(self, topic: str) -> LogConfig:
        return self.shared.log_config

    @property
    def throttle_rates(self) -> ThrottleRates:
        return self.shared.rates.get(self.broker, NO_RATES)

    def throttle(self, topic: str) -> TopicThrottle:
        return self.shared.throttles.get(self.broker, NO_THROTTLE)

    def topic_name(self, topic_id: UUID) -> str | None:
        return self.shared.topics.get(topic_id)

    def has_partition(self, topic: str, index: int) -> bool:
        return topic in self.shared.topics.values() and index < PARTITIONS


class Shared:
    def __init__(self, brokers: tuple[int, ...], min_isr: int) -> None:
        self.epochs = {broker: 100 + broker for broker in brokers}
        self.fenced: list[int] = []
        self.leaving: list[int] = []
        self.min_isr = min_isr
        self.log_config = LogConfig()
        self.topics = {TOPIC_ID: TOPIC}
        self.controller = CONTROLLER
        self.rates: dict[int, ThrottleRates] = {}
        self.throttles: dict[int, TopicThrottle] = {}


class Broker:
    def __init__(self, broker_id: int, shared: Shared, config: ReplicationConfig) -> None:
        self.id = broker_id
        self.shared = shared
        self.config = config
        self.disk = SimDisk()
        self.token = 0
        self.replies: dict[int, Any] = {}
        self.notes: list[Note] = []
        self.sends: list[Send] = []
        self.boot()

    def boot(self) -> None:
        self.out = Outbox()
        self.store = LogStore(self.disk, "data")
        self.store.start()
        self.manager = ReplicaManager(
            broker_id=self.id,
            log_store=self.store,
            config=self.config,
            out=self.out,
            cluster=Cluster(self.id, self.shared),
            now=0,
        )

    def collect(self) -> None:
        for effect in self.out.drain():
            if isinstance(effect, Reply):
                self.replies[effect.token] = effect.response
            elif isinstance(effect, Note):
                self.notes.append(effect)
            elif isinstance(effect, Send):
                self.sends.append(effect)

    def replica(self, index: int = 0) -> Replica:
        return self.manager.replicas[TOPIC_ID, index]

    def note_kinds(self) -> list[str]:
        self.collect()
        return [note.kind for note in self.notes]

    def notes_of(self, kind: str) -> list[dict[str, object]]:
        self.collect()
        return [note.fields for note in self.notes if note.kind == kind]

    def next_token(self) -> int:
        self.token += 1
        return self.token


class Harness:
    def __init__(self, brokers: tuple[int, ...] = (1, 2, 3), *, min_isr: int = 1, **config: Any) -> None:
        self.shared = Shared(brokers, min_isr)
        self.config = ReplicationConfig(**config)
        self.brokers = {broker: Broker(broker, self.shared, self.config) for broker in brokers}
        self.now = 0
        self.parked: list[tuple[Broker, int, Send, Broker]] = []

    def __getitem__(self, broker: int) -> Broker:
        return self.brokers[broker]

    def leader(self, broker: int = 1, index: int = 0) -> Leader:
        leader = leader_of(self[broker].replica(index))
        assert leader is not None
        return leader

    # --- metadata ---

    def apply(self, partition: Partition, *brokers: int) -> None:
        for broker in brokers or tuple(self.brokers):
            self[broker].manager.apply([partition], [], self.now)
            self[broker].collect()

    # --- clients ---

    def produce(
        self,
        broker: int,
        *batches: bytes | bytearray,
        acks: int = -1,
        timeout: int = 1000,
        index: int = 0,
        more: bool = False,
    ) -> int:
        """One partition per batch, from `index` on; returns the token."""
        token = self[broker].next_token()
        entries = tuple(
            produce.PartitionProduceData(index=index + at, records=bytes(data)) for at, data in enumerate(batches)
        )
        topics = (produce.TopicProduceData(topic_id=TOPIC_ID, partition_data=entries),)
        request = produce.ProduceRequest(acks=acks, timeout=ms(timeout), topic_data=topics)
        self[broker].manager.produce(request, token, self.now, more=more)
        self[broker].collect()
        return token

    def write(self, broker: int, count: int = 1, index: int = 0) -> None:
        for _ in range(count):
            self.produce(broker, records(1), acks=1, index=index)

    def produced(self, broker: int, token: int) -> list[tuple[ErrorCode, int]] | None:
        """(error, base offset) per partition; None if it is not answered yet."""
        if token not in self[broker].replies:
            return None
        response = self[broker].replies[token]
        return [(p.error_code, p.base_offset) for t in response.responses for p in t.partition_responses]

    def fetch(self, broker: int, request: fetch.FetchRequest) -> int:
        token = self[broker].next_token()
        self[broker].manager.fetch(request, token, self.now)
        self[broker].collect()
        return token

    def fetched(self, broker: int, token: int) -> FetchResponse | None:
        """None if the fetch is parked."""
        return self[broker].replies.get(token)

    def fetched_partition(self, broker: int, token: int) -> PartitionData:
        """The first partition of a response."""
        response = self.fetched(broker, token)
        assert response is not None
        return response.responses[0].partitions[0]

    def follower_fetch(self, broker: int, replica: int, offset: int, **fields: int) -> PartitionData:
        """One fetch of a follower outside any session; returns its partition of the response."""
        token = self.fetch(broker, follower_request(self.shared, replica, offset, **fields))
        return self.fetched_partition(broker, token)

    def list_offsets(
        self, broker: int, timestamp: int, *, epoch: int = -1, replica_id: int = -1
    ) -> ListOffsetsPartitionResponse:
        query = list_offsets.ListOffsetsPartition(partition_index=0, current_leader_epoch=epoch, timestamp=timestamp)
        topic = list_offsets.ListOffsetsTopic(name=TOPIC, partitions=(query,))
        request = list_offsets.ListOffsetsRequest(
            replica_id=replica_id, isolation_level=0, topics=(topic,), timeout=NO_DURATION
        )
        token = self[broker].next_token()
        self[broker].manager.list_offsets(request, token, self.now)
        self[broker].collect()
        entry: ListOffsetsPartitionResponse = self[broker].replies[token].topics[0].partitions[0]
        return entry

    # --- the network ---

    def take_fetch(self, broker: int) -> Send:
        """The only fetch that this follower has sent and that is not delivered."""
        self[broker].collect()
        (send,) = [send for send in self[broker].sends if send.channel == "fetch"]
        self[broker].sends.remove(send)
        return send

    def serve(self, send: Send) -> FetchResponse:
        """The leader's response to a fetch, which does not park; it is not delivered."""
        response = self.fetched(send.peer, self.fetch(send.peer, send.request))
        assert response is not None
        return response

    def deliver(self, send: Send, origin: Broker) -> bool:
        """Deliver one fetch to its leader; False if the leader parks it."""
        target = self[send.peer]
        token = self.fetch(target.id, send.request)
        self.collect_all()
        response = target.replies.get(token)
        if response is None:
            self.parked.append((target, token, send, origin))
            return False
        send.on_response(response, self.now)
        return True

    def run(self, rounds: int = 20) -> None:
        """Deliver fetches and responses until every fetch is parked. AlterPartition requests are not delivered."""
        for _ in range(rounds):
            if not (self._deliver_parked() or self._deliver_sends()):
                return

    def run_past_fetch_wait(self) -> None:
        """`run`, and once more after parked fetches were answered because their wait was over."""
        self.run()
        self.advance(600)

    def _deliver_parked(self) -> bool:
        self.collect_all()
        ready = [item for item in self.parked if item[1] in item[0].replies]
        self.parked = [item for item in self.parked if item[1] not in item[0].replies]
        for target, token, send, _ in ready:
            send.on_response(target.replies[token], self.now)
        return bool(ready)

    def _deliver_sends(self) -> bool:
        progress = False
        for broker in self.brokers.values():
            broker.collect()
            fetches = [send for send in broker.sends if send.channel == "fetch"]
            broker.sends = [send for send in broker.sends if send.channel != "fetch"]
            for send in fetches:
                progress = True
                self.deliver(send, broker)
        return progress

    def collect_all(self) -> None:
        for broker in self.brokers.values():
            broker.collect()

    def tick(self, ms_later: int = 0) -> None:
        self.now += ms_later
        for broker in self.brokers.values():
            broker.manager.tick(self.now)
        self.collect_all()

    def advance(self, ms_later: int, step: int = 500) -> None:
        """Advance the time with fetches running."""
        end = self.now + ms_later
        while self.now < end:
            self.tick(min(step, end - self.now))
            self.run()

    # --- the controller ---

    def proposals(self, broker: int) -> list[Send]:
        self[broker].collect()
        return [send for send in self[broker].sends if send.channel == "controller"]

    def take_proposal(self, broker: int) -> Send:
        (send,) = self.proposals(broker)
        self[broker].sends.remove(send)
        return send

    def answer(self, send: Send, partition: Partition | None = None, error: ErrorCode = ErrorCode.none) -> None:
        """Respond to a proposal of partition 0: accepted as `partition`, or refused."""
        send.on_response(alter_response(partition, error), self.now)
        self.collect_all()

    def accept(self, broker: int, partition: Partition) -> Partition:
        """Accept the pending proposal; returns the partition as the controller now has it."""
        send = self.take_proposal(broker)
        entry = send.request.topics[0].partitions[0]
        isr = tuple(member.broker_id for member in entry.new_isr_with_epochs)
        changed = replace(partition, isr=isr, partition_epoch=partition.partition_epoch + 1, recovering=False)
        self.answer(send, changed)
        return changed


def alter_response(partition: Partition | None, error: ErrorCode) -> alter_partition.AlterPartitionResponse:
    entry = alter_partition.ResponsePartition(
        partition_index=0,
        error_code=error,
        leader_id=-1 if partition is None else partition.leader,
        leader_epoch=-1 if partition is None else partition.leader_epoch,
        isr=() if partition is None else partition.isr,
        leader_recovery_state=0 if partition is None else int(partition.recovering),
        partition_epoch=-1 if partition is None else partition.partition_epoch,
    )
    topic = alter_partition.ResponseTopic(topic_id=TOPIC_ID, partitions=(entry,))
    return alter_partition.AlterPartitionResponse(throttle_time=NO_DURATION, error_code=ErrorCode.none, topics=(topic,))


def partition(
    leader: int = 1,
    epoch: int = 0,
    *,
    version: int = 0,
    isr: tuple[int, ...] = (1, 2, 3),
    replicas: tuple[int, ...] = (1, 2, 3),
    index: int = 0,
    topic_id: UUID = TOPIC_ID,
    topic: str = TOPIC,
    recovering: bool = False,
) -> Partition:
    return Partition(
        topic_id=topic_id,
        topic=topic,
        index=index,
        replicas=replicas,
        isr=isr,
        leader=leader,
        leader_epoch=epoch,
        partition_epoch=version,
        recovering=recovering,
    )


def records(count: int = 1, value: bytes = b"v", **fields: Any) -> bytearray:
    return batch.build([batch.NewRecord(None, value) for _ in range(count)], timestamp_ms=1000, **fields)


SIZE = len(records(1))
"""Of a batch with one record."""


def records_size(entry: PartitionData) -> int:
    return 0 if entry.records is None else len(entry.records)


def follower_request(
    shared: Shared,
    replica: int,
    offset: int,
    *,
    epoch: int = 0,
    last_epoch: int = -1,
    broker_epoch: int | None = None,
    index: int = 0,
    session_id: int = 0,
    session_epoch: int = -1,
    max_wait: int = 0,
) -> fetch.FetchRequest:
    replica_epoch = shared.epochs[replica] if broker_epoch is None else broker_epoch
    requested = fetch_partition(offset, epoch=epoch, last_epoch=last_epoch, index=index)
    return fetch.FetchRequest(
        replica_state=fetch.ReplicaState(replica_id=replica, replica_epoch=replica_epoch),
        max_wait=ms(max_wait),
        min_bytes=1,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=(fetch.FetchTopic(topic_id=TOPIC_ID, partitions=(requested,)),),
        forgotten_topics_data=(),
    )


def fetch_partition(
    offset: int, *, epoch: int = -1, last_epoch: int = -1, index: int = 0, max_bytes: int = 1 << 20
) -> fetch.FetchPartition:
    return fetch.FetchPartition(
        partition=index,
        current_leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        partition_max_bytes=max_bytes,
    )


def consumer_request(
    *requested: fetch.FetchPartition,
    max_wait: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    session_id: int = 0,
    session_epoch: int = -1,
    isolation: int = 0,
) -> fetch.FetchRequest:
    topics = (fetch.FetchTopic(topic_id=TOPIC_ID, partitions=requested),) if requested else ()
    return fetch.FetchRequest(
        max_wait=ms(max_wait),
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=topics,
        forgotten_topics_data=(),
    )


def epochs_of(replica: Replica) -> list[int]:
    """The leader epoch of each record, offset by offset."""
    log = replica.log
    return [h.leader_epoch for h in log.iter_headers(log.log_start, log.leo) for _ in range(h.count)]


def leader_and_follower() -> Harness:
    """Brokers 1, which leads, and 2, both in the ISR."""
    h = Harness((1, 2))
    h.apply(partition(replicas=(1, 2), isr=(1, 2)))
    return h
