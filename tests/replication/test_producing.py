"""Produce: acknowledgements, MinISR, idempotence and refusals; and queries about offsets."""

from __future__ import annotations

import gc
from uuid import UUID

import pytest

from insync.replication.purgatory import Waiter
from insync.storage.config import LogConfig
from insync.wire import batch
from insync.wire.errors import ErrorCode
from insync.wire.messages import (
    get_replica_log_info,
    list_offsets,
    offset_for_leader_epoch,
    produce,
)
from insync.wire.types import NO_DURATION, ms
from tests.replication.replication_harness import TOPIC, TOPIC_ID, Harness, leader_and_follower, partition, records

OK = ErrorCode.none


def alone(**shared: object) -> Harness:
    h = Harness((1,))
    for name, value in shared.items():
        setattr(h.shared, name, value)
    h.apply(partition(replicas=(1,), isr=(1,)))
    return h


def test_acks_0_gets_no_response_and_acks_1_one_after_the_append() -> None:
    """P1."""
    h = Harness()
    h.apply(partition(), 1)
    silent = h.produce(1, records(2), acks=0)
    assert h[1].replies[silent] is None
    assert h[1].replica().log.leo == 2
    assert h.produced(1, h.produce(1, records(1), acks=1)) == [(OK, 2)]


def test_acks_all_is_answered_when_the_hwm_has_passed_its_last_offset() -> None:
    """P1, H5: not one record earlier."""
    h = Harness()
    h.apply(partition(isr=(1, 2)), 1)
    token = h.produce(1, records(3))
    h.follower_fetch(1, 2, 0)
    h.follower_fetch(1, 2, 2)
    assert h.produced(1, token) is None
    h.follower_fetch(1, 2, 3)
    assert h.produced(1, token) == [(OK, 0)]


def test_a_produce_that_is_answered_leaves_nothing_for_the_garbage_collector() -> None:
    """P3: its objects are freed at once. Reference cycles would pile up, at five objects a request."""
    h = Harness()
    h.apply(partition(isr=(1, 2)), 1)
    gc.collect()
    gc.disable()
    try:
        for count in range(1, 6):
            token = h.produce(1, records(1))
            h.follower_fetch(1, 2, count)
            assert h.produced(1, token) == [(OK, count - 1)]
        left = [obj for obj in gc.get_objects() if isinstance(obj, Waiter)]
    finally:
        gc.enable()
    assert left == []


def test_other_acks_are_refused() -> None:
    """P1."""
    h = alone()
    assert h.produced(1, h.produce(1, records(1), acks=2)) == [(ErrorCode.invalid_required_acks, -1)]
    assert h[1].replica().log.leo == 0


def test_a_request_of_many_partitions_is_answered_once_all_are_decided() -> None:
    """P1: each partition has its own outcome."""
    h = Harness((1, 2))
    h[1].manager.apply([partition(replicas=(1, 2), isr=(1, 2), index=index) for index in (0, 1)], [], 0)
    token = h.produce(1, records(1), records(1), records(1))
    h.follower_fetch(1, 2, 1, index=0)
    assert h.produced(1, token) is None
    h.follower_fetch(1, 2, 1, index=1)
    assert h.produced(1, token) == [(OK, 0), (OK, 0), (ErrorCode.not_leader_or_follower, -1)]


def test_below_min_isr_acks_all_appends_nothing_and_acks_1_goes_on() -> None:
    """P2."""
    h = Harness(min_isr=2)
    h.apply(partition(isr=(1,)), 1)
    assert h.produced(1, h.produce(1, records(1))) == [(ErrorCode.not_enough_replicas, -1)]
    assert h[1].replica().log.leo == 0
    assert h.produced(1, h.produce(1, records(1), acks=1)) == [(OK, 0)]


