"""One connection: the order of its answers, how it is closed, and its capacity."""

from __future__ import annotations

import logging
from struct import pack
from typing import Any

import pytest

from insync.sansio import HangUp
from insync.server.acceptor import Acceptor
from insync.server.connection import MAX_HELD_ANSWER_BYTES
from insync.wire import codec
from tests.server.connection_harness import (
    ConnectionHarness,
    ask_id,
    ask_records,
    new_id,
    records,
    write,
    write_by_name,
    written,
)

ROOM = 64_000


# --- the client ---


def test_the_node_gets_the_client_id_and_the_address_in_kafkas_notation() -> None:
    harness = ConnectionHarness()
    harness.connect().send(ask_id(), "app")
    assert (harness.asker.id, harness.asker.host) == ("app", "/10.0.0.1")


# --- acks=0 ---


def test_a_write_without_acks_is_not_answered() -> None:
    """P1, W6."""
    harness = ConnectionHarness()
    client = harness.connect()
    client.send(write(acks=0))
    harness.answer(1, None)
    asked = client.send(ask_id())
    harness.answer(2, new_id())
    assert (client.received, client.ended) == ([asked], "")


def test_a_write_without_acks_that_fails_closes_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    """P1, W6: with one line in the log."""
    harness = ConnectionHarness()
    client = harness.connect()
    client.send(write(acks=0))
    with caplog.at_level(logging.INFO):
        harness.answer(1, HangUp(1, "acks=0, partition 0: corrupt_message"))
    assert client.ended == "closed"
    assert [record.getMessage() for record in caplog.records] == [
        "event=connection_closed reason=refused client=10.0.0.1:5000 detail='acks=0, partition 0: corrupt_message'"
    ]


def test_a_write_without_acks_to_an_unknown_topic_closes_the_connection() -> None:
    """W6: the translator refuses it, so it never reaches the node."""
    harness = ConnectionHarness()
    client = harness.connect()
    client.send(write_by_name("known", acks=0))
    harness.answer(1, None)
    assert client.ended == ""
    client.send(write_by_name("unknown", acks=0))
    harness.answer(2, None)
    assert client.ended == "closed"


def test_answers_to_earlier_requests_are_sent_before_the_connection_is_closed() -> None:
    """W6."""
    harness = ConnectionHarness()
    client = harness.connect()
    first = client.send(ask_id())
    client.send(write(acks=0))
    client.send(ask_id())
    harness.answer(2, HangUp(2, "no"))
    assert client.ended == ""
    harness.answer(3, new_id())
    harness.answer(1, new_id())
    assert (client.received, client.ended) == ([first], "closed")


def test_a_request_that_is_not_served_closes_the_connection() -> None:
    harness = ConnectionHarness()
    client = harness.connect()
    client.send(ask_id())
    harness.answer(1, HangUp(1, "not served in this role"))
    assert client.ended == "closed"


# --- clients that disconnect ---


def test_requests_of_a_client_that_disconnected_are_abandoned() -> None:
    harness = ConnectionHarness()
    client = harness.connect()
    for _ in range(3):
        client.send(ask_id())
    harness.answer(2, new_id())
    client.disconnect()
    assert harness.abandoned == [1, 3], "what was answered is not"
    harness.answer(1, new_id())  # a late answer of the node is dropped
    assert client.received == []


# --- several at once ---


def frames(*requests: Any) -> bytes:
    encoded = [codec.encode_request(request, number, "test") for number, request in enumerate(requests, 1)]
    return b"".join(pack(">i", len(frame)) + frame for frame in encoded)


def test_the_node_learns_that_another_request_follows() -> None:
    harness = ConnectionHarness()
    client = harness.connect()
    data = frames(write(), write(), write())
    client.connection.data_received(data[:-5])
    assert harness.turns == [True, False], "the third is incomplete"
    client.connection.data_received(data[-5:])
    assert harness.turns == [True, False, False]


@pytest.mark.parametrize("second", ["bad", "too much"])
def test_the_node_learns_that_no_request_follows_after_all(second: str) -> None:
    harness = ConnectionHarness(max_in_flight=1) if second == "too much" else ConnectionHarness()
    client = harness.connect()
    client.connection.data_received(frames(write()) + (pack(">i", -1) if second == "bad" else frames(write())))
    assert list(harness.asked) == [1]
    assert not harness.turn_open


