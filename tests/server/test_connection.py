"""One connection: the order of its answers, its end, and how much it may hold."""

from __future__ import annotations

import logging
from struct import pack
from typing import Any

import pytest
from connection_harness import (
    World,
    ask_id,
    ask_records,
    new_id,
    records,
    write,
    write_by_name,
    written,
)

from insync.sansio import HangUp
from insync.server.connection import MAX_HELD_ANSWER_BYTES
from insync.wire import codec

ROOM = 64_000


# --- who asks ---


def test_the_node_is_told_who_asks_and_with_kafkas_way_to_write_an_address() -> None:
    world = World()
    world.connect().send(ask_id(), "app")
    assert (world.asker.id, world.asker.host) == ("app", "/10.0.0.1")


# --- acks=0 ---


def test_a_write_without_acks_is_not_answered() -> None:
    """P1, W6."""
    world = World()
    client = world.connect()
    client.send(write(acks=0))
    world.answer(1, None)
    asked = client.send(ask_id())
    world.answer(2, new_id())
    assert (client.received, client.ended) == ([asked], "")


def test_a_write_without_acks_that_fails_closes_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    """P1, W6: with one line in the log."""
    world = World()
    client = world.connect()
    client.send(write(acks=0))
    with caplog.at_level(logging.INFO):
        world.answer(1, HangUp(1, "acks=0, partition 0: corrupt_message"))
    assert client.ended == "closed"
    assert [record.getMessage() for record in caplog.records] == [
        "event=connection_closed reason=refused client=10.0.0.1:5000 detail='acks=0, partition 0: corrupt_message'"
    ]


def test_a_write_without_acks_to_a_topic_that_nobody_knows_closes_the_connection() -> None:
    """W6: the edge refuses it, the node never hears of it."""
    world = World()
    client = world.connect()
    client.send(write_by_name("known", acks=0))
    world.answer(1, None)
    assert client.ended == ""
    client.send(write_by_name("unknown", acks=0))
    world.answer(2, None)
    assert client.ended == "closed"


def test_answers_to_earlier_requests_leave_before_the_connection_is_closed() -> None:
    """W6."""
    world = World()
    client = world.connect()
    first = client.send(ask_id())
    client.send(write(acks=0))
    client.send(ask_id())
    world.answer(2, HangUp(2, "no"))
    assert client.ended == ""
    world.answer(3, new_id())
    world.answer(1, new_id())
    assert (client.received, client.ended) == ([first], "closed")


def test_what_is_not_served_closes_the_connection() -> None:
    world = World()
    client = world.connect()
    client.send(ask_id())
    world.answer(1, HangUp(1, "not served in this role"))
    assert client.ended == "closed"


# --- whoever goes ---


def test_requests_of_a_client_that_has_gone_are_abandoned() -> None:
    world = World()
    client = world.connect()
    for _ in range(3):
        client.send(ask_id())
    world.answer(2, new_id())
    client.go()
    assert world.abandoned == [1, 3], "what was answered is not"
    world.answer(1, new_id())  # whatever the node still says about it goes nowhere
    assert client.received == []


# --- several at once ---


def frames(*requests: Any) -> bytes:
    encoded = [codec.encode_request(request, number, "test") for number, request in enumerate(requests, 1)]
    return b"".join(pack(">i", len(frame)) + frame for frame in encoded)


def test_the_node_is_told_that_another_request_follows() -> None:
    world = World()
    client = world.connect()
    told = []
    ask = world.listener.request
    world.listener.request = lambda *args: (told.append(args[3]), ask(*args))[1]
    data = frames(write(), write(), write())
    client.connection.data_received(data[:-5])
    assert told == [True, False], "the third has not come whole"
    client.connection.data_received(data[-5:])
    assert told == [True, False, False]


@pytest.mark.parametrize("second", ["bad", "too much"])
def test_the_node_is_told_when_none_follows_after_all(second: str) -> None:
    world = World(max_in_flight=1) if second == "too much" else World()
    client = world.connect()
    client.connection.data_received(frames(write()) + (pack(">i", -1) if second == "bad" else frames(write())))
    assert list(world.asked) == [1]
    assert not world.turn_open


def test_answers_that_are_ready_together_leave_in_one_write() -> None:
    world = World()
    client = world.connect()
    client.connection.data_received(frames(write(), write(), write()))
    world.listener.hold()
    for token in (1, 2, 3):
        world.answer(token, written())
    assert client.received == []
    world.listener.release()
    assert client.received == [1, 2, 3]
    assert client.transport.writes == 1


def test_much_is_not_held_back() -> None:
    """Whoever leaves its answers unread is noticed by its socket, not by the memory of the node."""
    world = World()
    client = world.connect()
    client.connection.data_received(frames(write(), ask_records()))
    world.listener.hold()
    world.answer(1, written())
    world.answer(2, records(MAX_HELD_ANSWER_BYTES))
    assert client.received == [1, 2]


def test_what_is_held_back_leaves_before_the_connection_ends() -> None:
    world = World()
    client = world.connect()
    client.connection.data_received(frames(write(), write()))
    world.listener.hold()
    world.answer(1, written())
    world.answer(2, HangUp(2, "no"))
    world.listener.release()
    assert (client.received, client.ended) == ([1], "closed")


# --- room ---


