"""Messages between nodes are real Kafka bytes: encoding and decoding every one of them changes no run."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from insync.sansio import Message, Send
from insync.sim import run
from insync.sim.engine.connection import Connection
from insync.sim.engine.network import Network
from insync.sim.plans.swarm import draw_plan
from insync.wire import codec

CLIENT = "round-trip"


class ByteNetwork(Network):
    """A network that carries frames: every message is encoded and decoded."""

    carried: ClassVar[Counter[str]] = Counter()

    def send(self, src: int, send: Send, *, one_way: bool = False) -> None:
        frame = codec.encode_request(send.request, 7, CLIENT)
        header, request = codec.decode_request(frame)
        assert (header.correlation_id, header.client_id) == (7, CLIENT)
        self.carried[type(request).__name__] += 1
        super().send(src, _with(send, request), one_way=one_way)

    def reply(self, connection: Connection, correlation: int, response: Message) -> None:
        waiting = connection.outstanding.get(correlation)
        if waiting is not None:
            frame = codec.encode_response(response, correlation)
            echoed, response = codec.decode_response(frame, type(waiting[1].request))
            assert echoed == correlation
            self.carried[type(response).__name__] += 1
        super().reply(connection, correlation, response)


def _with(send: Send, request: Any) -> Send:
    return replace(send, request=request)


@pytest.mark.parametrize("seed", [1, 4])
def test_a_run_over_bytes_is_the_same_run(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = draw_plan(seed)
    objects = run.run_plan(plan)
    monkeypatch.setattr(run, "Network", ByteNetwork)
    monkeypatch.setattr(ByteNetwork, "carried", Counter())
    over_bytes = run.run_plan(plan)
    assert over_bytes.trace_hash == objects.trace_hash
    assert over_bytes.violation is None
    for api in ("Produce", "Fetch", "AlterPartition", "BrokerRegistration", "BrokerHeartbeat", "Envelope"):
        assert ByteNetwork.carried[f"{api}Request"] > 0
        assert ByteNetwork.carried[f"{api}Response"] > 0
