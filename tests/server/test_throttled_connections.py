"""KIP-219: a client above its quota is answered at once, told how long to wait, and not read meanwhile. KIP-612: the
connections of an address, and how fast new ones come, are limited."""

from __future__ import annotations

from dataclasses import replace
from struct import unpack
from typing import Any

from insync.security.quotas import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    DEFAULT,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    QuotaEntity,
)
from insync.server.acceptor import Acceptor
from insync.wire import codec
from insync.wire.types import millis, ms
from tests.server.connection_harness import (
    ConnectionHarness,
    Peer,
    ask_id,
    ask_records,
    new_id,
    records,
    write,
    written,
)

ANONYMOUS = "ANONYMOUS"


def throttled(**limits: float) -> ConnectionHarness:
    harness = ConnectionHarness()
    harness.listener.quotas.update({QuotaEntity(ANONYMOUS): limits})
    return harness


def throttle_times(client: Peer, *requests: Any) -> list[int]:
    """The throttle times in the answers to these requests."""
    data, times = bytes(client.transport.written), []
    for request in requests:
        (length,) = unpack(">i", data[:4])
        _, answer = codec.decode_response(data[4 : 4 + length], type(request))
        times.append(millis(answer.throttle_time))
        data = data[4 + length :]
    return times


def is_muted(harness: ConnectionHarness, client: Peer, token: int) -> bool:
    """Whether the next request waits; `token` is what it would get."""
    client.send(ask_id())
    return token not in harness.asked


def test_a_producer_above_its_rate_waits_as_long_as_its_answer_says() -> None:
    harness = throttled(producer_byte_rate=100)
    client, request = harness.connect(), write(5_000)
    client.send(request)
    harness.answer(1, written())
    (told_ms,) = throttle_times(client, request)
    assert 35_000 < told_ms < 45_000, "5,000 bytes in 10 seconds are 5 times the rate"
    assert not client.transport.reading
    assert is_muted(harness, client, 2)
    ((delay_s, unmute),) = harness.timers
    assert delay_s * 1_000 == told_ms
    unmute()
    harness.run_turns()
    assert 2 in harness.asked, "what arrived meanwhile is served now"
    assert client.transport.reading


def test_a_producer_below_its_rate_does_not_wait() -> None:
    harness = throttled(producer_byte_rate=1_000_000)
    client, request = harness.connect(), write(5_000)
    client.send(request)
    harness.answer(1, written())
    assert throttle_times(client, request) == [0]
    assert not is_muted(harness, client, 2)


def test_writes_without_acks_are_counted_too() -> None:
    """There is no answer with a throttle time; only the connection waits."""
    harness = throttled(producer_byte_rate=100)
    client = harness.connect()
    client.send(write(5_000, acks=0))
    harness.answer(1, None)
    assert client.received == []
    assert is_muted(harness, client, 2)


def test_a_consumer_waits_for_what_it_was_sent() -> None:
    harness = throttled(consumer_byte_rate=100)
    client, request = harness.connect(), ask_records()
    client.send(request)
    harness.answer(1, records(5_000))
    (told_ms,) = throttle_times(client, request)
    assert 35_000 < told_ms < 45_000
    assert is_muted(harness, client, 2)


def test_one_fetch_returns_no_more_than_its_rate_allows_in_the_measured_time() -> None:
    harness = throttled(consumer_byte_rate=100)
    harness.connect().send(ask_records())
    assert harness.asked[1][0].max_bytes == 1_000
    harness.connect().send(replace(ask_records(), max_bytes=10))
    assert harness.asked[2][0].max_bytes == 10


def test_clients_that_share_a_limit_use_it_up_together() -> None:
    harness = throttled(producer_byte_rate=1_000)
    for _ in range(2):
        client = harness.connect()
        client.send(write(8_000))
    harness.answer(1, written())
    assert harness.timers == []
    harness.answer(2, written())
    assert len(harness.timers) == 1
    assert is_muted(harness, client, 3)


def test_nodes_are_not_throttled() -> None:
    """A9: replication must go on whatever a client's quota is."""
    harness = ConnectionHarness()
    every = {PRODUCER_BYTE_RATE: 1.0, CONSUMER_BYTE_RATE: 1.0, REQUEST_PERCENTAGE: 0.001}
    harness.listener.quotas.update({QuotaEntity(DEFAULT): every, QuotaEntity(None, DEFAULT): every})
    node = harness.connect()
    node.send(ask_records(), "insync-node-2")
    assert node.connection.peer == 2
    assert harness.asked[1][0].max_bytes > 1_000
    harness.answer(1, records(5_000))
    assert harness.timers == []
    assert not is_muted(harness, node, 2)


