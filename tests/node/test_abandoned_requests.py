"""Requests whose connection has ended, API by API."""

from __future__ import annotations

from typing import Any

import pytest

from insync.node import forwarding
from insync.sansio import Reply, RequestAbandoned
from insync.wire.errors import ErrorCode
from insync.wire.messages import fetch, init_producer_id
from insync.wire.types import METADATA_TOPIC_ID, ms
from tests.node.node_harness import Net, create_request, fetch_request, produce_request, three_brokers, three_voters

NEW_PRODUCER = init_producer_id.InitProducerIdRequest(transactional_id=None, transaction_timeout=ms(1))


def abandoned(net: Net, node_id: int, request: Any) -> tuple[int, list[Any]]:
    """Send a request that is parked, and abandon it: its token, and the (token, response) of the replies to that."""
    token = net.ask(node_id, request)
    assert token not in net.answers, "it should have been parked"
    effects = net.step(node_id, RequestAbandoned(token, request))
    return token, [(effect.token, effect.response) for effect in effects if isinstance(effect, Reply)]


def without_controller() -> Net:
    net = three_voters().up()
    leader = net.nodes[1].quorum.leader_id
    for voter in (1, 2, 3):
        if voter != leader:
            net.cut(voter)
    net.cut(leader)
    net.advance(20_000)
    return net


def test_a_request_for_the_controller_is_not_tried_again() -> None:
    net = without_controller()
    token, replies = abandoned(net, 1, create_request("t"))
    assert replies == [(token, None)]
    assert net.broker().forwarding.under_way == 0
    net.advance(60_000)
    assert token not in net.answers


def test_a_request_for_a_producer_id_is_dropped() -> None:
    net = without_controller()
    token, replies = abandoned(net, 1, NEW_PRODUCER)
    assert replies == [(token, None)]


def test_a_fetch_of_records_is_dropped() -> None:
    net = three_brokers().up()
    partition = net.create("t")
    request = fetch_request(partition, max_wait=500)
    token, replies = abandoned(net, 1, request)
    assert replies == [(token, None)]


def test_a_fetch_of_the_metadata_log_is_dropped() -> None:
    """Q4."""
    net = three_brokers().up()
    quorum = net.nodes[1].quorum
    line = fetch.FetchPartition(
        partition=0,
        current_leader_epoch=quorum.epoch,
        fetch_offset=quorum.leo,
        last_fetched_epoch=quorum.epoch,
        partition_max_bytes=1 << 20,
    )
    request = fetch.FetchRequest(
        cluster_id=None,
        replica_state=fetch.ReplicaState(replica_id=77, replica_epoch=-1),
        max_wait=ms(10_000),
        min_bytes=0,
        topics=(fetch.FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=(line,)),),
        forgotten_topics_data=(),
    )
    first = net.answered(1, request)  # returns the high watermark, which is news; the second waits
    assert first.error_code is ErrorCode.none
    token, replies = abandoned(net, 1, request)
    assert replies == [(token, None)]


def test_a_write_that_waits_for_the_isr_is_dropped() -> None:
    net = three_brokers().up()
    partition = net.create("t", (1, 2))
    net.cut(2)
    request = produce_request(partition)
    token, replies = abandoned(net, 1, request)
    assert [replied for replied, _ in replies] == [token]
    assert net.log("t").leo == 1


def test_the_number_of_requests_that_wait_for_the_controller_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the limit a request fails immediately with REQUEST_TIMED_OUT, which clients retry."""
    monkeypatch.setattr(forwarding, "MAX_REQUESTS", 20)
    net = without_controller()
    for at in range(forwarding.MAX_REQUESTS):
        net.ask(1, create_request(f"t{at}"))
    refused = net.answered(1, create_request("one-more"))
    assert refused.topics[0].error_code is ErrorCode.request_timed_out
    assert net.broker().forwarding.under_way == forwarding.MAX_REQUESTS
    net.advance(60_000)
    assert net.broker().forwarding.under_way == 0


def test_the_bytes_of_requests_that_wait_for_the_controller_are_bounded() -> None:
    net = without_controller()
    waiting = net.broker().forwarding
    assert waiting.has_room(10 * forwarding.MAX_BYTES), "one request may have any size"
    net.ask(1, create_request("t"))
    assert waiting.has_room(forwarding.MAX_BYTES // 2)
    assert not waiting.has_room(forwarding.MAX_BYTES)