def test_a_produce_waits_without_a_worker_and_times_out() -> None:
    """P3: the records stay and may commit later."""
    h = Harness()
    h.apply(partition(isr=(1, 2)), 1)
    token = h.produce(1, records(1), timeout=300)
    assert h[1].manager.next_deadline() == 300
    h.tick(299)
    assert h.produced(1, token) is None
    h.tick(1)
    assert h.produced(1, token) == [(ErrorCode.request_timed_out, -1)]
    h.follower_fetch(1, 2, 1)
    assert h[1].replica().log.hwm == 1
    assert not h[1].replica().waiting


def test_a_request_that_times_out_keeps_what_was_committed_in_it() -> None:
    """P3: REQUEST_TIMED_OUT is only for the partitions that were not committed in time."""
    h = Harness((1, 2))
    h[1].manager.apply([partition(replicas=(1, 2), isr=(1, 2), index=index) for index in (0, 1)], [], 0)
    token = h.produce(1, records(1), records(1), timeout=300)
    h.follower_fetch(1, 2, 1, index=1)
    h.tick(300)
    assert h.produced(1, token) == [(ErrorCode.request_timed_out, -1), (OK, 0)]


def test_a_duplicate_is_acknowledged_with_its_first_offset_and_stored_once() -> None:
    """P4."""
    h = alone()
    first = records(2, producer_id=5, producer_epoch=0, base_sequence=0)
    assert h.produced(1, h.produce(1, first)) == [(OK, 0)]
    h.produce(1, records(1, producer_id=5, producer_epoch=0, base_sequence=2))
    assert h.produced(1, h.produce(1, first)) == [(OK, 0)]
    assert h[1].replica().log.leo == 3
    assert h[1].notes_of("duplicate_produce") == [{"partition": "t-0", "producer": 5, "base_offset": 0}]


def test_a_duplicate_with_acks_all_waits_for_the_hwm_like_the_first() -> None:
    """P4, H5: in the order of offsets, not of arrival."""
    h = Harness()
    h.apply(partition(isr=(1, 2)), 1)
    first = records(1, producer_id=5, producer_epoch=0, base_sequence=0)
    h.produce(1, first)
    later = h.produce(1, records(1, producer_id=5, producer_epoch=0, base_sequence=1))
    again = h.produce(1, first)
    assert h.produced(1, again) is None
    h.follower_fetch(1, 2, 1)
    assert h.produced(1, again) == [(OK, 0)]
    assert h.produced(1, later) is None


def test_a_gap_and_an_old_epoch_are_refused() -> None:
    """P4."""
    h = alone()
    h.produce(1, records(1, producer_id=5, producer_epoch=1, base_sequence=0))
    gap = records(1, producer_id=5, producer_epoch=1, base_sequence=2)
    old = records(1, producer_id=5, producer_epoch=0, base_sequence=1)
    assert h.produced(1, h.produce(1, gap)) == [(ErrorCode.out_of_order_sequence_number, -1)]
    assert h.produced(1, h.produce(1, old)) == [(ErrorCode.invalid_producer_epoch, -1)]
    assert h[1].replica().log.leo == 1


def test_idempotence_survives_a_leader_change() -> None:
    """P4: followers rebuild the producer state from the records they copy."""
    h = leader_and_follower()
    first = records(2, producer_id=5, producer_epoch=0, base_sequence=0)
    h.produce(1, first)
    h.run()
    h.apply(partition(2, 1, version=1, replicas=(1, 2), isr=(2,)))
    assert h.produced(2, h.produce(2, first)) == [(OK, 0)]
    assert h[2].replica().log.leo == 2


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        ("crc", ErrorCode.corrupt_message),
        ("magic", ErrorCode.unsupported_for_message_format),
        ("cut", ErrorCode.corrupt_message),
        ("two", ErrorCode.invalid_record),
        ("empty", ErrorCode.invalid_record),
        ("control", ErrorCode.invalid_record),
        ("large", ErrorCode.message_too_large),
    ],
)
def test_a_bad_batch_is_refused_and_nothing_of_it_stored(damage: str, error: ErrorCode) -> None:
    """P5: a valid batch in the same request is stored."""
    h = alone(log_config=LogConfig(max_message_bytes=1000))
    h[1].manager.apply([partition(replicas=(1,), isr=(1,), index=1)], [], 0)
    data = records(1)
    match damage:
        case "crc":
            data[-1] ^= 0xFF
        case "magic":
            data[16] = 1
        case "cut":
            del data[-1:]
        case "two":
            data += records(1)
        case "empty":
            data.clear()
        case "control":
            data = batch.build([batch.NewRecord(b"k", b"v")], timestamp_ms=0, control=True)
        case _:
            data = records(1, b"x" * 2000)
    token = h.produce(1, data, records(1))
    assert h.produced(1, token) == [(error, -1), (OK, 0)]
    assert h[1].replica().log.leo == 0


