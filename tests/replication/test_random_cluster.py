"""Three brokers and a toy controller under random loss, delay, elections, fencing and restarts.

The controller follows the rules that matter here: it elects from the ISR only, removes fenced brokers, and accepts an
AlterPartition only on its current partition epoch with eligible members. What leaders committed is remembered, and
must stay on every member of the controller's ISR for good (S1, S3, S8).
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

import pytest

from insync.metadata.partition import Partition
from insync.replication.config import ReplicationConfig
from insync.replication.leader import leader_of
from insync.sansio import Note, Reply, Send
from insync.wire.errors import ErrorCode
from insync.wire.messages import produce
from insync.wire.types import ms
from tests.replication.replication_harness import TOPIC_ID, Broker, Shared, alter_response, partition, records

BROKERS = (1, 2, 3)
MIN_ISR = 2


class Call(NamedTuple):
    """A request in flight; its response is for one incarnation of its sender only."""

    origin: int
    incarnation: int
    send: Send


class World:
    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.now = 0
        self.partition = partition()
        self.epochs = {broker: 100 + broker for broker in BROKERS}
        self.fenced: dict[int, None] = {}
        config = ReplicationConfig(replica_lag_time_max_ms=2000, replica_fetch_backoff_ms=200)
        self.brokers = {broker: Broker(broker, Shared(BROKERS, MIN_ISR), config) for broker in BROKERS}
        self.requests: list[Call] = []
        self.waiting: dict[tuple[int, int], Call] = {}
        self.answers: list[tuple[Call, Any]] = []
        self.incarnation = dict.fromkeys(BROKERS, 0)
        self.committed: list[tuple[int, bytes]] = []
        self.sent: dict[tuple[int, int], bytes] = {}
        self.acknowledged = 0
        self.notes: dict[str, int] = {}
        for broker in BROKERS:
            self.catch_up(broker)

    # --- effects ---

    def collect(self) -> None:
        self.remember_changes()
        for broker in self.brokers.values():
            for effect in broker.out.drain():
                if isinstance(effect, Send):
                    self.requests.append(Call(broker.id, self.incarnation[broker.id], effect))
                elif isinstance(effect, Note):
                    self.notes[effect.kind] = self.notes.get(effect.kind, 0) + 1
                elif isinstance(effect, Reply):
                    self.replied(broker, effect)

    def replied(self, broker: Broker, reply: Reply) -> None:
        call = self.waiting.pop((broker.id, reply.token), None)
        if call is not None:
            self.answers.append((call, reply.response))
        value = self.sent.pop((broker.id, reply.token), None)
        if value is not None and reply.response is not None:
            entry = reply.response.responses[0].partition_responses[0]
            if entry.error_code is ErrorCode.none:
                self.acknowledged += 1
                assert value in self.committed[entry.base_offset][1], "acknowledged, so committed at that offset"

    # --- steps ---

    def step(self) -> None:
        steps = [self.deliver] * 12 + [self.answer] * 12 + [self.produce] * 4 + [self.tick] * 2
        steps += [self.catch_up_one] * 5 + [self.lose, self.unfence]
        if self.rng.random() < 0.3:
            steps += [self.elect, self.fence, self.restart]
        self.rng.choice(steps)()
        self.collect()
        self.check()

    def deliver(self) -> None:
        if not self.requests:
            return
        call = self.requests.pop(self.rng.randrange(len(self.requests)))
        if call.send.channel == "controller":
            self.answers.append((call, self.alter(call.send.request)))
            return
        target = self.brokers[call.send.peer]
        token = target.next_token()
        self.waiting[target.id, token] = call
        target.manager.fetch(call.send.request, token, self.now)

    def answer(self) -> None:
        if self.answers:
            self.respond(*self.answers.pop(self.rng.randrange(len(self.answers))))

    def lose(self) -> None:
        """A request before it arrives, or a response on its way back."""
        if self.requests and self.rng.random() < 0.5:
            self.respond(self.requests.pop(self.rng.randrange(len(self.requests))), None)
        elif self.answers:
            self.respond(self.answers.pop(self.rng.randrange(len(self.answers)))[0], None)

    def respond(self, call: Call, response: Any) -> None:
        if self.incarnation[call.origin] == call.incarnation:
            call.send.on_response(response, self.now)

    def produce(self) -> None:
        broker = self.brokers[self.rng.choice(BROKERS)]
        token = broker.next_token()
        value = b"%d/%d/%d" % (broker.id, self.incarnation[broker.id], token)
        data = produce.PartitionProduceData(index=0, records=bytes(records(1, value)))
        topic = produce.TopicProduceData(topic_id=TOPIC_ID, partition_data=(data,))
        self.sent[broker.id, token] = value
        acks = self.rng.choice([-1, -1, 1])
        if acks == 1:
            del self.sent[broker.id, token]
        request = produce.ProduceRequest(acks=acks, timeout=ms(1500), topic_data=(topic,))
        broker.manager.produce(request, token, self.now)

    def tick(self) -> None:
        self.now += self.rng.choice([20, 100, 500])
        for broker in self.brokers.values():
            broker.manager.tick(self.now)
            self.collect()

    def catch_up_one(self) -> None:
        self.catch_up(self.rng.choice(BROKERS))

    def catch_up(self, broker_id: int) -> None:
        """Q7: a broker applies everything that happened since it last did, merged."""
        broker = self.brokers[broker_id]
        broker.shared.epochs = dict(self.epochs)
        broker.shared.fenced = list(self.fenced)
        broker.manager.apply([self.partition], [], self.now)

    def restart(self) -> None:
        """A crash that keeps the page cache, and a new incarnation."""
        broker_id = self.rng.choice(BROKERS)
        self.fence(broker_id)
        broker = self.brokers[broker_id]
        self.incarnation[broker_id] += 1
        self.epochs[broker_id] = max(self.epochs.values()) + 1
        self.requests = [call for call in self.requests if call.origin != broker_id]
        self.sent = {key: value for key, value in self.sent.items() if key[0] != broker_id}
        for key, call in list(self.waiting.items()):
            if key[0] == broker_id:
                del self.waiting[key]
                self.respond(call, None)
        broker.boot()
        self.catch_up(broker_id)

    # --- the controller ---

    def elect(self) -> None:
        candidates = [b for b in self.partition.isr if b not in self.fenced and b != self.partition.leader]
        if candidates:
            self.lead(self.rng.choice(candidates), self.partition.isr)

    def lead(self, leader: int, isr: tuple[int, ...]) -> None:
        self.partition = replace(
            self.partition,
            leader=leader,
            isr=isr,
            leader_epoch=self.partition.leader_epoch + 1,
            partition_epoch=self.partition.partition_epoch + 1,
        )

    def fence(self, broker: int | None = None) -> None:
        broker = self.rng.choice(BROKERS) if broker is None else broker
        self.fenced[broker] = None
        isr = tuple(b for b in self.partition.isr if b != broker) or self.partition.isr
        live = [b for b in isr if b not in self.fenced]
        if self.partition.leader == broker:
            self.lead(live[0] if live else -1, isr)
        elif isr != self.partition.isr:
            self.partition = replace(self.partition, isr=isr, partition_epoch=self.partition.partition_epoch + 1)

    def unfence(self) -> None:
        if self.fenced:
            broker = self.rng.choice(list(self.fenced))
            del self.fenced[broker]
            if self.partition.leader == -1 and broker in self.partition.isr:
                self.lead(broker, self.partition.isr)

    def alter(self, request: Any) -> Any:
        entry = request.topics[0].partitions[0]
        error = self.find_error(request, entry)
        if error is ErrorCode.none:
            isr = tuple(member.broker_id for member in entry.new_isr_with_epochs)
            epoch = self.partition.partition_epoch + 1
            self.partition = replace(self.partition, isr=isr, partition_epoch=epoch)
        return alter_response(self.partition, error)

    def find_error(self, request: Any, entry: Any) -> ErrorCode:
        current: Partition = self.partition
        if request.broker_epoch != self.epochs[request.broker_id]:
            return ErrorCode.not_controller
        if entry.leader_epoch < current.leader_epoch:
            return ErrorCode.fenced_leader_epoch
        if entry.partition_epoch < current.partition_epoch:
            return ErrorCode.invalid_update_version
        for member in entry.new_isr_with_epochs:
            stale = member.broker_epoch not in (-1, self.epochs[member.broker_id])
            if stale or member.broker_id in self.fenced:
                return ErrorCode.ineligible_replica
        return ErrorCode.none

    # --- properties ---

    def remember_changes(self) -> None:
        for broker in self.brokers.values():
            for replica in broker.manager.changed:
                if leader_of(replica) is not None:
                    self.remember(self.contents(broker), replica.log.hwm)
            broker.manager.changed.clear()

    def check(self) -> None:
        for member in self.partition.isr:
            held = self.contents(self.brokers[member])
            assert held[: len(self.committed)] == self.committed, f"S3: member {member} of the ISR lacks committed data"

    def remember(self, held: list[tuple[int, bytes]], hwm: int) -> None:
        known = min(hwm, len(self.committed))
        assert held[:known] == self.committed[:known], "S8: what was committed has changed"
        self.committed.extend(held[len(self.committed) : hwm])

    def contents(self, broker: Broker) -> list[tuple[int, bytes]]:
        log = broker.replica().log
        held = []
        offset = 0
        while offset < log.leo:
            data = log.read(offset, 1, limit_offset=log.leo)
            header_epoch = int.from_bytes(data[12:16], "big")
            held.append((header_epoch, data[61:]))
            offset += 1
        return held

    def calm(self) -> None:
        """Faults stop: everything is delivered in order, and every broker catches up."""
        while self.fenced:
            self.unfence()
        for _ in range(60):
            for broker in BROKERS:
                self.catch_up(broker)
            self.tick()
            self.collect()
            while self.requests or self.answers:
                self.deliver()
                self.answer()
                self.collect()
            self.check()


def run(seed: int, steps: int) -> World:
    world = World(seed)
    for _ in range(steps):
        world.step()
    world.calm()
    return world


@pytest.mark.parametrize("seed", range(12))
def test_what_is_committed_stays_on_every_member_of_the_isr(seed: int) -> None:
    """H1, I2, I3, T1-T6, D3, F4-F6 together: S1, S3, S8 hold; once faults stop all replicas agree and are in sync."""
    world = run(seed, 250)
    logs = [world.contents(broker) for broker in world.brokers.values()]
    assert logs[0] == logs[1] == logs[2]
    assert sorted(world.partition.isr) == list(BROKERS)
    assert world.brokers[world.partition.leader].replica().log.hwm == len(logs[0])


def test_the_random_runs_reach_the_interesting_paths() -> None:
    """D3, I3, F6: truncations, refusals, overtaken proposals and late responses happen, and writes are acknowledged."""
    seen: dict[str, int] = {}
    acknowledged = 0
    for seed in range(1000, 1010):
        world = run(seed, 400)
        acknowledged += world.acknowledged
        for kind, count in world.notes.items():
            seen[kind] = seen.get(kind, 0) + count
    wanted = ("truncated", "isr_committed", "isr_refused", "alter_partition_overtaken", "late_fetch_answer_dropped")
    assert [kind for kind in wanted if not seen.get(kind)] == []
    assert acknowledged > 20
