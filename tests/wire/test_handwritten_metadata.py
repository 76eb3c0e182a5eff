"""The handwritten encoder of Metadata responses: the bytes of the generic codec, or it leaves them to that."""

from __future__ import annotations

import importlib
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from insync.wire import codec, frames
from insync.wire.convert import convert
from insync.wire.errors import ErrorCode
from insync.wire.handwritten_metadata import FEW, LOWEST, encode_metadata
from insync.wire.messages import metadata as api
from insync.wire.types import ms
from tests.slow_parameters import last_quick

NUMBERS = st.integers(-1, 2**31 - 1)
NODES = st.lists(NUMBERS, max_size=4).map(tuple)
ERRORS = st.sampled_from([ErrorCode.none, ErrorCode.leader_not_available, ErrorCode.unknown_topic_or_partition])
NAMES = st.text(max_size=200)

PARTITIONS = st.builds(
    api.MetadataResponsePartition,
    error_code=ERRORS,
    partition_index=NUMBERS,
    leader_id=NUMBERS,
    leader_epoch=NUMBERS,
    replica_nodes=NODES,
    isr_nodes=NODES,
    offline_replicas=NODES,
)
TOPICS = st.builds(
    api.MetadataResponseTopic,
    error_code=ERRORS,
    name=NAMES | st.none(),
    topic_id=st.uuids() | st.none(),
    is_internal=st.booleans(),
    partitions=st.lists(PARTITIONS, max_size=4).map(tuple),
    topic_authorized_operations=st.integers(-(2**31), 2**31 - 1),
)
BROKERS = st.builds(
    api.MetadataResponseBroker, node_id=NUMBERS, host=NAMES, port=st.integers(0, 65_535), rack=NAMES | st.none()
)
RESPONSES = st.builds(
    api.MetadataResponse,
    throttle_time=st.integers(0, 10_000).map(ms),
    brokers=st.lists(BROKERS, max_size=3).map(tuple),
    cluster_id=NAMES | st.none(),
    controller_id=NUMBERS,
    topics=st.lists(TOPICS, max_size=3).map(tuple),
    error_code=ERRORS,
)


def encode_generically(response: Any, version: int, correlation_id: int) -> bytes:
    target = importlib.import_module(f"kio.schema.metadata.v{version}.response").MetadataResponse
    return b"".join(frames.framed(codec.encode_response(convert(response, target), correlation_id)))


def partition(replicas: int) -> Any:
    return api.MetadataResponsePartition(
        error_code=ErrorCode.none, partition_index=0, leader_id=0, replica_nodes=tuple(range(replicas))
    )


def answer(name: str | None, *partitions: Any) -> Any:
    topic = api.MetadataResponseTopic(
        error_code=ErrorCode.none, name=name, topic_id=UUID(int=5), partitions=tuple(partitions)
    )
    return api.MetadataResponse(throttle_time=ms(0), brokers=(), topics=(topic,), error_code=ErrorCode.none)


@pytest.mark.parametrize("version", last_quick([11, 12, 13]))
@given(response=RESPONSES)
def test_responses_have_the_bytes_of_the_generic_codec(version: int, response: Any) -> None:
    pieces = encode_metadata(response, version, 7, lambda _: "")
    if pieces is None:
        assert version < 12
        assert any(topic.name is None for topic in response.topics)
    else:
        assert b"".join(pieces) == encode_generically(response, version, 7)


def test_rare_responses_are_left_to_the_generic_codec() -> None:
    assert encode_metadata(answer("t"), LOWEST - 1, 7, lambda _: "") is None
    assert encode_metadata(answer(None), LOWEST, 7, lambda _: "") is None
    assert encode_metadata(answer("t", partition(FEW + 1)), 13, 7, lambda _: "") is None
    assert encode_metadata(answer("t", partition(FEW)), 13, 7, lambda _: "") is not None