def test_an_unknown_topic_and_a_partition_led_elsewhere_are_refused() -> None:
    """P1, F3: the latter with a hint at the leader."""
    h = Harness()
    h.apply(partition(2, 4), 1)
    token = h.produce(1, records(1))
    entry = h[1].replies[token].responses[0].partition_responses[0]
    assert entry.error_code is ErrorCode.not_leader_or_follower
    assert (entry.current_leader.leader_id, entry.current_leader.leader_epoch) == (2, 4)
    topic = produce.TopicProduceData(
        topic_id=UUID(int=0x99), partition_data=(produce.PartitionProduceData(index=0, records=bytes(records(1))),)
    )
    h[1].manager.produce(produce.ProduceRequest(acks=-1, timeout=ms(1), topic_data=(topic,)), 77, 0)
    h[1].collect()
    assert h.produced(1, 77) == [(ErrorCode.unknown_topic_id, -1)]


def test_log_append_time_is_wall_clock_time() -> None:
    """P1: not the broker's monotonic time."""
    h = Harness((1,), wall_offset_ms=1_700_000_000_000)
    h.shared.log_config = LogConfig(log_append_time=True)
    h.apply(partition(replicas=(1,), isr=(1,)))
    h.now = 5
    token = h.produce(1, records(1))
    entry = h[1].replies[token].responses[0].partition_responses[0]
    assert entry.log_append_time.timestamp() == 1_700_000_000.005


# --- offsets ---


def test_list_offsets_knows_earliest_latest_timestamps_and_leader_epochs() -> None:
    """H4, F3."""
    h = alone()
    for stamp in (1000, 3000, 2000):
        h.produce(1, batch.build([batch.NewRecord(None, b"v")], timestamp_ms=stamp))
    assert h.list_offsets(1, -1).offset == 3
    assert h.list_offsets(1, -2).offset == 0
    newest = h.list_offsets(1, -3)
    assert (newest.offset, newest.timestamp) == (1, 3000)
    entry = h.list_offsets(1, 1500)
    assert (entry.offset, entry.timestamp, entry.leader_epoch) == (1, 3000, 0)
    missing = h.list_offsets(1, 9999)
    assert (missing.error_code, missing.offset, missing.timestamp) == (OK, -1, -1)
    assert h.list_offsets(1, -1, epoch=3).error_code is ErrorCode.unknown_leader_epoch


def test_list_offsets_refuses_a_repeated_partition_and_an_unknown_special_timestamp() -> None:
    """As Kafka does."""
    h = alone()
    entry = list_offsets.ListOffsetsPartition(partition_index=0, timestamp=-1)
    topic = list_offsets.ListOffsetsTopic(name=TOPIC, partitions=(entry, entry))
    request = list_offsets.ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=(topic,), timeout=NO_DURATION)
    token = h[1].next_token()
    h[1].manager.list_offsets(request, token, h.now)
    h[1].collect()
    entries = h[1].replies[token].topics[0].partitions
    assert {answer.error_code for answer in entries} == {ErrorCode.invalid_request}
    assert h.list_offsets(1, -7).error_code is ErrorCode.unsupported_version


