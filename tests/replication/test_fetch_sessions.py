"""Fetch sessions on both sides, and parked fetches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from insync.replication import fetch_server
from insync.storage.log import Log
from insync.wire.errors import ErrorCode
from insync.wire.messages import fetch
from insync.wire.types import ms
from tests.replication.replication_harness import (
    SIZE,
    TOPIC_ID,
    Harness,
    consumer_request,
    fetch_partition,
    follower_request,
    leader_and_follower,
    partition,
    records,
    records_size,
)

# --- sessions ---


def test_an_incremental_round_names_only_what_changed_on_both_sides() -> None:
    """F1: one of three partitions was written to; only that one is in the response and in the next request."""
    h = Harness((1, 2))
    partitions = [partition(replicas=(1, 2), isr=(1, 2), index=index) for index in range(3)]
    for broker in (1, 2):
        h[broker].manager.apply(partitions, [], 0)
    opened = h.take_fetch(2)
    assert (opened.request.session_epoch, len(opened.request.topics[0].partitions)) == (0, 3)
    token = h.fetch(1, opened.request)
    h.tick(500)
    answer = h.fetched(1, token)
    assert answer is not None
    assert len(answer.responses[0].partitions) == 3, "a full response lists every partition"
    opened.on_response(answer, h.now)
    waiting = h.take_fetch(2)
    assert (waiting.request.session_id, waiting.request.session_epoch) == (answer.session_id, 1)
    assert waiting.request.topics == ()
    token = h.fetch(1, waiting.request)
    assert h.fetched(1, token) is None
    h.write(1, index=1)
    answer = h.fetched(1, token)
    assert answer is not None
    assert [entry.partition_index for entry in answer.responses[0].partitions] == [1]
    waiting.on_response(answer, h.now)
    request = h.take_fetch(2).request
    assert [(p.partition, p.fetch_offset) for p in request.topics[0].partitions] == [(1, 1)]


def test_an_idle_round_visits_no_partition() -> None:
    """F1: the cost of an idle round does not grow with the number of partitions."""
    h = Harness((1, 2))
    partitions = [partition(replicas=(1, 2), isr=(1, 2), index=index) for index in range(20)]
    for broker in (1, 2):
        h[broker].manager.apply(partitions, [], 0)
    h.run()
    h.advance(2000)
    (session,) = h[1].manager._fetch_server.sessions._sessions.values()
    assert len(session.partitions) == 20
    assert session.dirty == {}
    h.write(1, index=7)
    assert session.dirty == {}, "the parked fetch was answered"
    h.write(1, index=8)
    assert [cached.key[1] for cached in session.dirty] == [8]
    h.run()
    assert (h[2].replica(7).log.leo, h[2].replica(8).log.leo) == (1, 1)


def test_a_partition_taken_from_a_fetcher_is_forgotten_by_its_session() -> None:
    """F1, F6."""
    h = Harness((1, 2))
    both = [partition(replicas=(1, 2), isr=(1, 2), index=index) for index in (0, 1)]
    for broker in (1, 2):
        h[broker].manager.apply(both, [], 0)
    h.run_past_fetch_wait()
    h.apply(partition(2, 1, version=1, replicas=(1, 2), isr=(1, 2)))
    h.run()
    h.advance(1200)
    (session,) = h[1].manager._fetch_server.sessions._sessions.values()
    assert [index for _, index in session.partitions] == [1]


@pytest.mark.parametrize("error", ["fetch_session_id_not_found", "invalid_fetch_session_epoch"])
def test_after_a_lost_session_the_next_one_names_every_partition(error: str) -> None:
    """F1: without a backoff, since nothing is wrong with the partitions."""
    h = leader_and_follower()
    send = h.take_fetch(2)
    token = h.fetch(1, send.request)
    h.tick(500)
    send.on_response(h.fetched(1, token), h.now)
    again = h.take_fetch(2)
    assert again.request.session_epoch == 1
    empty = fetch.FetchResponse(
        throttle_time=send.request.max_wait, error_code=ErrorCode[error], session_id=0, responses=()
    )
    again.on_response(empty, h.now)
    opened = h.take_fetch(2).request
    assert (opened.session_epoch, len(opened.topics[0].partitions)) == (0, 1)
    assert opened.session_id == again.request.session_id, "names the old session, to close it"


def test_after_a_lost_response_the_fetcher_backs_off_and_opens_a_new_session() -> None:
    """F1: the state of the old session is unknown."""
    h = Harness((1, 2), replica_fetch_backoff_ms=1000)
    h.apply(partition(replicas=(1, 2), isr=(1, 2)))
    h.take_fetch(2).on_response(None, h.now)
    h[2].collect()
    assert h[2].sends == []
    assert h[2].manager.next_deadline() == 1000
    h.tick(1000)
    assert h.take_fetch(2).request.session_epoch == 0


def test_a_leader_that_never_knows_the_session_is_not_asked_without_a_pause() -> None:
    """F1: a request for a new session cannot have lost one; repeated at once, it would keep both nodes busy."""
    h = Harness((1, 2), replica_fetch_backoff_ms=1000)
    h.apply(partition(replicas=(1, 2), isr=(1, 2)))
    send = h.take_fetch(2)
    lost = fetch.FetchResponse(
        throttle_time=send.request.max_wait, error_code=ErrorCode.fetch_session_id_not_found, responses=()
    )
    send.on_response(lost, h.now)
    h[2].collect()
    assert h[2].sends == []
    assert h[2].manager.next_deadline() == 1000


def test_a_refused_partition_waits_while_the_others_go_on() -> None:
    """F1, F3: it leaves the session during the backoff."""
    h = Harness((1, 2), replica_fetch_backoff_ms=1000)
    both = [partition(replicas=(1, 2), isr=(1, 2), index=index) for index in (0, 1)]
    h[1].manager.apply(both[:1], [], 0)
    h[2].manager.apply(both, [], 0)
    h.write(1)
    h.run()
    assert h[2].replica().log.leo == 1
    h[1].manager.apply(both[1:], [], 0)
    h.write(1, index=1)
    h.write(1)
    h.run()
    assert (h[2].replica().log.leo, h[2].replica(1).log.leo) == (2, 0)
    h.advance(1600)
    assert h[2].replica(1).log.leo == 1


def test_wrong_session_epochs_and_unknown_ids_are_refused() -> None:
    """F1: so are the session of another client, and that of an earlier incarnation."""
    h = Harness((1, 2, 3))
    h.apply(partition(), 1)

    def fetch_in(
        replica: int, session_id: int, session_epoch: int, broker_epoch: int | None = None
    ) -> fetch.FetchResponse:
        request = follower_request(
            h.shared, replica, 0, session_id=session_id, session_epoch=session_epoch, broker_epoch=broker_epoch
        )
        response = h.fetched(1, h.fetch(1, request))
        assert response is not None
        return response

    opened = fetch_in(2, 0, 0)
    assert opened.session_id > 0
    assert fetch_in(2, opened.session_id, 2).error_code is ErrorCode.invalid_fetch_session_epoch
    assert fetch_in(2, opened.session_id + 1, 1).error_code is ErrorCode.fetch_session_id_not_found
    assert fetch_in(3, opened.session_id, 1).error_code is ErrorCode.fetch_session_id_not_found
    assert fetch_in(2, opened.session_id, 1, broker_epoch=999).error_code is ErrorCode.fetch_session_id_not_found
    assert fetch_in(2, opened.session_id, 1).error_code is ErrorCode.none
    assert fetch_in(2, opened.session_id, 2).session_id == opened.session_id


def test_a_follower_gets_a_session_when_consumers_have_taken_all() -> None:
    """F1: a consumer's session is evicted for it."""
    h = Harness((1, 2), max_incremental_fetch_sessions=1)
    h.apply(partition(replicas=(1, 2), isr=(1, 2)), 1)
    consumer = h.fetched(1, h.fetch(1, consumer_request(fetch_partition(0), session_epoch=0)))
    second = h.fetched(1, h.fetch(1, consumer_request(fetch_partition(0), session_epoch=0)))
    assert consumer is not None
    assert second is not None
    assert (consumer.session_id > 0, second.session_id) == (True, 0)
    follower = h.fetched(1, h.fetch(1, follower_request(h.shared, 2, 0, session_epoch=0)))
    assert follower is not None
    assert follower.session_id > 0
    lost = h.fetched(1, h.fetch(1, consumer_request(session_id=consumer.session_id, session_epoch=1)))
    assert lost is not None
    assert lost.error_code is ErrorCode.fetch_session_id_not_found


