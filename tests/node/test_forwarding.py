"""Requests for the controller that arrive at a broker: forwarded in an Envelope, retried, timed out (Q1)."""

from __future__ import annotations

from typing import Any

import pytest

from insync.node.controller_apis import FORWARDED
from insync.node.forwarding import Forwarding
from insync.sansio import UNKNOWN_CLIENT, Client, Effect, Note, Outbox, Reply, Request, Send
from insync.wire import codec
from insync.wire.errors import ErrorCode
from insync.wire.forwarded_client import decode_principal
from insync.wire.messages import create_topics, delete_topics, envelope
from insync.wire.types import NO_DURATION, ms
from tests.node.node_harness import config, create_request, produce_request, three_brokers, three_voters

REQUEST = create_request("t")
TOKEN = 5


class Harness:
    def __init__(self, controller: int = 9) -> None:
        self.controller = controller
        self.out = Outbox()
        self.config = config(1)
        self.forwarding = Forwarding(self.config, self.out, lambda: self.controller)

    def forward(self, now: int = 0, client: Client = UNKNOWN_CLIENT) -> list[Any]:
        self.forwarding.forward(FORWARDED[REQUEST.__api_key__], REQUEST, TOKEN, client, now)
        return self.out.drain()

    def tick(self, now: int) -> list[Any]:
        self.forwarding.tick(now)
        return self.out.drain()


def enveloped(response: Any = None, error: ErrorCode = ErrorCode.none) -> Any:
    data = None if response is None else codec.encode_response(response, 0)
    return envelope.EnvelopeResponse(response_data=data, error_code=error)


def created(error: ErrorCode) -> Any:
    line = create_topics.CreatableTopicResult(
        name="t", topic_id=None, error_code=error, error_message=None, configs=None
    )
    return create_topics.CreateTopicsResponse(throttle_time=NO_DURATION, topics=(line,))


def errors(reply: Effect) -> list[ErrorCode]:
    assert isinstance(reply, Reply)
    assert reply.response is not None
    return [topic.error_code for topic in reply.response.topics]


def test_a_request_travels_whole_in_an_envelope_and_its_answer_comes_back() -> None:
    """Q1: the controller decides; the client need not know which node that is."""
    harness = Harness()
    (send,) = harness.forward()
    assert (send.peer, type(send.request)) == (9, envelope.EnvelopeRequest)
    assert codec.decode_request(send.request.request_data)[1] == REQUEST
    send.on_response(enveloped(created(ErrorCode.topic_already_exists)), 10)
    (reply,) = harness.out.drain()
    assert errors(reply) == [ErrorCode.topic_already_exists]
    assert isinstance(reply, Reply)
    assert reply.token == TOKEN
    assert harness.forwarding.next_deadline() is None


def test_a_request_waits_until_a_controller_is_known() -> None:
    harness = Harness(controller=-1)
    assert harness.forward() == []
    retry = harness.config.forward_retry_ms
    assert harness.forwarding.next_deadline() == retry
    assert harness.tick(retry) == []
    harness.controller = 9
    (send,) = harness.tick(2 * retry)
    assert send.peer == 9


def test_a_request_is_retried_after_not_controller_and_after_a_lost_answer() -> None:
    """Q2: a lost answer may mean that it was done; the retry is answered from the state it left."""
    harness = Harness()
    retry = harness.config.forward_retry_ms
    (first,) = harness.forward()
    first.on_response(enveloped(error=ErrorCode.not_controller), 10)
    harness.controller = 8
    (second,) = harness.tick(10 + retry)
    second.on_response(None, 200)
    (third,) = harness.tick(200 + retry)
    assert (second.peer, third.peer) == (8, 8)
    assert third.request == first.request


def test_a_request_times_out() -> None:
    harness = Harness(controller=-1)
    harness.forward()
    timeout = harness.config.forward_timeout_ms
    now = 0
    while not (effects := harness.tick(now)):
        assert now < timeout
        now = harness.forwarding.next_deadline() or 0
    (reply,) = effects
    assert (now, errors(reply)) == (timeout, [ErrorCode.request_timed_out])
    assert harness.forwarding.next_deadline() is None


def test_a_second_attempt_gets_the_time_that_is_left() -> None:
    harness = Harness()
    (first,) = harness.forward()
    first.on_response(None, 20_000)
    (second,) = harness.tick(20_000 + harness.config.forward_retry_ms)
    assert isinstance(second, Send)
    assert second.timeout_ms == harness.config.forward_timeout_ms - 20_000 - harness.config.forward_retry_ms


