"""DeleteRecords: what is deleted, and when the request is answered."""

from __future__ import annotations

from dataclasses import replace

import pytest

from insync.replication import delete_records as deleting
from insync.wire.errors import ErrorCode
from insync.wire.messages import delete_records, fetch
from insync.wire.types import ms
from tests.replication.replication_harness import TOPIC, TOPIC_ID, Harness, follower_request, partition

OK = ErrorCode.none


def delete(h: Harness, before: int, timeout: int = 1_000, broker: int = 1) -> int:
    requested = delete_records.DeleteRecordsPartition(partition_index=0, offset=before)
    topic = delete_records.DeleteRecordsTopic(name=TOPIC, partitions=(requested,))
    request = delete_records.DeleteRecordsRequest(topics=(topic,), timeout=ms(timeout))
    token = h[broker].next_token()
    h[broker].manager.delete_records(request, token, h.now)
    h[broker].collect()
    return token


def result(h: Harness, token: int, broker: int = 1) -> tuple[ErrorCode, int] | None:
    h[broker].collect()
    if token not in h[broker].replies:
        return None
    entry = h[broker].replies[token].topics[0].partitions[0]
    return entry.error_code, entry.low_watermark


def fetch_with_log_start(h: Harness, replica: int, offset: int, log_start: int) -> None:
    request = follower_request(h.shared, replica, offset)
    entry = replace(request.topics[0].partitions[0], log_start_offset=log_start)
    h.fetch(1, replace(request, topics=(fetch.FetchTopic(topic_id=TOPIC_ID, partitions=(entry,)),)))


def pair() -> Harness:
    """A leader with five committed records and one follower."""
    h = Harness((1, 2))
    h.apply(partition(replicas=(1, 2), isr=(1, 2)), 1)
    h.write(1, 5)
    fetch_with_log_start(h, 2, 5, 0)
    return h


def test_records_are_deleted_up_to_the_hwm_only() -> None:
    """H5: uncommitted records are not deleted."""
    h = Harness((1,))
    h.apply(partition(replicas=(1,), isr=(1,)))
    h.write(1, 3)
    assert result(h, delete(h, 4)) == (ErrorCode.offset_out_of_range, -1)
    assert result(h, delete(h, -2)) == (ErrorCode.offset_out_of_range, -1)
    assert result(h, delete(h, 1)) == (OK, 1)
    assert result(h, delete(h, -1)) == (OK, 3)


def test_the_response_waits_for_live_followers() -> None:
    """F5: a follower with the old log start could serve the records again as leader."""
    h = pair()
    token = delete(h, 3)
    assert h[1].replica().log.log_start == 3
    fetch_with_log_start(h, 2, 5, 2)
    assert result(h, token) is None
    fetch_with_log_start(h, 2, 5, 3)
    assert result(h, token) == (OK, 3)


def test_followers_raise_their_log_start_and_report_it() -> None:
    """F2, F5: over a session in which only the log start has changed."""
    h = Harness((1, 2, 3))
    h.apply(partition())
    h.run()
    h.write(1, 5)
    h.run()
    h.advance(1_000)
    token = delete(h, 4, timeout=30_000)
    assert result(h, token) is None
    h.run()
    assert result(h, token) == (OK, 4)
    assert [h[broker].replica().log.log_start for broker in (1, 2, 3)] == [4, 4, 4]


def test_a_fenced_broker_is_not_waited_for() -> None:
    """B4."""
    h = pair()
    token = delete(h, 3)
    h.shared.fenced = [2]
    h.tick(1)
    assert result(h, token) == (OK, 3)


def test_a_request_that_times_out_has_deleted_its_records() -> None:
    h = pair()
    token = delete(h, 3, timeout=300)
    assert h[1].manager.next_deadline() == 300
    h.tick(299)
    assert result(h, token) is None
    h.tick(1)
    assert result(h, token) == (ErrorCode.request_timed_out, -1)
    assert h[1].replica().log.log_start == 3


def test_a_deposed_leader_refuses_a_waiting_request() -> None:
    """T4."""
    h = pair()
    token = delete(h, 3)
    h.apply(partition(2, epoch=1, version=1, replicas=(1, 2), isr=(1, 2)), 1)
    assert result(h, token) == (ErrorCode.not_leader_or_follower, -1)


def test_a_broker_that_does_not_lead_refuses() -> None:
    h = pair()
    h.apply(partition(replicas=(1, 2), isr=(1, 2)), 2)
    assert result(h, delete(h, 3, broker=2), broker=2) == (ErrorCode.not_leader_or_follower, -1)


def test_an_abandoned_request_is_released() -> None:
    h = pair()
    token = delete(h, 3)
    h[1].manager.abandon_delete_records(token)
    assert result(h, token) == (ErrorCode.request_timed_out, -1)
    fetch_with_log_start(h, 2, 5, 3)
    h.tick(2_000)
    assert h[1].manager.next_deadline() != 1_000


def test_the_number_of_waiting_requests_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deleting, "MAX_PARKED", 20)
    h = pair()
    for _ in range(deleting.MAX_PARKED):
        assert result(h, delete(h, 3)) is None
    assert result(h, delete(h, 3)) == (ErrorCode.request_timed_out, -1)