# --- waiting and limits ---


def test_a_consumers_fetch_waits_for_enough_bytes_or_its_deadline() -> None:
    """H5: a parked fetch is woken only by the HWM of its partition."""
    h = Harness((1,))
    h[1].manager.apply([partition(replicas=(1,), isr=(1,), index=index) for index in (0, 1)], [], 0)
    token = h.fetch(1, consumer_request(fetch_partition(0), max_wait=500, min_bytes=2 * SIZE))
    h.write(1)
    h.write(1, index=1)
    assert h.fetched(1, token) is None
    assert h[1].manager.next_deadline() == 500
    h.write(1)
    assert records_size(h.fetched_partition(1, token)) == 2 * SIZE
    late = h.fetch(1, consumer_request(fetch_partition(2), max_wait=500))
    h.tick(500)
    assert h.fetched_partition(1, late).records == b""


def test_limits_hold_except_for_the_first_batch_of_the_first_partition_with_data() -> None:
    """H5: a fetch makes progress whatever its limits; a partition that was left out is served first next time."""
    h = Harness((1,))
    h[1].manager.apply([partition(replicas=(1,), isr=(1,), index=index) for index in (0, 1)], [], 0)
    for index in (0, 1):
        h.write(1, 2, index=index)
    small = consumer_request(
        fetch_partition(0, max_bytes=1), fetch_partition(0, index=1), max_bytes=SIZE + 1, session_epoch=0
    )
    answer = h.fetched(1, h.fetch(1, small))
    assert answer is not None
    assert [records_size(entry) for entry in answer.responses[0].partitions] == [SIZE, 0]
    again = consumer_request(
        fetch_partition(1, max_bytes=1), max_bytes=SIZE, session_id=answer.session_id, session_epoch=1
    )
    answer = h.fetched(1, h.fetch(1, again))
    assert answer is not None
    assert [(entry.partition_index, records_size(entry)) for entry in answer.responses[0].partitions] == [(1, SIZE)]