def test_list_offsets_of_a_log_that_is_all_local() -> None:
    """W20: nothing is tiered, so the earliest local offset is the earliest, and there is no latest tiered one."""
    h = alone()
    empty = h.list_offsets(1, -3)
    assert (empty.error_code, empty.offset, empty.timestamp) == (OK, -1, -1)
    h.write(1, 4)
    h[1].replica().log.delete_records(2)
    assert h.list_offsets(1, -2).offset == h.list_offsets(1, -4).offset == 2
    tiered = h.list_offsets(1, -5)
    assert (tiered.error_code, tiered.offset, tiered.timestamp) == (OK, -1, -1)


def test_a_timestamp_beyond_a_stale_hwm_is_not_available_rather_than_missing() -> None:
    """H4: the record may be there and committed."""
    h = Harness()
    h.apply(partition(), 1)
    h.write(1)
    h.apply(partition(1, 1, version=1), 1)
    assert h.list_offsets(1, 500).error_code is ErrorCode.offset_not_available
    assert h.list_offsets(1, -2).error_code is OK
    assert h.list_offsets(1, -1, replica_id=2).offset == 1


def test_list_offsets_is_refused_by_a_replica_that_does_not_lead() -> None:
    """F3."""
    h = Harness()
    h.apply(partition(2), 1)
    assert h.list_offsets(1, -1).error_code is ErrorCode.not_leader_or_follower
    h[1].manager.apply([], [(TOPIC_ID, 0)], 0)
    assert h.list_offsets(1, -1).error_code is ErrorCode.not_leader_or_follower  # other brokers have the partition
    del h.shared.topics[TOPIC_ID]
    assert h.list_offsets(1, -1).error_code is ErrorCode.unknown_topic_or_partition


def test_offset_for_leader_epoch_finds_the_end_of_an_epoch() -> None:
    """D2: the highest epoch not above the requested one, and its end; nothing for an epoch that never existed."""
    h = alone()
    h.write(1, 2)
    h.apply(partition(1, 4, version=1, replicas=(1,), isr=(1,)))
    h.write(1, 1)

    def end_of_epoch(epoch: int) -> tuple[int, int]:
        query = offset_for_leader_epoch.OffsetForLeaderPartition(
            partition=0, current_leader_epoch=4, leader_epoch=epoch
        )
        topic = offset_for_leader_epoch.OffsetForLeaderTopic(topic=TOPIC, partitions=(query,))
        request = offset_for_leader_epoch.OffsetForLeaderEpochRequest(topics=(topic,))
        h[1].manager.offset_for_leader_epoch(request, 500, h.now)
        h[1].collect()
        entry = h[1].replies[500].topics[0].partitions[0]
        return entry.leader_epoch, entry.end_offset

    assert [end_of_epoch(epoch) for epoch in (0, 2, 4, 5)] == [(0, 2), (0, 2), (4, 3), (-1, -1)]


def test_replica_log_info_has_the_last_written_epoch_and_the_log_end() -> None:
    """E6: an epoch in which nothing was written does not make a log newer."""
    h = alone()
    h.write(1, 2)
    h.apply(partition(1, 4, version=1, replicas=(1,), isr=(1,)))
    query = get_replica_log_info.TopicPartitions(topic_id=TOPIC_ID, partitions=(0, 2))
    request = get_replica_log_info.GetReplicaLogInfoRequest(topic_partitions=(query,))
    h[1].manager.get_replica_log_info(request, 500, h.now)
    h[1].collect()
    answer = h[1].replies[500]
    assert answer.broker_epoch == 101
    here, elsewhere = answer.topic_partition_log_info_list[0].partition_log_info
    assert (here.last_written_leader_epoch, here.current_leader_epoch, here.log_end_offset) == (0, 4, 2)
    assert elsewhere.error_code is ErrorCode.not_leader_or_follower
