"""A cut between two nodes, in one event loop and over real sockets."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Awaitable, Callable
from functools import wraps

import pytest
import uvloop

from insync.cluster.faults import CLIENTS, Delay, Faults
from insync.cluster.network import CutNetwork, read_client_id
from insync.server import node_query
from insync.server.peers import CLIENT_ID_PREFIX
from insync.wire import codec
from insync.wire.messages import api_versions

TIMEOUT_S = 20.0


class End(asyncio.Protocol):
    """One end of a connection: what it received, and whether it was notified of the end of the connection."""

    def __init__(self) -> None:
        self.received = b""
        self.lost = False
        self.transport: asyncio.Transport = None  # type: ignore[assignment]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True

    def send(self, data: bytes) -> None:
        self.transport.writelines([data])


class Pair:
    """Nodes 1 and 2; node 2 listens."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.one, self.two = CutNetwork(loop, Faults()), CutNetwork(loop, Faults())
        self.accepted: list[End] = []
        self.port = 0

    def accept(self) -> End:
        self.accepted.append(End())
        return self.accepted[-1]

    async def connect(self) -> End:
        """Connect node 1 to node 2."""
        here = End()
        await self.one.connect(2, here, "127.0.0.1", self.port)
        return here

    async def link(self) -> tuple[End, End]:
        """The two ends of a connection of node 1 to node 2, after its first request."""
        return await self._send_first_request(await self.connect(), f"{CLIENT_ID_PREFIX}1")

    async def client(self) -> tuple[End, End]:
        return await self._send_first_request(await _connect(self), "some-client")

    async def _send_first_request(self, here: End, name: str) -> tuple[End, End]:
        request = _request(name)
        here.send(request)
        await until(lambda: any(end.received == request for end in self.accepted))
        there = next(end for end in self.accepted if end.received == request)
        there.received = b""
        return here, there

    def cut(self, *, one_way: bool = False) -> None:
        """Bytes of node 1 do not reach node 2 and, unless `one_way`, bytes of node 2 do not reach node 1."""
        one, two = frozenset({1}), frozenset({2})
        self.one.impose(Faults(mute_to=two, deaf_to=frozenset() if one_way else two))
        self.two.impose(Faults(deaf_to=one, mute_to=frozenset() if one_way else one))

    def heal(self) -> None:
        self.one.impose(Faults())
        self.two.impose(Faults())


def _request(name: str) -> bytes:
    request = api_versions.ApiVersionsRequest(client_software_name="test", client_software_version="1")
    frame = codec.encode_request(request, 1, name)
    return len(frame).to_bytes(4, "big") + frame


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not condition():
            await asyncio.sleep(0.001)


async def _let_bytes_pass(both: Pair) -> None:
    """A whole exchange with a client in the same loop: whatever else was on its way has arrived by then."""
    here, there = await both.client()
    here.send(b"ping")
    await until(lambda: there.received == b"ping")
    there.send(b"pong")
    await until(lambda: here.received == b"pong")


def with_pair(test_body: Callable[[Pair], Awaitable[None]]) -> Callable[[], None]:
    @wraps(test_body)
    def test() -> None:
        async def run() -> None:
            both = Pair()
            sock = socket.create_server(("127.0.0.1", 0))
            both.port = sock.getsockname()[1]
            server = await both.two.listen(both.accept, sock, 10)
            await test_body(both)
            server.close()

        uvloop.run(run())

    del test.__wrapped__  # pytest would take its parameters for fixtures
    return test


@with_pair
async def test_without_a_cut_bytes_pass_both_ways(both: Pair) -> None:
    here, there = await both.link()
    here.send(b"ping")
    there.send(b"pong")
    await until(lambda: (here.received, there.received) == (b"pong", b"ping"))
    assert len(both.one.links) == len(both.two.links) == 1
    here.transport.abort()
    await until(lambda: here.lost and there.lost)
    assert not both.one.links
    assert not both.two.links


@with_pair
async def test_a_cut_is_silent(both: Pair) -> None:
    """Nothing arrives, and neither end notices that the other has closed the connection."""
    first, second = await both.link(), await both.link()
    both.cut()
    for end in (*first, *second):
        end.send(b"lost")
    first[0].transport.abort()
    second[1].transport.close()
    await _let_bytes_pass(both)
    assert [end.received for end in (*first, *second)] == [b""] * 4
    assert [end.lost for end in (*first, *second)] == [True, False, False, True]


@with_pair
async def test_the_death_of_a_process_behind_a_cut_is_noticed_only_after_the_cut(both: Pair) -> None:
    here, _ = await both.link()
    both.cut()
    for link in list(both.two.links):
        link._transport.abort()  # as the kernel does for a dead process
    await _let_bytes_pass(both)
    assert not here.lost
    both.one.impose(Faults())
    await until(lambda: here.lost)


@with_pair
async def test_opening_a_connection_waits_for_the_end_of_the_cut(both: Pair) -> None:
    both.cut()
    opening = asyncio.ensure_future(both.connect())
    await _let_bytes_pass(both)
    assert not opening.done()
    both.heal()
    here, there = await both._send_first_request(await opening, f"{CLIENT_ID_PREFIX}1")
    there.send(b"welcome")
    await until(lambda: here.received == b"welcome")