def test_a_response_to_a_follower_has_records_of_a_limited_number_of_partitions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """F1: a response is appended in one step, so it is bounded; the other partitions come first in the next one."""
    monkeypatch.setattr(fetch_server, "MAX_PARTITIONS_WITH_RECORDS", 2)
    h = Harness((1, 2))
    for broker in (1, 2):
        h[broker].manager.apply([partition(replicas=(1, 2), isr=(1, 2), index=index) for index in range(5)], [], 0)
    for index in range(5):
        h.write(1, index=index)
    answered = []
    for _ in range(4):
        request = h.take_fetch(2)
        response = h.serve(request)
        entries = response.responses[0].partitions
        answered.append([entry.partition_index for entry in entries if entry.records])
        h.write(1, index=0)  # a busy partition does not keep the others waiting
        request.on_response(response, h.now)
    assert answered == [[0, 1], [2, 3], [4, 0], [0]]
    assert [h[2].replica(index).log.leo for index in range(1, 5)] == [1, 1, 1, 1]


def test_a_response_to_a_consumer_has_as_many_partitions_as_its_bytes_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    """H5: without a session, nothing records which partitions come next."""
    monkeypatch.setattr(fetch_server, "MAX_PARTITIONS_WITH_RECORDS", 2)
    h = Harness((1,))
    h[1].manager.apply([partition(replicas=(1,), isr=(1,), index=index) for index in range(4)], [], 0)
    for index in range(4):
        h.write(1, index=index)
    answer = h.fetched(1, h.fetch(1, consumer_request(*(fetch_partition(0, index=index) for index in range(4)))))
    assert answer is not None
    assert [records_size(entry) for entry in answer.responses[0].partitions] == [SIZE] * 4


def test_a_new_request_in_a_session_releases_the_one_that_is_parked() -> None:
    """F1: its sender has given up on it."""
    h = Harness((1, 2))
    h.apply(partition(replicas=(1, 2), isr=(1, 2)), 1)
    opened = h.fetched(1, h.fetch(1, follower_request(h.shared, 2, 0, session_epoch=0)))
    assert opened is not None
    first = h.fetch(1, follower_request(h.shared, 2, 0, session_id=opened.session_id, session_epoch=1, max_wait=500))
    assert h.fetched(1, first) is None
    second = h.fetch(1, follower_request(h.shared, 2, 0, session_id=opened.session_id, session_epoch=2, max_wait=500))
    assert h.fetched(1, first) is not None
    h.write(1)
    assert records_size(h.fetched_partition(1, second)) == SIZE


@pytest.mark.parametrize("last_follows", [True, False])
def test_writes_that_arrive_together_reach_a_waiting_follower_together(last_follows: bool) -> None:
    """H5: a waiting fetch is answered after the last of them, or when it turns out that none follows."""
    h = Harness((1, 2))
    h.apply(partition(replicas=(1, 2), isr=(1, 2)), 1)
    opened = h.fetched(1, h.fetch(1, follower_request(h.shared, 2, 0, session_epoch=0)))
    assert opened is not None
    waiting = h.fetch(1, follower_request(h.shared, 2, 0, session_id=opened.session_id, session_epoch=1, max_wait=500))
    first = h.produce(1, records(1), acks=1, more=True)
    assert h.produced(1, first) == [(ErrorCode.none, 0)], "a producer is answered at once"
    assert h.fetched(1, waiting) is None
    if last_follows:
        h.produce(1, records(1), acks=1)
    else:
        h.produce(1, records(1), acks=1, more=True)
        h[1].manager.finish_step(h.now)
        h[1].collect()
    assert records_size(h.fetched_partition(1, waiting)) == 2 * SIZE


