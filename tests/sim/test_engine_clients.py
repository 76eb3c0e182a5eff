"""Simulated clients: they retry as Kafka's do and record exactly what they got."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any
from uuid import UUID

from insync.properties.history import Acked, Failed, History, ListedOffset, Read, Sent
from insync.sim.engine.connection import Connection
from insync.sim.engine.engine import Engine
from insync.sim.engine.network import Network
from insync.sim.plans.plan import ClientPlan
from insync.sim.workload.client import Client
from insync.sim.workload.consumer import Consumer, Lister
from insync.sim.workload.producer import Producer
from insync.wire import batch
from insync.wire.errors import ErrorCode
from insync.wire.messages import fetch, init_producer_id, list_offsets, metadata, produce
from insync.wire.types import NO_DURATION

TOPIC_ID = UUID(int=99)


class Broker:
    """Leads one partition, keeps every produce request, and answers with the error that `respond` returns."""

    def __init__(self, network: Network) -> None:
        self.id = 1
        self.generation = 1
        self.alive = True
        self.powered_off = False
        self.network = network
        self.produced: list[batch.BatchHeader] = []
        self.respond: Callable[[int, batch.BatchHeader], ErrorCode | None] = lambda _n, _h: ErrorCode.none
        self.log = b""
        self.producer_ids = 0
        self.fetches: list[int] = []
        network.attach(self)

    def on_request(self, connection: Connection, correlation: int, request: Any) -> None:
        answer = {
            metadata.MetadataRequest: self._metadata,
            produce.ProduceRequest: self._produce,
            init_producer_id.InitProducerIdRequest: self._init,
            fetch.FetchRequest: self._fetch,
            list_offsets.ListOffsetsRequest: self._list,
        }[type(request)](request)
        if answer is not None:
            self.network.reply(connection, correlation, answer)

    def on_response(self, send: Any, response: Any) -> None: ...
    def on_peer_lost(self, peer: int) -> None: ...

    def _metadata(self, request: Any) -> Any:
        partition = metadata.MetadataResponsePartition(
            error_code=ErrorCode.none, partition_index=0, leader_id=1, leader_epoch=4
        )
        topic = metadata.MetadataResponseTopic(
            error_code=ErrorCode.none, name="t0", topic_id=TOPIC_ID, partitions=(partition,)
        )
        return metadata.MetadataResponse(
            throttle_time=NO_DURATION, brokers=(), topics=(topic,), error_code=ErrorCode.none
        )

    def _produce(self, request: Any) -> Any:
        header = batch.read_header(request.topic_data[0].partition_data[0].records)
        self.produced.append(header)
        error = self.respond(len(self.produced), header)
        if error is None or request.acks == 0:
            return None
        partition = produce.PartitionProduceResponse(
            index=0, error_code=error, base_offset=len(self.produced) * 10, record_errors=()
        )
        return produce.ProduceResponse(
            responses=(produce.TopicProduceResponse(topic_id=TOPIC_ID, partition_responses=(partition,)),)
        )

    def _init(self, request: Any) -> Any:
        self.producer_ids += 1
        return init_producer_id.InitProducerIdResponse(
            throttle_time=NO_DURATION, error_code=ErrorCode.none, producer_id=self.producer_ids, producer_epoch=0
        )

    def _fetch(self, request: Any) -> Any:
        offset = request.topics[0].partitions[0].fetch_offset
        self.fetches.append(offset)
        error = ErrorCode.offset_out_of_range if offset < 5 else ErrorCode.none
        data = fetch.PartitionData(
            partition_index=0,
            error_code=error,
            high_watermark=8,
            aborted_transactions=None,
            records=self.log if offset < 8 else b"",
        )
        topic = fetch.FetchableTopicResponse(topic_id=TOPIC_ID, partitions=(data,))
        return fetch.FetchResponse(throttle_time=NO_DURATION, error_code=ErrorCode.none, responses=(topic,))

    def _list(self, request: Any) -> Any:
        timestamp = request.topics[0].partitions[0].timestamp
        partition = list_offsets.ListOffsetsPartitionResponse(
            partition_index=0, error_code=ErrorCode.none, offset=5 if timestamp == -2 else 8
        )
        topic = list_offsets.ListOffsetsTopicResponse(name="t0", partitions=(partition,))
        return list_offsets.ListOffsetsResponse(throttle_time=NO_DURATION, topics=(topic,))


class World:
    def __init__(self) -> None:
        self.engine = Engine()
        self.network = Network(self.engine, random.Random(1))
        self.broker = Broker(self.network)
        self.history = History()
        self.client = Client(-2, self.network, random.Random(2), (1,), 300)

    def producer(self, **fields: Any) -> Producer:
        plan = ClientPlan(client_id=-2, kind="producer", every_ms=50, **fields)
        made = Producer(self.client, plan, self.history, ("t0",))
        made.start()
        return made

    def run(self, ms: int) -> None:
        self.engine.run_until(self.engine.now + ms * 1_000)

    def seen(self, kind: type) -> list[Any]:
        return [record for record in self.history if isinstance(record, kind)]


def test_an_acknowledged_batch_is_recorded_with_its_offset() -> None:
    world = World()
    world.producer()
    world.run(500)
    sent, acked = world.seen(Sent), world.seen(Acked)
    assert len(acked) >= 3
    assert [record.op for record in acked] == [record.op for record in sent[: len(acked)]]
    assert acked[0].base_offset == 10
    assert sent[0].crc == world.broker.produced[0].crc
    assert sent[0].partition == (TOPIC_ID, 0)


def test_a_refused_batch_is_sent_again_with_the_same_sequence() -> None:
    """P4: a retry is the same batch, so that the broker recognises it."""
    world = World()
    world.broker.respond = lambda n, _h: ErrorCode.not_leader_or_follower if n == 1 else ErrorCode.none
    world.producer(idempotent=True)
    world.run(500)
    first, second = world.broker.produced[:2]
    assert (first.base_sequence, first.crc) == (0, second.crc)
    assert world.broker.produced[2].base_sequence == 1
    assert len(world.seen(Sent)) == len(world.seen(Acked))


def test_a_batch_without_a_response_is_sent_again_over_a_new_connection() -> None:
    world = World()
    world.broker.respond = lambda n, _h: None if n == 1 else ErrorCode.none
    world.producer(idempotent=True)
    world.run(800)
    assert world.broker.produced[0].crc == world.broker.produced[1].crc
    assert world.network.stats["request_timeout"] == 1
    assert world.seen(Acked)[0].base_offset == 20


def test_a_pipeline_is_sent_again_in_order_after_a_failure() -> None:
    world = World()

    def respond(n: int, header: batch.BatchHeader) -> ErrorCode:
        if n == 1:
            return ErrorCode.not_enough_replicas
        seen = [header.base_sequence for header in world.broker.produced[1:]]
        return ErrorCode.none if seen == sorted(seen) and 0 in seen else ErrorCode.out_of_order_sequence_number

    world.broker.respond = respond
    world.producer(idempotent=True, in_flight=4)
    world.run(1_000)
    assert not world.seen(Failed)
    assert len(world.seen(Acked)) > 5


def test_a_producer_whose_batch_failed_gets_a_new_producer_id() -> None:
    """P4: a gap in the sequence would make every later batch out of order."""
    world = World()
    world.broker.respond = lambda n, _h: ErrorCode.out_of_order_sequence_number if n == 1 else ErrorCode.none
    world.producer(idempotent=True)
    world.run(600)
    assert [record.error for record in world.seen(Failed)] == ["out_of_order_sequence_number"]
    assert world.broker.producer_ids == 2
    assert (world.broker.produced[1].producer_id, world.broker.produced[1].base_sequence) == (2, 0)


def test_a_batch_fails_after_its_delivery_timeout() -> None:
    world = World()
    world.broker.respond = lambda _n, _h: ErrorCode.not_enough_replicas
    producer = world.producer()
    world.run(300)
    world.client.active = False
    world.run(4_000)
    assert producer.unanswered == 0
    assert len(world.seen(Failed)) == len(world.seen(Sent)) == 1


def test_acks_0_counts_as_acknowledged_when_it_is_sent() -> None:
    """P1: acks=0 gets no response."""
    world = World()
    world.producer(acks=0)
    world.run(300)
    assert len(world.seen(Acked)) == len(world.seen(Sent)) > 2
    assert {record.base_offset for record in world.seen(Acked)} == {-1}
    world.run(2_000)
    assert world.network.stats["request_timeout"] == 0


def test_every_value_is_unique() -> None:
    world = World()
    world.producer(max_records=3)
    world.run(500)
    assert len({header.crc for header in world.broker.produced}) == len(world.broker.produced)


def test_a_consumer_below_the_log_start_continues_at_the_earliest_offset() -> None:
    world = World()
    records = [batch.NewRecord(None, b"v%d" % i) for i in range(3)]
    world.broker.log = bytes(batch.build(records, base_offset=5, leader_epoch=4, timestamp_ms=1))
    plan = ClientPlan(client_id=-2, kind="consumer", every_ms=50)
    Consumer(world.client, plan, world.history, ("t0",)).start()
    world.run(800)
    reads = world.seen(Read)
    assert world.broker.fetches[0] == 0
    assert reads[0].offset == 5
    fetched = reads[0].batches[0]
    assert (fetched.base_offset, fetched.last_offset, fetched.leader_epoch) == (5, 7, 4)
    assert (reads[0].hwm, reads[0].leader_epoch) in ((8, 4), (8, -1))
    assert 8 in world.broker.fetches


def test_a_lister_records_the_latest_offset() -> None:
    world = World()
    plan = ClientPlan(client_id=-2, kind="lister", every_ms=50)
    Lister(world.client, plan, world.history, ("t0",)).start()
    world.run(400)
    listed = world.seen(ListedOffset)
    assert {record.offset for record in listed} == {8}
    assert all(record.started < record.time for record in listed)