def test_a_client_that_uses_too_much_time_waits_a_window_at_most() -> None:
    """KIP-124: percent of the one thread that serves requests."""
    harness = throttled(request_percentage=1)
    client = harness.connect()
    client.send(ask_id())
    client.connection._record_request_time(5_000_000_000)
    harness.answer(1, new_id())
    assert throttle_times(client, ask_id()) == [1_000]
    assert is_muted(harness, client, 2)


def test_a_wait_that_the_controller_asks_for_is_kept_here() -> None:
    """KIP-599: the controller cannot mute the client's connection."""
    harness = throttled(controller_mutation_rate=1)
    client = harness.connect()
    client.send(ask_id())
    harness.answer(1, replace(new_id(), throttle_time=ms(700)))
    assert throttle_times(client, ask_id()) == [700]
    assert harness.timers[0][0] == 0.7
    assert is_muted(harness, client, 2)


def test_the_longest_of_several_waits_counts() -> None:
    harness = ConnectionHarness()
    client = harness.connect()
    client.connection.mute(1_000)
    client.connection.mute(5_000)
    client.connection.mute(2_000)
    assert [delay_s for delay_s, _ in harness.timers] == [1.0, 5.0]
    harness.timers[0][1]()
    assert is_muted(harness, client, 1)
    harness.timers[1][1]()
    harness.run_turns()
    assert 1 in harness.asked


def test_a_connection_that_is_closed_stays_closed_when_its_wait_is_over() -> None:
    harness = ConnectionHarness()
    client = harness.connect()
    client.connection.mute(1_000)
    client.disconnect()
    harness.timers[0][1]()
    harness.run_turns()
    assert client.connection.is_closed


# --- connections ---


def fire_timers(harness: ConnectionHarness) -> None:
    timers, harness.timers = harness.timers, []
    for _, callback in timers:
        callback()
    harness.run_turns()


def test_an_address_has_no_more_connections_than_it_may() -> None:
    harness = ConnectionHarness(max_connections_per_ip=2)
    first, second, third = (harness.connect() for _ in range(3))
    assert [client.ended for client in (first, second, third)] == ["", "", "aborted"]
    third.disconnect()
    first.disconnect()
    assert harness.connect().ended == ""


def test_some_addresses_may_have_other_numbers() -> None:
    harness = ConnectionHarness(max_connections_per_ip=1, max_connections_per_ip_overrides=(("10.0.0.1", 2),))
    assert [harness.connect().ended for _ in range(3)] == ["", "", "aborted"]


def test_an_address_that_connects_too_fast_is_refused_after_a_while() -> None:
    """It would come back at once if it were refused at once."""
    harness = ConnectionHarness()
    quotas = harness.listener.quotas
    quotas.update({QuotaEntity(ip="10.0.0.1"): {CONNECTION_CREATION_RATE: 1}})
    clients = [harness.connect() for _ in range(20)]
    assert [client.ended for client in clients] == [""] * 20
    clients[-1].send(ask_id())
    fire_timers(harness)
    assert len([client for client in clients if client.ended]) in (9, 10), "one per second, over ten seconds"
    assert (clients[0].ended, clients[-1].ended) == ("", "aborted")
    quotas.update({QuotaEntity(ip="10.0.0.1"): {CONNECTION_CREATION_RATE: 1_000}})
    harness.timers = []
    assert harness.connect().ended == ""
    assert harness.timers == []


def test_the_default_is_for_addresses_without_a_limit_of_their_own() -> None:
    harness = ConnectionHarness()
    harness.listener.quotas.update(
        {
            QuotaEntity(ip=DEFAULT): {CONNECTION_CREATION_RATE: 1},
            QuotaEntity(ip="10.0.0.1"): {CONNECTION_CREATION_RATE: 1_000},
        }
    )
    for _ in range(20):
        harness.connect()
    assert harness.timers == []
    harness.listener.quotas.update({QuotaEntity(ip=DEFAULT): {CONNECTION_CREATION_RATE: 1}})
    harness.connect()
    assert len(harness.timers) == 2


def test_new_connections_wait_while_there_are_too_many_in_all() -> None:
    harness = ConnectionHarness(max_connection_creation_rate=1)
    clients = [harness.connect() for _ in range(15)]
    assert 0 < len(harness.timers) < 10
    harness.timers[-1][1]()
    last = clients[-1]
    assert not last.transport.reading
    last.send(ask_id())
    assert harness.asked == {}
    fire_timers(harness)
    fire_timers(harness)
    assert (len(harness.asked), last.ended) == (1, "")


def test_a_listener_that_nodes_have_to_themselves_is_not_limited() -> None:
    harness = ConnectionHarness(acceptor=Acceptor("CONTROLLER", serves_nodes=True), max_connections_per_ip=1)
    harness.listener._has_client_listener = True
    nodes = [harness.connect() for _ in range(3)]
    assert [node.ended for node in nodes] == ["", "", ""]
    nodes[0].disconnect()