@pytest.mark.parametrize(
    "error", [ErrorCode.invalid_request, ErrorCode.cluster_authorization_failed], ids=lambda error: error.name
)
def test_a_refused_envelope_is_a_problem_of_the_broker_and_not_of_its_client(error: ErrorCode) -> None:
    """As in Kafka. A client that reads CLUSTER_AUTHORIZATION_FAILED would look for a fault in its own rights."""
    harness = Harness()
    (send,) = harness.forward()
    send.on_response(enveloped(error=error), 10)
    note, reply = harness.out.drain()
    assert isinstance(note, Note)
    assert (note.kind, note.fields["error"]) == ("forwarding_refused", error.name)
    assert errors(reply) == [ErrorCode.unknown_server_error]


def test_an_envelope_names_the_client_of_the_request() -> None:
    """A1: the controller checks the rights of this client, from this address."""
    harness = Harness()
    (send,) = harness.forward(client=Client(id="app", host="/10.1.2.3", principal="User:CN=alice,O=x:y"))
    assert decode_principal(send.request.request_principal) == "User:CN=alice,O=x:y"
    assert send.request.client_host_address == bytes([10, 1, 2, 3])
    assert codec.decode_request(send.request.request_data)[0].client_id == "app"


def test_an_envelope_of_the_broker_itself_names_no_client() -> None:
    (send,) = Harness().forward()
    assert send.request.request_principal is None


def test_a_topic_is_created_through_any_broker() -> None:
    """Q1."""
    net = three_brokers().up()
    for broker in (1, 2, 3):
        response = net.answered(broker, create_request(f"t{broker}", (1, 2, 3)))
        assert [topic.error_code for topic in response.topics] == [ErrorCode.none]
    net.advance(1_000)
    assert sorted(net.nodes[3].image.topic_ids) == ["t1", "t2", "t3"]


def test_a_request_without_entries_is_answered_at_once() -> None:
    """Q1: its response has no error codes, so the response alone does not show whether the controller was deposed."""
    net = three_brokers().up()
    timeout = ms(1_000)
    create = create_topics.CreateTopicsRequest(topics=(), timeout=timeout, validate_only=False)
    delete = delete_topics.DeleteTopicsRequest(topics=(), timeout=timeout)
    for broker in (1, 2, 3):
        assert net.answered(broker, create) == create_topics.CreateTopicsResponse(throttle_time=NO_DURATION, topics=())
        assert net.answered(broker, delete) == delete_topics.DeleteTopicsResponse(
            throttle_time=NO_DURATION, responses=()
        )


def test_an_envelope_is_opened_by_the_active_controller_only() -> None:
    """Q1."""
    net = three_voters().up()
    wrapped = envelop(codec.encode_request(REQUEST, 0, None))
    answers = {node_id: net.answered(node_id, wrapped) for node_id in net.nodes}
    refused = [n for n, answer in answers.items() if answer.error_code is ErrorCode.not_controller]
    assert refused == [n for n, node in net.nodes.items() if not node.quorum.is_leader]


def envelop(data: bytes) -> Any:
    return envelope.EnvelopeRequest(request_data=data, request_principal=None, client_host_address=b"\x7f\0\0\1")


def test_an_envelope_with_something_else_in_it_is_refused() -> None:
    """Q1: only what brokers forward; and undecodable bytes do not stop a controller."""
    net = three_brokers().up()
    partition = net.create("t")
    for data in (
        codec.encode_request(produce_request(partition), 0, None),
        b"nonsense",
        b"\x03\xe7\0\0\0\0\0\0\xff\xff",
    ):
        response = net.step_for_response(1, Request(9_000, envelop(data)))
        assert response.error_code is ErrorCode.invalid_request


def test_the_refusal_of_a_deposed_controller_does_not_reach_the_client() -> None:
    """Q2: the broker tries the next controller instead, and the client sees one answer."""
    net = three_voters().up()
    (old,) = [n for n, node in net.nodes.items() if node.quorum.is_leader]
    broker = next(n for n in net.nodes if n != old)
    net.hold = [(n, channel) for n in net.nodes for channel in ("metadata", "quorum")]
    token = net.ask(broker, create_request("t", (broker,)))
    assert token not in net.answers
    net.advance(4_000)
    assert not net.controller(old).active
    assert token not in net.answers
    net.release()
    net.advance(20_000)
    assert [topic.error_code for topic in net.answers[token].topics] in (
        [ErrorCode.none],
        [ErrorCode.topic_already_exists],
    )
