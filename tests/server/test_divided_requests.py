"""A connection submits a large request in parts, one unit of a turn each, and answers it once."""

from __future__ import annotations

from struct import pack
from typing import Any

from insync.node.handlers import PARTS
from insync.sansio import HangUp
from insync.server.connection import LARGE_BYTES
from insync.wire import codec
from insync.wire.errors import ErrorCode
from insync.wire.messages import produce
from insync.wire.types import ms
from tests.server.connection_harness import TOPIC_ID, ConnectionHarness, Peer, ask_id, new_id, write, written

PART = PARTS[0].limit
PARTITIONS = 4 * PART
NOW = 0
"""A turn that is over at once: what is served in it is one unit."""


def write_many(partitions: int = PARTITIONS, acks: int = -1, size: int = 60) -> Any:
    data = tuple(produce.PartitionProduceData(index=index, records=bytes(size)) for index in range(partitions))
    topic = produce.TopicProduceData(topic_id=TOPIC_ID, partition_data=data)
    return produce.ProduceRequest(transactional_id=None, acks=acks, timeout=ms(1_000), topic_data=(topic,))


def written_part(request: Any) -> Any:
    lines = tuple(
        produce.PartitionProduceResponse(
            index=data.index,
            error_code=ErrorCode.none,
            base_offset=data.index,
            log_append_time=None,
            record_errors=(),
            log_start_offset=0,
        )
        for data in request.topic_data[0].partition_data
    )
    return produce.ProduceResponse(
        responses=(produce.TopicProduceResponse(topic_id=TOPIC_ID, partition_responses=lines),)
    )


def arrive(client: Peer, *requests: Any) -> None:
    """Requests arrive while other connections have their turns."""
    client.connection.is_queued = True
    for number, request in enumerate(requests, 1):
        frame = codec.encode_request(request, number, "test")
        client.connection.data_received(pack(">i", len(frame)) + frame)
    client.connection.is_queued = False


def indexes(request: Any) -> list[int]:
    return [data.index for data in request.topic_data[0].partition_data]


def test_a_unit_of_a_turn_is_one_part() -> None:
    harness = ConnectionHarness()
    client = harness.connect()
    arrive(client, write_many(), ask_id())
    for number in range(4):
        assert client.connection.serve(NOW), "more can be served at once"
        assert len(harness.asked) == number + 1
        assert indexes(harness.asked[number + 1][0]) == list(range(number * PART, (number + 1) * PART))
    client.connection.serve(NOW)
    assert harness.asked[5][0] == ask_id(), "the next request follows the last part"


def test_parts_are_answered_once_and_together_in_whatever_order_they_are_decided() -> None:
    harness = ConnectionHarness()
    client = harness.connect()
    client.send(write_many())
    harness.run_turns()
    for token in (3, 1, 4):
        harness.answer(token, written_part(harness.asked[token][0]))
    assert client.received == []
    harness.answer(2, written_part(harness.asked[2][0]))
    assert client.received == [1]
    length = int.from_bytes(client.transport.written[:4], "big")
    _, response = codec.decode_response(bytes(client.transport.written[4 : 4 + length]), produce.ProduceRequest)
    assert [(line.index, line.base_offset) for line in response.responses[0].partition_responses] == [
        (index, index) for index in range(PARTITIONS)
    ]


def test_parts_of_a_client_that_disconnected_are_abandoned_and_the_rest_is_not_submitted() -> None:
    harness = ConnectionHarness()
    client = harness.connect()
    arrive(client, write_many())
    client.connection.serve(NOW)
    client.connection.serve(NOW)
    client.disconnect()
    assert harness.abandoned == [1, 2]
    client.connection.serve(NOW)
    harness.run_turns()
    assert list(harness.asked) == [1, 2]
    harness.answer(1, written())
    assert client.received == []


def test_a_part_without_acks_that_fails_closes_the_connection() -> None:
    """P1: the rest of the request is not written."""
    harness = ConnectionHarness()
    client = harness.connect()
    arrive(client, write_many(acks=0))
    client.connection.serve(NOW)
    harness.asked.pop(1)[1](None)
    client.connection.serve(NOW)
    harness.asked.pop(2)[1](HangUp(2, "acks=0, partition 3"))
    assert client.ended == "closed"
    harness.run_turns()
    assert not harness.asked


def test_parts_without_acks_are_not_answered() -> None:
    harness = ConnectionHarness()
    client = harness.connect()
    client.send(write_many(acks=0))
    harness.run_turns()
    for token in (1, 2, 3, 4):
        harness.answer(token, None)
    client.send(ask_id())
    harness.answer(5, new_id())
    assert client.received == [2]


def test_the_node_learns_that_a_part_follows_and_that_the_turn_ended() -> None:
    harness = ConnectionHarness()
    client = harness.connect()
    arrive(client, write_many(3 * PART))
    client.connection.serve(NOW)
    client.connection.serve(NOW)
    assert harness.turns == [True, "ended", True, "ended"], "followers get what each turn has written"
    client.connection.serve(NOW)
    assert harness.turns[4:] == [False]


def test_a_write_is_not_left_waiting_by_a_request_of_another_api() -> None:
    """P1: what a write leaves for the next one is due when the turn ends, whatever came after it."""
    harness = ConnectionHarness()
    client = harness.connect()
    ended = []
    harness.listener.end_turn = lambda: ended.append(len(harness.asked))
    arrive(client, write(), ask_id())
    harness.listener.turns.ready(client.connection)
    assert ended == [2]
    arrive(client, write(), write())
    harness.listener.turns.ready(client.connection)
    assert ended == [2], "the second write has done it"


def test_a_large_request_is_decoded_in_a_unit_of_its_own() -> None:
    harness = ConnectionHarness()
    client = harness.connect()
    arrive(client, write_many(1, size=LARGE_BYTES))
    assert client.connection.serve(NOW)
    assert not harness.asked
    assert client.connection.received_bytes > LARGE_BYTES, "it counts while it waits"
    client.connection.serve(NOW)
    assert len(harness.asked) == 1


def test_a_divided_request_takes_the_capacity_of_one_until_it_is_answered() -> None:
    harness = ConnectionHarness(max_in_flight=1)
    client = harness.connect()
    client.send(write_many())
    client.send(ask_id())
    harness.run_turns()
    assert len(harness.asked) == 4
    assert not client.transport.reading
    for token in (1, 2, 3, 4):
        harness.answer(token, written())
    assert list(harness.asked) == [5]
