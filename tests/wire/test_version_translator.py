"""The version translator: the node gets its own version of every request, and clients get theirs of every response."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.serial import entity_writer
from kio.static.primitive import Records, i64Timedelta

from insync.wire import codec, entities
from insync.wire.convert import convert
from insync.wire.errors import ErrorCode, MalformedFrameError, UnknownApiError
from insync.wire.messages import api_versions, fetch, metadata, vote
from insync.wire.types import ms
from tests.wire.translator_harness import SERVED, TYPES, VERSIONS, make_translator, read_answer, received

st.register_type_strategy(Records, st.binary(max_size=50))
# kio computes long durations with floats: beyond some thousand years it writes another millisecond.
st.register_type_strategy(i64Timedelta, st.integers(-1, 2**47).map(ms))

EVERY = [(key, version) for key, versions in sorted(VERSIONS.items()) for version in versions]
FEW = settings(max_examples=4, suppress_health_check=list(HealthCheck))


@pytest.mark.slow
@pytest.mark.parametrize(("key", "version"), EVERY)
@FEW
@given(data=st.data())
def test_any_request_of_any_version_reaches_the_node_in_its_own(key: int, version: int, data: st.DataObject) -> None:
    asked = data.draw(st.from_type(codec.request_type(key, version)))
    context = received(make_translator(), asked)
    assert isinstance(context.request, TYPES[key])
    assert entities.decode(TYPES[key], entities.encode(context.request))
    assert entities.encode(asked) == written_by_kio(asked)
    assert (context.header.api_version, context.header.client_id) == (version, "client")


@pytest.mark.slow
@pytest.mark.parametrize(("key", "version"), EVERY)
@FEW
@given(data=st.data())
def test_any_answer_of_the_node_reaches_the_client_in_the_version_it_asked(
    key: int, version: int, data: st.DataObject
) -> None:
    translator = make_translator()
    context = received(translator, data.draw(st.from_type(codec.request_type(key, version))))
    response = data.draw(st.from_type(codec.response_type_of(TYPES[key])))
    downgraded = translator.downgrade(context, response)
    assert type(downgraded) is codec.response_type(key, version)
    decoded = read_answer(context, translator.encode_response(context, response))
    assert written_by_kio(decoded) == written_by_kio(downgraded)
    older = codec.response_type(key, version)
    assert entities.encode(response, older) == written_by_kio(convert(response, older))


def written_by_kio(entity: Any) -> bytes:
    out = BytesIO()
    entity_writer(type(entity))(out, entity)
    return out.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize(("key", "version"), EVERY)
def test_fields_of_both_versions_survive_the_conversion(key: int, version: int) -> None:
    """To the older version and back."""
    older = codec.response_type(key, version)
    first = convert(_sample(older), codec.response_type_of(TYPES[key]))
    assert convert(convert(first, older), type(first)) == first


def _sample(cls: Any) -> Any:
    strategy = st.from_type(cls)
    values: list[Any] = []

    @settings(max_examples=3, suppress_health_check=list(HealthCheck), database=None, derandomize=True)
    @given(strategy)
    def collect(value: Any) -> None:
        values.append(value)

    collect()
    return values[-1]


def test_bytes_after_a_request_are_ignored_as_kafka_does() -> None:
    """W4: librdkafka 2.16 asks for all topics in Metadata v13 with a null of one byte where it counted on four."""
    frame = bytes.fromhex("0003000d00000003000772646b61666b610000000000010000")
    request = make_translator().receive(frame).request
    assert request.topics is None
    assert not request.allow_auto_topic_creation


# --- which versions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 1, 2, 14])
def test_produce_is_advertised_from_version_0_and_served_from_version_3(version: int) -> None:
    """W3: old librdkafka compresses only for brokers whose Produce begins at 0."""
    assert SERVED[0] == (0, 13)
    with pytest.raises(UnknownApiError):
        make_translator().receive(b"\x00\x00" + version.to_bytes(2, "big") + bytes(40))


def test_a_version_outside_the_advertised_range_is_unknown_though_it_has_a_schema() -> None:
    frame = codec.encode_request(
        codec.request_type(1, 18)(max_wait=ms(1), min_bytes=1, topics=(), forgotten_topics_data=()), 1, "c"
    )
    with pytest.raises(UnknownApiError):
        make_translator().receive(frame)


def test_requests_of_nodes_pass_unchanged() -> None:
    request = vote.VoteRequest(cluster_id="c", voter_id=1, topics=())
    assert received(make_translator(), request).request == request


def test_an_api_that_the_node_does_not_take_is_unknown() -> None:
    with pytest.raises(UnknownApiError):
        make_translator().receive(b"\x00\x47\x00\x00" + bytes(30))  # 71: telemetry


@pytest.mark.parametrize("version", [5, 99, 32767])
def test_api_versions_of_an_unknown_version_is_answered_in_version_0(version: int) -> None:
    """W1: error 35 and the range to choose from."""
    translator = make_translator()
    context = translator.receive(b"\x00\x12" + version.to_bytes(2, "big") + b"\x00\x00\x00\x09\xff\xff" + b"?" * 20)
    assert context.request is None
    answer = read_answer(context, translator.encode_response(context, None))
    assert answer.error_code is ErrorCode.unsupported_version
    assert [(line.api_key, line.min_version, line.max_version) for line in answer.api_keys] == [(18, 0, 4)]


def test_clients_before_version_4_get_no_features_from_level_0() -> None:
    """Their decoder fails on a lowest level of 0."""
    features = tuple(
        api_versions.SupportedFeatureKey(name=name, min_version=low, max_version=2)
        for name, low in (("a", 0), ("b", 1))
    )
    response = api_versions.ApiVersionsResponse(
        error_code=ErrorCode.none, api_keys=(), throttle_time=ms(0), supported_features=features
    )
    translator = make_translator()
    for version, names in ((3, ["b"]), (4, ["a", "b"])):
        asked = codec.request_type(18, version)(client_software_name="c", client_software_version="1")
        answer = translator.downgrade(received(translator, asked), response)
        assert [feature.name for feature in answer.supported_features] == names


# --- abuse ------------------------------------------------------------------------------------------------------------


@settings(max_examples=300)
@given(key=st.sampled_from(sorted(TYPES)), version=st.integers(0, 18), body=st.binary(max_size=80))
def test_random_bytes_are_malformed_or_a_request_that_can_be_encoded(key: int, version: int, body: bytes) -> None:
    assert_malformed_or_complete(key.to_bytes(2, "big") + version.to_bytes(2, "big") + body)


@settings(max_examples=300, suppress_health_check=list(HealthCheck))
@given(data=st.data(), where=st.sampled_from(EVERY))
def test_damaged_requests_are_malformed_or_a_request_that_can_be_encoded(
    data: st.DataObject, where: tuple[int, int]
) -> None:
    frame = bytearray(codec.encode_request(data.draw(st.from_type(codec.request_type(*where))), 1, "c"))
    for _ in range(data.draw(st.integers(1, 4))):
        frame[data.draw(st.integers(4, len(frame) - 1))] = data.draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF]))
    assert_malformed_or_complete(bytes(frame))
    assert_malformed_or_complete(bytes(frame[: data.draw(st.integers(0, len(frame)))]))
    assert_malformed_or_complete(bytes(frame) + b"\x00")


def assert_malformed_or_complete(frame: bytes) -> None:
    """The frame is a request with all its fields, or raises MalformedFrameError and nothing else."""
    try:
        context = make_translator().receive(frame)
    except MalformedFrameError:
        return
    if context.request is not None:
        encoded = entities.encode(context.request)
        assert entities.encode(entities.decode(type(context.request), encoded)) == encoded


def test_null_becomes_empty_where_the_older_schema_has_no_null() -> None:
    """Metadata of an unknown topic id has no name; before version 12 there had to be one."""
    topic = metadata.MetadataResponseTopic(
        error_code=ErrorCode.unknown_topic_id, name=None, topic_id=None, partitions=()
    )
    assert convert(topic, _topic_type(11)).name == ""
    assert convert(topic, _topic_type(12)).name is None


def _topic_type(version: int) -> Any:
    module = __import__(f"kio.schema.metadata.v{version}.response", fromlist=["MetadataResponseTopic"])
    return module.MetadataResponseTopic


def test_converting_to_the_same_class_costs_nothing() -> None:
    state = fetch.ReplicaState(replica_id=1, replica_epoch=2)
    assert convert(state, fetch.ReplicaState) is state
