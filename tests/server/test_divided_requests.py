"""A connection hands a large request to the node in parts, a unit of a turn each, and answers it once."""

from __future__ import annotations

from struct import pack
from typing import Any

from connection_harness import TOPIC_ID, Peer, World, ask_id, new_id, write, written

from insync.node.handlers import PARTS
from insync.sansio import HangUp
from insync.server.connection import LARGE_BYTES
from insync.wire import codec
from insync.wire.errors import ErrorCode
from insync.wire.messages import produce
from insync.wire.types import ms

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
    """The bytes are there, and the turns of others come first."""
    client.connection.is_queued = True
    for number, request in enumerate(requests, 1):
        frame = codec.encode_request(request, number, "test")
        client.connection.data_received(pack(">i", len(frame)) + frame)
    client.connection.is_queued = False


def indexes(request: Any) -> list[int]:
    return [data.index for data in request.topic_data[0].partition_data]


def test_a_unit_of_a_turn_is_one_part() -> None:
    world = World()
    client = world.connect()
    arrive(client, write_many(), ask_id())
    for number in range(4):
        assert client.connection.serve(NOW), "more can be served at once"
        assert len(world.asked) == number + 1
        assert indexes(world.asked[number + 1][0]) == list(range(number * PART, (number + 1) * PART))
    client.connection.serve(NOW)
    assert world.asked[5][0] == ask_id(), "the next request follows the last part"


def test_parts_are_answered_once_and_together_in_whatever_order_they_are_decided() -> None:
    world = World()
    client = world.connect()
    client.send(write_many())
    world.run_turns()
    for token in (3, 1, 4):
        world.answer(token, written_part(world.asked[token][0]))
    assert client.received == []
    world.answer(2, written_part(world.asked[2][0]))
    assert client.received == [1]
    length = int.from_bytes(client.transport.written[:4], "big")
    _, told = codec.decode_response(bytes(client.transport.written[4 : 4 + length]), produce.ProduceRequest)
    assert [(line.index, line.base_offset) for line in told.responses[0].partition_responses] == [
        (index, index) for index in range(PARTITIONS)
    ]


def test_parts_of_a_client_that_has_gone_are_abandoned_and_the_rest_never_reaches_the_node() -> None:
    world = World()
    client = world.connect()
    arrive(client, write_many())
    client.connection.serve(NOW)
    client.connection.serve(NOW)
    client.go()
    assert world.abandoned == [1, 2]
    client.connection.serve(NOW)
    world.run_turns()
    assert list(world.asked) == [1, 2]
    world.answer(1, written())
    assert client.received == []


def test_a_part_without_acks_that_fails_closes_the_connection() -> None:
    """P1: and what is left of the request is not written."""
    world = World()
    client = world.connect()
    arrive(client, write_many(acks=0))
    client.connection.serve(NOW)
    world.asked.pop(1)[1](None)
    client.connection.serve(NOW)
    world.asked.pop(2)[1](HangUp(2, "acks=0, partition 3"))
    assert client.ended == "closed"
    world.run_turns()
    assert not world.asked


def test_parts_without_acks_are_not_answered() -> None:
    world = World()
    client = world.connect()
    client.send(write_many(acks=0))
    world.run_turns()
    for token in (1, 2, 3, 4):
        world.answer(token, None)
    client.send(ask_id())
    world.answer(5, new_id())
    assert client.received == [2]


def test_the_node_hears_that_a_part_follows_and_that_the_turn_ended() -> None:
    world = World()
    client = world.connect()
    told = []
    ask, end_turn = world.listener.request, world.listener.end_turn
    world.listener.request = lambda *args: (told.append(args[3]), ask(*args))[1]
    world.listener.end_turn = lambda: (told.append("ended"), end_turn())[1]
    arrive(client, write_many(3 * PART))
    client.connection.serve(NOW)
    client.connection.serve(NOW)
    assert told == [True, "ended", True, "ended"], "followers get what each turn has written"
    client.connection.serve(NOW)
    assert told[4:] == [False]


def test_a_write_is_not_left_waiting_by_a_request_of_another_api() -> None:
    """P1: what a write leaves for the next one is due when the turn ends, whatever came after it."""
    world = World()
    client = world.connect()
    ended = []
    world.listener.end_turn = lambda: ended.append(len(world.asked))
    arrive(client, write(), ask_id())
    world.listener.turns.ready(client.connection)
    assert ended == [2]
    arrive(client, write(), write())
    world.listener.turns.ready(client.connection)
    assert ended == [2], "the second write has done it"


def test_a_large_request_is_decoded_in_a_unit_of_its_own() -> None:
    world = World()
    client = world.connect()
    arrive(client, write_many(1, size=LARGE_BYTES))
    assert client.connection.serve(NOW)
    assert not world.asked
    assert client.connection.received_bytes > LARGE_BYTES, "it counts while it waits"
    client.connection.serve(NOW)
    assert len(world.asked) == 1


def test_a_divided_request_takes_the_room_of_one_until_it_is_answered() -> None:
    world = World(max_in_flight=1)
    client = world.connect()
    client.send(write_many())
    client.send(ask_id())
    world.run_turns()
    assert len(world.asked) == 4
    assert not client.transport.reading
    for token in (1, 2, 3, 4):
        world.answer(token, written())
    assert list(world.asked) == [5]