@with_pair
async def test_connections_that_existed_during_a_cut_are_dropped_at_its_end(both: Pair) -> None:
    here, there = await both.link()
    both.cut()
    here.send(b"lost")
    both.heal()
    await until(lambda: here.lost and there.lost)
    assert (here.received, there.received) == (b"", b"")
    here, there = await both.link()
    here.send(b"again")
    await until(lambda: there.received == b"again")
    assert len(both.one.links) == len(both.two.links) == 1


@with_pair
async def test_clients_are_not_affected_by_a_cut(both: Pair) -> None:
    here, there = await both.client()
    both.cut()
    here.send(b"ping")
    await until(lambda: there.received == b"ping")
    both.heal()
    await _let_bytes_pass(both)
    assert not here.lost
    assert not there.lost


@with_pair
async def test_a_one_way_cut_lets_bytes_pass_in_the_other_direction(both: Pair) -> None:
    here, there = await both.link()
    both.cut(one_way=True)
    here.send(b"lost")
    there.send(b"heard")
    await until(lambda: here.received == b"heard")
    await _let_bytes_pass(both)
    assert there.received == b""
    opening = asyncio.ensure_future(both.connect())
    await _let_bytes_pass(both)
    assert not opening.done(), "opening a connection takes both directions"
    there.transport.abort()
    await until(lambda: here.lost)
    opening.cancel()


@with_pair
async def test_the_first_request_of_a_cut_peer_on_a_new_connection_is_discarded(both: Pair) -> None:
    """The accepting node learns the peer of a connection from the very bytes that it must discard."""
    both.cut()
    both.one.impose(Faults())  # its end of the cut is not in force yet, or no longer
    here = await both.connect()
    here.send(_request(f"{CLIENT_ID_PREFIX}1"))
    await _let_bytes_pass(both)
    assert both.accepted[-2].received == b""


@pytest.mark.parametrize("data", [b"", b"\0" * 13, b"\0" * 14, b"\0" * 12 + b"\xff\xff"])
def test_bytes_without_a_client_id_do_not_come_from_a_node(data: bytes) -> None:
    assert read_client_id(data) is None


@with_pair
async def test_clients_can_be_cut_off_alone(both: Pair) -> None:
    """Nodes and the supervisor still pass."""
    client, link = await both.client(), await both.link()
    both.two.impose(Faults(deaf_to=frozenset((CLIENTS,)), mute_to=frozenset((CLIENTS,))))
    client[0].send(b"lost")
    client[1].send(b"lost")
    for here, there in (link, await both._send_first_request(await _connect(both), node_query.CLIENT_ID)):
        here.send(b"ping")
        await until(lambda there=there: there.received == b"ping")  # type: ignore[misc]
        there.send(b"pong")
        await until(lambda here=here: here.received == b"pong")  # type: ignore[misc]
    assert [end.received for end in client] == [b"", b""]
    both.heal()
    await until(lambda: client[0].lost)


@with_pair
async def test_delayed_bytes_arrive_late_and_in_order(both: Pair) -> None:
    """Those sent after the delay has ended too, and a connection closes only after them."""
    here, there = await both.link()
    loop = asyncio.get_running_loop()
    both.one.impose(Faults(delay_to=((2, Delay(latency_ms=80)),)))
    began = loop.time()
    here.send(b"a")
    both.one.impose(Faults())
    here.send(b"b")
    here.transport.close()
    await until(lambda: there.lost)
    assert there.received == b"ab"
    assert loop.time() - began >= 0.08


@with_pair
async def test_a_limited_rate_delays_by_size(both: Pair) -> None:
    here, there = await both.link()
    loop = asyncio.get_running_loop()
    both.one.impose(Faults(delay_to=((2, Delay(bytes_per_s=1_000_000)),)))
    began = loop.time()
    for _ in range(10):
        here.send(bytes(10_000))
    await until(lambda: len(there.received) == 100_000)
    assert loop.time() - began >= 0.1


@with_pair
async def test_a_node_delays_what_clients_send_and_receive(both: Pair) -> None:
    here, there = await both.client()
    loop = asyncio.get_running_loop()
    slow = Delay(latency_ms=50)
    both.two.impose(Faults(delay_to=((CLIENTS, slow),), delay_from_clients=slow))
    began = loop.time()
    here.send(b"ping")
    await until(lambda: there.received == b"ping")
    there.send(b"pong")
    await until(lambda: here.received == b"pong")
    assert loop.time() - began >= 0.1


@with_pair
async def test_lost_packets_arrive_after_a_retransmission(both: Pair) -> None:
    here, there = await both.link()
    loop = asyncio.get_running_loop()
    random.seed(1)  # 0.13, then 0.85
    both.one.impose(Faults(delay_to=((2, Delay(loss=0.5)),)))
    began = loop.time()
    here.send(b"late")
    await until(lambda: there.received == b"late")
    assert loop.time() - began >= 0.2


async def _connect(both: Pair) -> End:
    here = End()
    await asyncio.get_running_loop().create_connection(lambda: here, "127.0.0.1", both.port)
    return here
