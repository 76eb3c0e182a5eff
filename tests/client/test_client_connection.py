"""Connections and the client: clear errors, and retries of what passes by itself."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

import pytest

from insync.client import admin, apis, topics
from insync.client.client import NO_METADATA_EXTRAS, Client, parse_bootstrap
from insync.client.connection import Connection
from insync.client.errors import (
    AddressError,
    ClientError,
    ConnectionLostError,
    ErrorCode,
    NoBrokerError,
    RefusedError,
    UnknownTopicError,
    UnreachableError,
)
from insync.client.request_builder import build_request
from insync.wire import codec
from insync.wire.types import NO_DURATION
from tests.fake_cluster import FakeCluster


def run_on(fake: FakeCluster, work: Callable[[Client], Awaitable[object]], timeout_s: float = 2.0) -> None:
    async def session() -> None:
        async with Client.connect(fake.bootstrap, timeout_s=timeout_s) as client:
            await work(client)

    asyncio.run(session())


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_an_unreachable_cluster_is_reported_with_advice() -> None:
    async def connect() -> None:
        async with Client.connect(f"127.0.0.1:{free_port()}", timeout_s=2):
            pass

    with pytest.raises(NoBrokerError, match=r"Connection refused\. Is the cluster running\?"):
        asyncio.run(connect())


def test_a_listener_that_is_not_kafka_is_recognized() -> None:
    async def connect() -> None:
        async def speak_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(speak_http, "127.0.0.1", 0)
        async with server:
            await Connection.open("127.0.0.1", server.sockets[0].getsockname()[1], timeout_s=2)

    with pytest.raises(UnreachableError, match="not a Kafka listener"):
        asyncio.run(connect())


def test_the_second_bootstrap_address_is_tried() -> None:
    async def connect(bootstrap: str) -> list[int]:
        async with Client.connect(bootstrap, timeout_s=2) as client:
            return sorted(client.brokers)

    with FakeCluster() as fake:
        assert asyncio.run(connect(f"127.0.0.1:{free_port()},{fake.bootstrap}")) == [1, 2, 3]


def test_a_broker_that_only_serves_apiversions_0_is_asked_again() -> None:
    with FakeCluster(1) as fake:
        fake.versions[18] = (0, 0)
        run_on(fake, lambda client: client.refresh())
        assert {version for _, version in fake.requests_of(apis.API_VERSIONS)} == {0}


def test_a_request_in_flight_fails_when_its_connection_ends() -> None:
    """Metadata is answered by closing the connection."""
    with FakeCluster(1) as fake:
        fake.versions[apis.METADATA.key] = (4, 13)

        async def work() -> None:
            connection = await Connection.open("127.0.0.1", fake.ports[1], timeout_s=2)
            fake.versions[apis.METADATA.key] = (1, 0)
            try:
                await connection.call(apis.METADATA, {"topics": None, **NO_METADATA_EXTRAS})
            finally:
                assert not connection.is_alive
                await connection.close()

        with pytest.raises(ConnectionLostError, match=rf"lost the connection to broker 127.0.0.1:{fake.ports[1]}"):
            asyncio.run(work())


def test_a_broker_that_does_not_answer_times_out() -> None:
    async def work() -> None:
        async def answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
            keys = [{"api_key": 3, "min_version": 0, "max_version": 9}]
            values = {"error_code": ErrorCode.none, "api_keys": keys, "throttle_time": NO_DURATION}
            frame = codec.encode_response(build_request(codec.response_type(18, 3), values), 1)
            writer.write(len(frame).to_bytes(4) + frame)
            await reader.read()
            writer.close()

        server = await asyncio.start_server(answer_once, "127.0.0.1", 0)
        async with server:
            connection = await Connection.open("127.0.0.1", server.sockets[0].getsockname()[1], timeout_s=2)
            try:
                values = {"topics": (), **NO_METADATA_EXTRAS}
                await connection.call(apis.METADATA, values, timeout_s=0.05)
            finally:
                await connection.close()

    with pytest.raises(ConnectionLostError, match="did not answer Metadata in time"):
        asyncio.run(work())


def test_a_retriable_error_is_retried() -> None:
    with FakeCluster() as fake:
        fake.next_errors["ListPartitionReassignments"] = [ErrorCode.not_controller, ErrorCode.not_controller]
        run_on(fake, admin.list_reassignments)
        assert len(fake.requests_of(apis.LIST_REASSIGNMENTS)) == 3


def test_an_error_that_is_not_retriable_is_raised_at_once() -> None:
    with FakeCluster() as fake:
        fake.next_errors["ListPartitionReassignments"] = [ErrorCode.cluster_authorization_failed]
        with pytest.raises(
            RefusedError, match=r"CLUSTER_AUTHORIZATION_FAILED \(this user is not authorized to do that; "
        ):
            run_on(fake, admin.list_reassignments)
        assert len(fake.requests_of(apis.LIST_REASSIGNMENTS)) == 1


def test_retries_end_with_the_timeout() -> None:
    with FakeCluster() as fake:
        fake.next_errors["ListPartitionReassignments"] = [ErrorCode.not_controller] * 100
        with pytest.raises(RefusedError, match="NOT_CONTROLLER"):
            run_on(fake, admin.list_reassignments, timeout_s=0.4)


def test_a_connection_that_broke_is_replaced() -> None:
    async def work(client: Client) -> None:
        await client.call_broker(1, apis.LIST_GROUPS, {"states_filter": (), "types_filter": ()})
        first = await client.broker_connection(1)
        await first.close()
        assert (await client.broker_connection(1)) is not first
        await client.call_broker(1, apis.LIST_GROUPS, {"states_filter": (), "types_filter": ()})

    with FakeCluster() as fake:
        run_on(fake, work)


def test_an_unknown_broker_is_reported() -> None:
    with FakeCluster() as fake, pytest.raises(UnreachableError, match="broker 9 is not in the cluster"):
        run_on(fake, lambda client: client.broker_connection(9))


def test_an_unknown_topic_and_an_unknown_partition_are_reported() -> None:
    with FakeCluster() as fake:
        fake.add_topic("t", [1], [2])
        with pytest.raises(UnknownTopicError, match="there is no topic 'nope'"):
            run_on(fake, lambda client: topics.describe_one(client, "nope"))
        with pytest.raises(ClientError, match="has no partition 7, only 0 to 1"):
            run_on(fake, lambda client: topics.describe_partition(client, "t", 7))


def test_a_request_without_a_required_field_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="MetadataRequest version 4 needs topics"):
        build_request(codec.request_type(3, 4), {"allow_auto_topic_creation": False})


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("a:1", [("a", 1)]),
        ("a:1, b:65535", [("a", 1), ("b", 65535)]),
        ("[::1]:9092", [("::1", 9092)]),
    ],
)
def test_bootstrap_addresses_are_parsed(text: str, addresses: list[tuple[str, int]]) -> None:
    assert parse_bootstrap(text) == addresses


@pytest.mark.parametrize("text", ["", "localhost", ":9092", "a:0", "a:65536", "a:x", "a:1,", "a:-1"])
def test_an_invalid_address_is_refused(text: str) -> None:
    with pytest.raises(AddressError, match="write HOST:PORT"):
        parse_bootstrap(text)
