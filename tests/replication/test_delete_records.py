"""DeleteRecords: what is deleted, and when it is said to be."""

from __future__ import annotations

from dataclasses import replace

from replication_harness import TOPIC, TOPIC_ID, Harness, follower_request, partition

from insync.replication import delete_records as deleting
from insync.wire.errors import ErrorCode
from insync.wire.messages import delete_records, fetch
from insync.wire.types import ms

OK = ErrorCode.none


def ask(h: Harness, before: int, timeout: int = 1_000, broker: int = 1) -> int:
    asked = delete_records.DeleteRecordsPartition(partition_index=0, offset=before)
    topic = delete_records.DeleteRecordsTopic(name=TOPIC, partitions=(asked,))
    request = delete_records.DeleteRecordsRequest(topics=(topic,), timeout=ms(timeout))
    token = h[broker].next_token()
    h[broker].manager.delete_records(request, token, h.now)
    h[broker].collect()
    return token


def answer(h: Harness, token: int, broker: int = 1) -> tuple[ErrorCode, int] | None:
    h[broker].collect()
    if token not in h[broker].replies:
        return None
    line = h[broker].replies[token].topics[0].partitions[0]  # type: ignore[attr-defined]
    return line.error_code, line.low_watermark


def fetch_with_log_start(h: Harness, replica: int, offset: int, log_start: int) -> None:
    request = follower_request(h.shared, replica, offset)
    line = replace(request.topics[0].partitions[0], log_start_offset=log_start)
    h.fetch(1, replace(request, topics=(fetch.FetchTopic(topic_id=TOPIC_ID, partitions=(line,)),)))


def pair() -> Harness:
    """A leader with five committed records and one follower."""
    h = Harness((1, 2))
    h.apply(partition(replicas=(1, 2), isr=(1, 2)), 1)
    h.write(1, 5)
    fetch_with_log_start(h, 2, 5, 0)
    return h


def test_records_are_deleted_up_to_the_hwm_only() -> None:
    """H5: what is not committed is not deleted."""
    h = Harness((1,))
    h.apply(partition(replicas=(1,), isr=(1,)))
    h.write(1, 3)
    assert answer(h, ask(h, 4)) == (ErrorCode.offset_out_of_range, -1)
    assert answer(h, ask(h, -2)) == (ErrorCode.offset_out_of_range, -1)
    assert answer(h, ask(h, 1)) == (OK, 1)
    assert answer(h, ask(h, -1)) == (OK, 3)


def test_the_answer_waits_for_live_followers() -> None:
    """F5: a follower that has not heard of it could show the records again as a leader."""
    h = pair()
    token = ask(h, 3)
    assert h[1].replica().log.log_start == 3
    fetch_with_log_start(h, 2, 5, 2)
    assert answer(h, token) is None
    fetch_with_log_start(h, 2, 5, 3)
    assert answer(h, token) == (OK, 3)


def test_real_followers_follow_and_say_so() -> None:
    """F2, F5: over a session, in which nothing but the log start has changed."""
    h = Harness((1, 2, 3))
    h.apply(partition())
    h.run()
    h.write(1, 5)
    h.run()
    h.advance(1_000)
    token = ask(h, 4, timeout=30_000)
    assert answer(h, token) is None
    h.run()
    assert answer(h, token) == (OK, 4)
    assert [h[broker].replica().log.log_start for broker in (1, 2, 3)] == [4, 4, 4]


def test_a_fenced_broker_is_not_waited_for() -> None:
    """B4."""
    h = pair()
    token = ask(h, 3)
    h.shared.fenced = [2]
    h.tick(1)
    assert answer(h, token) == (OK, 3)


def test_a_request_whose_time_is_up_hears_so_and_its_records_are_gone() -> None:
    h = pair()
    token = ask(h, 3, timeout=300)
    assert h[1].manager.next_deadline() == 300
    h.tick(299)
    assert answer(h, token) is None
    h.tick(1)
    assert answer(h, token) == (ErrorCode.request_timed_out, -1)
    assert h[1].replica().log.log_start == 3


def test_a_leader_that_is_replaced_says_so() -> None:
    """T4."""
    h = pair()
    token = ask(h, 3)
    h.apply(partition(2, epoch=1, version=1, replicas=(1, 2), isr=(1, 2)), 1)
    assert answer(h, token) == (ErrorCode.not_leader_or_follower, -1)


def test_whoever_does_not_lead_refuses() -> None:
    h = pair()
    h.apply(partition(replicas=(1, 2), isr=(1, 2)), 2)
    assert answer(h, ask(h, 3, broker=2), broker=2) == (ErrorCode.not_leader_or_follower, -1)


def test_a_client_that_has_gone_is_not_waited_for() -> None:
    h = pair()
    token = ask(h, 3)
    h[1].manager.abandon_delete_records(token)
    assert answer(h, token) == (ErrorCode.request_timed_out, -1)
    fetch_with_log_start(h, 2, 5, 3)
    h.tick(2_000)
    assert h[1].manager.next_deadline() != 1_000


def test_only_so_many_requests_wait() -> None:
    h = pair()
    for _ in range(deleting.MAX_PARKED):
        assert answer(h, ask(h, 3)) is None
    assert answer(h, ask(h, 3)) == (ErrorCode.request_timed_out, -1)