def test_answers_that_are_ready_together_are_sent_in_one_write() -> None:
    harness = ConnectionHarness()
    client = harness.connect()
    client.connection.data_received(frames(write(), write(), write()))
    harness.listener.hold()
    for token in (1, 2, 3):
        harness.answer(token, written())
    assert client.received == []
    harness.listener.release()
    assert client.received == [1, 2, 3]
    assert client.transport.writes == 1


def test_large_answers_are_not_held_back() -> None:
    """A client that does not read its answers is noticed by its socket, not by the memory of the node."""
    harness = ConnectionHarness()
    client = harness.connect()
    client.connection.data_received(frames(write(), ask_records()))
    harness.listener.hold()
    harness.answer(1, written())
    harness.answer(2, records(MAX_HELD_ANSWER_BYTES))
    assert client.received == [1, 2]


def test_held_answers_are_sent_before_the_connection_is_closed() -> None:
    harness = ConnectionHarness()
    client = harness.connect()
    client.connection.data_received(frames(write(), write()))
    harness.listener.hold()
    harness.answer(1, written())
    harness.answer(2, HangUp(2, "no"))
    harness.listener.release()
    assert (client.received, client.ended) == ([1], "closed")


# --- room ---


def test_no_request_is_read_behind_a_waiting_fetch() -> None:
    """Its answer may be as large as allowed; further requests wait in the socket."""
    harness = ConnectionHarness()
    client = harness.connect()
    client.send(ask_records())
    client.send(ask_id())
    assert list(harness.asked) == [1]
    assert not client.transport.reading
    harness.answer(1, records(100))
    assert list(harness.asked) == [2]
    assert client.transport.reading


def test_a_connection_accepts_a_limited_number_of_requests() -> None:
    harness = ConnectionHarness(max_in_flight=5)
    client = harness.connect()
    for _ in range(9):
        client.send(ask_id())
    assert len(harness.asked) == 5
    harness.answer(1, new_id())
    assert list(harness.asked) == [2, 3, 4, 5, 6]


