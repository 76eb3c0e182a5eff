"""Producer ids: blocks from the controller, so that no id is handed out twice (P4)."""

from __future__ import annotations

from typing import Any

import pytest

from insync.controller.config import ControllerConfig
from insync.node.producer_ids import ProducerIds
from insync.sansio import Outbox, Send
from insync.wire.errors import ErrorCode
from insync.wire.messages import allocate_producer_ids, init_producer_id
from insync.wire.types import NO_DURATION, ms
from tests.node.node_harness import CLUSTER, config, three_brokers


class Harness:
    def __init__(self, controller: int = 9, epoch: int = 40) -> None:
        self.controller = controller
        self.epoch = epoch
        self.config = config(1)
        self.out = Outbox()
        self.ids = ProducerIds(self.config, self.out, lambda: self.controller, lambda: self.epoch)

    def init(self, token: int, now: int = 0, **fields: Any) -> list[Any]:
        self.ids.init(request(**fields), token, now)
        return self.out.drain()

    def tick(self, now: int) -> list[Any]:
        self.ids.tick(now)
        return self.out.drain()


def request(transactional_id: str | None = None, producer_id: int = -1, producer_epoch: int = -1) -> Any:
    return init_producer_id.InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout=ms(1_000),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


def block(start: int, length: int, error: ErrorCode = ErrorCode.none) -> Any:
    return allocate_producer_ids.AllocateProducerIdsResponse(
        throttle_time=NO_DURATION, error_code=error, producer_id_start=start, producer_id_len=length
    )


def given(effects: list[Any]) -> list[tuple[int, int, int]]:
    return [(e.token, e.response.producer_id, e.response.producer_epoch) for e in effects]


def test_ids_are_handed_out_from_a_block_and_then_another_is_asked_for() -> None:
    """P4."""
    harness = Harness()
    (asked,) = harness.init(1)
    assert (asked.peer, asked.request.broker_id, asked.request.broker_epoch) == (9, 1, 40)
    asked.on_response(block(100, 2), 5)
    assert given(harness.out.drain()) == [(1, 100, 0)]
    assert given(harness.init(2)) == [(2, 101, 0)]
    (again,) = harness.init(3)
    again.on_response(block(500, 2), 6)
    assert given(harness.out.drain()) == [(3, 500, 0)]


def test_waiting_producers_are_served_by_one_request_and_in_order() -> None:
    """P4."""
    harness = Harness()
    (asked,) = harness.init(1)
    assert harness.init(2) == harness.init(3) == []
    asked.on_response(block(7, 2), 5)
    first, second, more = harness.out.drain()
    assert given([first, second]) == [(1, 7, 0), (2, 8, 0)]
    assert isinstance(more, Send)
    more.on_response(block(20, 2), 6)
    assert given(harness.out.drain()) == [(3, 20, 0)]


def test_a_lost_or_refused_request_is_repeated() -> None:
    """P4: a block that was allocated and never arrived is lost, which costs nothing."""
    harness = Harness()
    retry = harness.config.forward_retry_ms
    (first,) = harness.init(1)
    first.on_response(None, 10)
    assert harness.ids.next_deadline() == 10 + retry
    (second,) = harness.tick(10 + retry)
    second.on_response(block(-1, 0, ErrorCode.not_controller), 200)
    (third,) = harness.tick(200 + retry)
    third.on_response(block(60, 5), 400)
    assert given(harness.out.drain()) == [(1, 60, 0)]


def test_it_waits_for_a_controller_and_for_the_brokers_own_epoch() -> None:
    """P4, B8: a block is given to a registered broker."""
    harness = Harness(controller=-1, epoch=-1)
    retry = harness.config.forward_retry_ms
    assert harness.init(1) == []
    harness.controller = 9
    assert harness.tick(retry) == []
    harness.epoch = 41
    (asked,) = harness.tick(2 * retry)
    assert asked.request.broker_epoch == 41


def test_a_client_is_answered_in_time_even_without_a_controller() -> None:
    harness = Harness(controller=-1)
    harness.init(1, now=0)
    harness.init(2, now=10)
    timeout = harness.config.forward_timeout_ms
    (reply,) = harness.tick(timeout)
    assert (reply.token, reply.response.error_code) == (1, ErrorCode.request_timed_out)
    (reply,) = harness.tick(timeout + 10)
    assert reply.token == 2
    assert harness.tick(timeout * 3) == []


def test_a_producer_that_has_an_id_gets_a_fresh_one() -> None:
    """P4: as in Kafka; otherwise any client could fence another's producer by naming its id."""
    harness = Harness()
    (asked,) = harness.init(1, producer_id=77, producer_epoch=3)
    asked.on_response(block(90, 1), 1)
    assert given(harness.out.drain()) == [(1, 90, 0)]


@pytest.mark.parametrize("half", [{"producer_id": 77}, {"producer_epoch": 3}, {"transactional_id": ""}])
def test_half_an_identity_is_refused(half: dict[str, Any]) -> None:
    (reply,) = Harness().init(1, **half)
    assert reply.response.error_code is ErrorCode.invalid_request


def test_transactions_are_refused() -> None:
    (reply,) = Harness().init(1, transactional_id="tx")
    assert (reply.response.error_code, reply.response.producer_id) == (
        ErrorCode.transactional_id_authorization_failed,
        -1,
    )


def test_no_two_brokers_hand_out_the_same_id_not_even_after_a_restart() -> None:
    """P4."""
    small = ControllerConfig(cluster_id=CLUSTER, rebalance_interval_ms=0, producer_id_block=3)
    net = three_brokers(controller=small).up()
    ids = [net.answered(broker, request()).producer_id for broker in (1, 2, 3) * 5]
    net.restart(2)
    net.advance(15_000)
    ids += [net.answered(broker, request()).producer_id for broker in (1, 2, 3) * 5]
    assert len(set(ids)) == len(ids)