def test_the_log_is_read_once_for_followers_at_the_same_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    """H5: followers at one offset get the same bytes; others get their own."""
    h = Harness((1, 2, 3, 4))
    h.apply(partition(replicas=(1, 2, 3, 4), isr=(1, 2, 3, 4)), 1)
    h.write(1)
    log, waiting = h[1].replica().log, {}
    for broker, offset in ((2, 1), (3, 1), (4, 1)):
        request = follower_request(h.shared, broker, offset, last_epoch=0, session_epoch=0)
        opened = h.fetched(1, h.fetch(1, request))
        assert opened is not None
        request = replace(request, session_id=opened.session_id, session_epoch=1, max_wait=ms(500))
        waiting[broker] = h.fetch(1, request)
    reads: list[int] = []
    read = Log.read

    def record_read(log: Log, offset: int, *args: Any, **kwargs: Any) -> Any:
        reads.append(offset)
        return read(log, offset, *args, **kwargs)

    monkeypatch.setattr(Log, "read", record_read)
    h.write(1)
    assert reads == [1]
    answers = [h.fetched_partition(1, token).records for token in waiting.values()]
    assert answers == [read(log, 1, 1 << 20, limit_offset=2)] * 3


def test_a_stopped_broker_does_not_fetch() -> None:
    """B7: a response that still arrives is not stored."""
    h = leader_and_follower()
    h.write(1)
    send = h.take_fetch(2)
    answer = h.serve(send)
    h[2].manager.stop_fetching()
    send.on_response(answer, h.now)
    h.tick(5000)
    assert (h[2].replica().log.leo, h[2].sends) == (0, [])


# --- room for sessions ---


def opened(h: Harness, *indexes: int, session: tuple[int, int] = (0, 0)) -> int:
    """Fetch these partitions as a consumer in a session; returns its id, 0 if there is none."""
    request = consumer_request(
        *(fetch_partition(0, index=index) for index in indexes), session_id=session[0], session_epoch=session[1]
    )
    answer = h.fetched(1, h.fetch(1, request))
    assert answer is not None
    assert answer.error_code is ErrorCode.none
    return answer.session_id


def test_a_fetch_of_too_many_partitions_gets_no_session() -> None:
    """W16: the fetch is served nevertheless."""
    h = Harness((1,), max_fetch_session_partitions=10)
    h.apply(partition(replicas=(1,), isr=(1,)), 1)
    assert opened(h, *range(10)) > 0
    assert opened(h, *range(11)) == 0
    assert h[1].manager._fetch_server.sessions.partitions <= 10


def test_a_session_that_grows_too_large_ends() -> None:
    h = Harness((1,), max_fetch_session_partitions=10)
    h.apply(partition(replicas=(1,), isr=(1,)), 1)
    mine = opened(h, 0)
    assert opened(h, *range(1, 5), session=(mine, 1)) == mine
    assert opened(h, *range(5, 20), session=(mine, 2)) == 0
    assert h[1].manager._fetch_server.sessions.partitions == 0
    assert len(h[1].replica().watchers) == 0


def test_the_least_recently_used_session_is_evicted() -> None:
    h = Harness((1,), max_fetch_session_partitions=10)
    h.apply(partition(replicas=(1,), isr=(1,)), 1)
    first, second = opened(h, 0, 1, 2, 3), opened(h, 0, 1, 2, 3)
    assert opened(h, session=(first, 1)) == first
    third = opened(h, 0, 1, 2, 3)
    assert third > 0
    lost = h.fetched(1, h.fetch(1, consumer_request(session_id=second, session_epoch=1)))
    assert lost is not None
    assert lost.error_code is ErrorCode.fetch_session_id_not_found
    assert opened(h, session=(first, 2)) == first


def test_a_follower_gets_a_session_of_any_size() -> None:
    """F1."""
    h = Harness((1, 2), max_fetch_session_partitions=0)
    h.apply(partition(replicas=(1, 2), isr=(1, 2)), 1)
    answer = h.fetched(1, h.fetch(1, follower_request(h.shared, 2, 0, session_epoch=0)))
    assert answer is not None
    assert answer.session_id > 0


def test_forgotten_partitions_make_room() -> None:
    h = Harness((1,), max_fetch_session_partitions=10)
    h.apply(partition(replicas=(1,), isr=(1,)), 1)
    mine = opened(h, *range(8))
    request = consumer_request(session_id=mine, session_epoch=1)
    gone = fetch.ForgottenTopic(topic_id=TOPIC_ID, partitions=tuple(range(6)))
    h.fetch(1, replace(request, forgotten_topics_data=(gone,)))
    assert h[1].manager._fetch_server.sessions.partitions == 2