def test_nothing_is_taken_from_behind_a_fetch_that_waits() -> None:
    """Its answer may be as large as answers get; others wait in the socket, as they would wait in line."""
    world = World()
    client = world.connect()
    client.send(ask_records())
    client.send(ask_id())
    assert list(world.asked) == [1]
    assert not client.transport.reading
    world.answer(1, records(100))
    assert list(world.asked) == [2]
    assert client.transport.reading


def test_a_connection_takes_only_so_many_requests() -> None:
    world = World(max_in_flight=5)
    client = world.connect()
    for _ in range(9):
        client.send(ask_id())
    assert len(world.asked) == 5
    world.answer(1, new_id())
    assert list(world.asked) == [2, 3, 4, 5, 6]


def test_large_requests_take_more_capacity() -> None:
    world = World(in_flight_bytes=ROOM)
    client = world.connect()
    for _ in range(9):
        client.send(write(ROOM // 4))
    assert len(world.asked) == 4
    assert world.listener.budget_received.used >= ROOM
    while world.asked:
        world.answer(min(world.asked), written())
    assert client.received == list(range(1, 10))
    assert world.listener.budget_received.used == 0


def test_answers_that_wait_for_earlier_ones_take_capacity() -> None:
    """W5: a slow first request must not let a client collect answers in the node's memory."""
    world = World(in_flight_bytes=ROOM)
    client = world.connect()
    client.send(ask_id())
    for token in range(2, 20):
        client.send(ask_records())
        if token in world.asked:
            world.answer(token, records(ROOM // 4))
    assert len(client.connection._slots) <= 6
    assert ROOM // 2 < world.listener.budget_unread.used < 2 * ROOM
    world.answer(1, new_id())
    assert world.listener.budget_unread.used == 0


def test_a_client_that_leaves_its_answers_unread_is_not_read_either() -> None:
    world = World(write_buffer_bytes=ROOM)
    client = world.connect()
    client.transport.stuck = True
    client.send(ask_records())
    world.answer(1, records(ROOM))
    client.send(ask_id())
    assert not world.asked
    assert world.listener.budget_unread.used >= ROOM
    client.transport.buffered = 0
    client.connection.resume_writing()
    world.run_turns()
    assert world.listener.budget_unread.used == 0
    assert list(world.asked) == [2]


def test_answers_to_what_was_under_way_count_while_the_client_does_not_read() -> None:
    world = World(write_buffer_bytes=ROOM)
    client = world.connect()
    client.transport.stuck = True
    client.send(write())
    client.send(ask_records())
    world.answer(1, written())
    client.transport.buffered = 2 * ROOM
    client.connection.pause_writing()
    world.answer(2, records(ROOM))
    assert world.listener.budget_unread.used >= 3 * ROOM


# --- all together ---


def test_when_requests_fill_the_budget_whoever_holds_most_goes() -> None:
    world = World(received_bytes=3 * ROOM, in_flight_bytes=10 * ROOM)
    greedy, other = world.connect(), world.connect()
    greedy.send(write(2 * ROOM))
    other.send(write(ROOM // 2))
    other.send(write(ROOM // 2))
    assert (greedy.ended, other.ended) == ("aborted", "")
    assert world.listener.budget_received.used <= 2 * ROOM


def test_when_answers_fill_the_budget_whoever_holds_most_goes() -> None:
    world = World(unread_bytes=3 * ROOM, write_buffer_bytes=ROOM // 4)
    greedy, other = world.connect(), world.connect()
    for token, (client, size) in enumerate(((greedy, 2 * ROOM), (other, ROOM + ROOM // 4)), 1):
        client.transport.stuck = True
        client.send(ask_records())
        world.answer(token, records(size))
    assert (greedy.ended, other.ended) == ("aborted", "")


def test_what_a_connection_held_is_given_back() -> None:
    world = World()
    client = world.connect()
    client.send(write(ROOM))
    client.connection.data_received(pack(">i", ROOM) + bytes(100))
    assert world.listener.budget_received.used > ROOM
    client.go()
    assert world.listener.budget_received.used == 0


def test_a_request_is_slow_while_it_is_read_and_not_whole() -> None:
    world = World()
    client = world.connect()
    assert client.connection.partial_since_ns == 0
    client.connection.data_received(b"\x00")
    since_ns = client.connection.partial_since_ns
    client.connection.data_received(b"\x00")
    assert client.connection.partial_since_ns == since_ns > 0, "more bytes are no excuse"


def test_a_request_that_the_node_does_not_read_is_not_slow() -> None:
    world = World()
    client = world.connect()
    client.send(ask_records())
    client.connection.data_received(b"\x00")
    assert client.connection.partial_since_ns == 0
    world.answer(1, records())
    assert client.connection.partial_since_ns > 0


# --- places ---


def test_a_new_connection_replaces_the_one_that_was_idle_longest() -> None:
    world = World(max_connections=3)
    busy, idle, node = world.connect(), world.connect(), world.connect()
    busy.send(ask_id())
    node.send(ask_id(), client_id="insync-node-2")
    world.answer(2, new_id())
    newcomer = world.connect()
    assert [each.ended for each in (busy, idle, node, newcomer)] == ["", "aborted", "", ""]


def test_a_newcomer_is_turned_away_if_nobody_is_idle() -> None:
    world = World(max_connections=1)
    busy = world.connect()
    busy.send(ask_id())
    newcomer = world.connect()
    assert (busy.ended, newcomer.ended) == ("", "aborted")
