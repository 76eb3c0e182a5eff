"""The handwritten decoders of Produce and Fetch return what the generic codec returns, or leave a request to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.static.primitive import Records, i32Timedelta

from insync.wire import codec, handwritten_broker
from insync.wire.errors import MalformedFrameError
from insync.wire.messages import fetch
from insync.wire.types import ms
from insync.wire.versions import translator as translators
from tests.slow_parameters import last_quick
from tests.wire.translator_harness import OTHER, TOPIC, Names, make_translator

PRODUCE, FETCH = 0, 1
PRODUCES = [(PRODUCE, version) for version in range(7, 14)]
FETCHES = [(FETCH, version) for version in range(15, 19)]
HANDWRITTEN = [*PRODUCES, *FETCHES]
RECORDS = bytes(range(200))

st.register_type_strategy(Records, st.binary(max_size=300))
st.register_type_strategy(i32Timedelta, st.integers(-1, 2**31 - 1).map(ms))


@contextmanager
def without_handwritten_decoders() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(translators, "_HANDWRITTEN_REQUESTS", {})
        yield


def outcome(frame: bytes) -> Any:
    """The request, refusals and names that a translator reads, or the class of its error."""
    try:
        context = make_translator().receive(frame)
    except MalformedFrameError as error:
        return type(error)
    return context.request, context.refused, context.names


def agrees_with_generic_codec(frame: bytes) -> bool:
    with without_handwritten_decoders():
        expected = outcome(frame)
    return bool(outcome(frame) == expected)


def usual_request(key: int, version: int) -> Any:
    """A request as most clients and followers send it."""
    kind = codec.request_type(key, version)
    parts = vars(__import__(kind.__module__, fromlist=["x"]))
    if key == PRODUCE:
        lines = tuple(parts["PartitionProduceData"](index=i, records=RECORDS) for i in (0, 7))
        names = [{"topic_id": TOPIC}, {"topic_id": OTHER}] if version >= 13 else [{"name": "t"}, {"name": "other"}]
        topics = tuple(parts["TopicProduceData"](partition_data=lines, **name) for name in names)
        return kind(acks=-1, timeout=ms(30_000), topic_data=topics)
    line = parts["FetchPartition"](
        partition=3,
        current_leader_epoch=5,
        fetch_offset=2**40,
        last_fetched_epoch=4,
        log_start_offset=1,
        partition_max_bytes=1 << 20,
    )
    topic = parts["FetchTopic"](topic_id=TOPIC, partitions=(line, line))
    state = parts["ReplicaState"](replica_id=2, replica_epoch=77)
    return kind(
        replica_state=state,
        max_wait=ms(500),
        min_bytes=1,
        session_id=9,
        session_epoch=3,
        topics=(topic,),
        forgotten_topics_data=(),
    )


@pytest.mark.parametrize(("key", "version"), HANDWRITTEN)
def test_usual_requests_are_decoded_by_handwritten_code(key: int, version: int) -> None:
    frame = codec.encode_request(usual_request(key, version), 1, "client")
    _, pos = codec.read_request_header(frame)
    read = handwritten_broker.decode_produce if key == PRODUCE else handwritten_broker.decode_fetch
    assert read(frame, pos, version, Names().id_of) is not None
    assert agrees_with_generic_codec(frame)


def test_a_fetch_of_a_consumer_has_no_replica_id() -> None:
    request = fetch.FetchRequest(max_wait=ms(1), min_bytes=1, topics=(), forgotten_topics_data=())
    frame = codec.encode_request(request, 1, "client")
    _, pos = codec.read_request_header(frame)
    read = handwritten_broker.decode_fetch(frame, pos, 17, Names().id_of)
    assert read == request
    assert read is not None
    assert read.replica_state.replica_id == -1


@pytest.mark.parametrize(("key", "version"), [(PRODUCE, 3), (PRODUCE, 6), (FETCH, 4), (FETCH, 14)])
def test_older_versions_are_left_to_the_generic_codec(key: int, version: int) -> None:
    read = handwritten_broker.decode_produce if key == PRODUCE else handwritten_broker.decode_fetch
    assert read(bytes(100), 0, version, Names().id_of) is None


@pytest.mark.parametrize(("key", "version"), [*last_quick(PRODUCES), *last_quick(FETCHES)])
@settings(max_examples=30)
@given(data=st.data())
def test_any_request_is_decoded_as_by_the_generic_codec(key: int, version: int, data: st.DataObject) -> None:
    request = data.draw(st.from_type(codec.request_type(key, version)))
    assert agrees_with_generic_codec(codec.encode_request(request, 1, "client"))


@pytest.mark.parametrize(("key", "version"), [*last_quick(PRODUCES), *last_quick(FETCHES)])
@settings(max_examples=60)
@given(data=st.data())
def test_damaged_requests_are_handled_as_by_the_generic_codec(key: int, version: int, data: st.DataObject) -> None:
    frame = bytearray(codec.encode_request(usual_request(key, version), 1, "client"))
    _, start = codec.read_request_header(bytes(frame))
    for _ in range(data.draw(st.integers(0, 3))):
        frame[data.draw(st.integers(start, len(frame) - 1))] = data.draw(st.sampled_from([0, 1, 2, 127, 128, 255]))
    cut = data.draw(st.one_of(st.just(len(frame)), st.integers(start, len(frame))))
    assert agrees_with_generic_codec(bytes(frame[:cut]) + data.draw(st.sampled_from([b"", b"\x00", b"more"])))


def test_the_id_of_a_topic_is_one_object() -> None:
    """A dict finds the same object faster than an equal one."""
    frames = [codec.encode_request(usual_request(FETCH, 17), number, "client") for number in (1, 2)]
    first, second = [make_translator().receive(frame).request.topics[0].topic_id for frame in frames]
    assert first is second
    assert first == UUID(bytes=TOPIC.bytes)