def test_large_requests_take_more_capacity() -> None:
    harness = ConnectionHarness(in_flight_bytes=ROOM)
    client = harness.connect()
    for _ in range(9):
        client.send(write(ROOM // 4))
    assert len(harness.asked) == 4
    assert harness.listener.budget_received.used >= ROOM
    while harness.asked:
        harness.answer(min(harness.asked), written())
    assert client.received == list(range(1, 10))
    assert harness.listener.budget_received.used == 0


def test_answers_that_wait_for_earlier_ones_take_capacity() -> None:
    """W5: a slow first request must not let a client collect answers in the node's memory."""
    harness = ConnectionHarness(in_flight_bytes=ROOM)
    client = harness.connect()
    client.send(ask_id())
    for token in range(2, 20):
        client.send(ask_records())
        if token in harness.asked:
            harness.answer(token, records(ROOM // 4))
    assert len(client.connection._slots) <= 6
    assert ROOM // 2 < harness.listener.budget_unread.used < 2 * ROOM
    harness.answer(1, new_id())
    assert harness.listener.budget_unread.used == 0


def test_a_client_that_leaves_its_answers_unread_is_not_read_either() -> None:
    harness = ConnectionHarness(write_buffer_bytes=ROOM)
    client = harness.connect()
    client.transport.stuck = True
    client.send(ask_records())
    harness.answer(1, records(ROOM))
    client.send(ask_id())
    assert not harness.asked
    assert harness.listener.budget_unread.used >= ROOM
    client.transport.buffered = 0
    client.connection.resume_writing()
    harness.run_turns()
    assert harness.listener.budget_unread.used == 0
    assert list(harness.asked) == [2]


def test_answers_to_earlier_requests_count_while_the_client_does_not_read() -> None:
    harness = ConnectionHarness(write_buffer_bytes=ROOM)
    client = harness.connect()
    client.transport.stuck = True
    client.send(write())
    client.send(ask_records())
    harness.answer(1, written())
    client.transport.buffered = 2 * ROOM
    client.connection.pause_writing()
    harness.answer(2, records(ROOM))
    assert harness.listener.budget_unread.used >= 3 * ROOM


# --- all together ---


def test_when_requests_exceed_the_budget_the_largest_connection_is_closed() -> None:
    harness = ConnectionHarness(received_bytes=3 * ROOM, in_flight_bytes=10 * ROOM)
    greedy, other = harness.connect(), harness.connect()
    greedy.send(write(2 * ROOM))
    other.send(write(ROOM // 2))
    other.send(write(ROOM // 2))
    assert (greedy.ended, other.ended) == ("aborted", "")
    assert harness.listener.budget_received.used <= 2 * ROOM


def test_when_answers_exceed_the_budget_the_largest_connection_is_closed() -> None:
    harness = ConnectionHarness(unread_bytes=3 * ROOM, write_buffer_bytes=ROOM // 4)
    greedy, other = harness.connect(), harness.connect()
    for token, (client, size) in enumerate(((greedy, 2 * ROOM), (other, ROOM + ROOM // 4)), 1):
        client.transport.stuck = True
        client.send(ask_records())
        harness.answer(token, records(size))
    assert (greedy.ended, other.ended) == ("aborted", "")


def test_a_closed_connection_releases_its_budget() -> None:
    harness = ConnectionHarness()
    client = harness.connect()
    client.send(write(ROOM))
    client.connection.data_received(pack(">i", ROOM) + bytes(100))
    assert harness.listener.budget_received.used > ROOM
    client.disconnect()
    assert harness.listener.budget_received.used == 0


def test_a_request_is_slow_while_it_is_read_and_incomplete() -> None:
    harness = ConnectionHarness()
    client = harness.connect()
    assert client.connection.partial_since_ns == 0
    client.connection.data_received(b"\x00")
    since_ns = client.connection.partial_since_ns
    client.connection.data_received(b"\x00")
    assert client.connection.partial_since_ns == since_ns > 0, "more bytes are no excuse"


def test_a_request_that_the_node_does_not_read_is_not_slow() -> None:
    harness = ConnectionHarness()
    client = harness.connect()
    client.send(ask_records())
    client.connection.data_received(b"\x00")
    assert client.connection.partial_since_ns == 0
    harness.answer(1, records())
    assert client.connection.partial_since_ns > 0


# --- places ---


def test_a_new_connection_replaces_the_one_that_was_idle_longest() -> None:
    harness = ConnectionHarness(max_connections=3)
    busy, idle, node = harness.connect(), harness.connect(), harness.connect()
    busy.send(ask_id())
    node.send(ask_id(), client_id="insync-node-2")
    harness.answer(2, new_id())
    newcomer = harness.connect()
    assert [peer.ended for peer in (busy, idle, node, newcomer)] == ["", "aborted", "", ""]


def test_a_new_connection_is_closed_if_none_is_idle() -> None:
    harness = ConnectionHarness(max_connections=1)
    busy = harness.connect()
    busy.send(ask_id())
    newcomer = harness.connect()
    assert (busy.ended, newcomer.ended) == ("", "aborted")


def test_a_request_carries_the_listener_that_it_arrived_on() -> None:
    harness = ConnectionHarness(Acceptor("EXTERNAL", serves_nodes=False))
    harness.connect().send(ask_id())
    assert (harness.asker.listener, harness.asker.on_node_listener) == ("EXTERNAL", False)


def test_a_client_id_alone_does_not_make_a_connection_one_of_a_node() -> None:
    """On a listener that nodes do not use."""
    for serves_nodes, peer_id in ((True, 2), (False, None)):
        harness = ConnectionHarness(Acceptor("ANY", serves_nodes=serves_nodes))
        peer = harness.connect()
        peer.send(ask_records(), "insync-node-2")
        harness.run_turns()
        assert peer.connection.peer == peer_id
        assert peer.connection.is_node() is serves_nodes


def test_a_connection_that_may_not_act_as_a_node_counts_as_a_client() -> None:
    harness = ConnectionHarness()
    harness.listener.may_act_as_node = lambda client: client.principal == "User:node"
    peer = harness.connect()
    peer.send(ask_records(), "insync-node-2")
    assert peer.connection.peer is None
