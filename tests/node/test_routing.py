"""One node, many requests: what is served in which role, and how a node ends (B7, P1, Q1, Q4)."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from insync.errors import InvariantError
from insync.node import handlers
from insync.node.config import BROKER, CONTROLLER
from insync.node.controller_apis import CONTROLLER_APIS, FORWARDED
from insync.node.handlers import BETWEEN_NODES, HANDLERS, Role
from insync.quorum.quorum import Quorum
from insync.sansio import DiskFailed, HangUp, PeerLost, Reply, Request, Shutdown, Stop, Timer, TurnEnded
from insync.wire.apis import APIS, SERVED
from insync.wire.errors import ErrorCode
from insync.wire.messages import (
    allocate_producer_ids,
    broker_heartbeat,
    describe_quorum,
    get_replica_log_info,
    init_producer_id,
    list_offsets,
)
from insync.wire.types import METADATA_TOPIC, NO_DURATION, ms
from tests.node.node_harness import Net, config, create_request, fetch_request, produce_request, three_brokers


def split() -> Net:
    """A controller (1) and a broker (2), each nothing else."""
    return Net(config(1, roles=(CONTROLLER,)), config(2, roles=(BROKER,))).up()


def heartbeat() -> Any:
    return broker_heartbeat.BrokerHeartbeatRequest(
        broker_id=2, broker_epoch=1, current_metadata_offset=1, want_fence=False, want_shut_down=False
    )


def quorum_description() -> Any:
    partition = describe_quorum.RequestPartition(partition_index=0)
    topic = describe_quorum.RequestTopic(topic_name=METADATA_TOPIC, partitions=(partition,))
    return describe_quorum.DescribeQuorumRequest(topics=(topic,))


def test_every_api_of_the_table_has_a_handler_and_no_other_has() -> None:
    assert list(HANDLERS) == [api.key for api in APIS.values()]
    assert set(handlers._HANDLERS) == set(APIS)


def test_only_the_apis_that_a_controller_decides_have_a_controllers_role() -> None:
    decided = {name for name in APIS if HANDLERS[APIS[name].key].role in (Role.CONTROLLER, Role.FORWARDED)}
    assert decided == set(CONTROLLER_APIS)
    assert {APIS[name].key for name, api in CONTROLLER_APIS.items() if not api.between_nodes} == set(FORWARDED)


def test_what_only_nodes_send_is_not_served_to_clients() -> None:
    """A client may send Fetch and Envelope's content too; the rest of the calls between nodes it may not."""
    assert {key for key in BETWEEN_NODES if key in SERVED} == {APIS["fetch"].key}


def test_a_broker_serves_no_controller_request() -> None:
    """Q1: no answer; the driver closes the connection."""
    net = split()
    allocate = allocate_producer_ids.AllocateProducerIdsRequest(broker_id=2, broker_epoch=1)
    for request in (heartbeat(), allocate):
        (reply,) = net.step(2, Request(9_000, request))
        assert isinstance(reply, HangUp)
        assert reply.token == 9_000


def test_a_controller_serves_no_data() -> None:
    """Q1: it holds no partitions."""
    net = split()
    net.answered(2, create_request("t", (2,)))
    net.advance(1_000)
    partition = net.partition("t", 2)
    offsets = list_offsets.ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=(), timeout=NO_DURATION)
    producer = init_producer_id.InitProducerIdRequest(
        transactional_id=None, transaction_timeout=ms(1), producer_id=-1, producer_epoch=-1
    )
    logs = get_replica_log_info.GetReplicaLogInfoRequest(topic_partitions=())
    for request in (produce_request(partition), fetch_request(partition), offsets, producer, logs):
        (reply,) = net.step(1, Request(9_000, request))
        assert isinstance(reply, HangUp)
        assert reply.token == 9_000


def test_a_controller_without_a_broker_decides_clients_requests_itself() -> None:
    """Q1."""
    net = split()
    response = net.answered(1, create_request("t", (2,)))
    assert [topic.error_code for topic in response.topics] == [ErrorCode.none]


def test_a_broker_passes_questions_about_the_quorum_on_to_its_leader() -> None:
    """Q1: only the leader knows how far voters and observers are."""
    net = split()
    for node in (1, 2):
        answer = net.answered(node, quorum_description()).topics[0].partitions[0]
        assert (answer.error_code, answer.leader_id) == (ErrorCode.none, 1)
        assert [state.replica_id for state in (*answer.current_voters, *answer.observers)] == [1, 2]


def test_a_waiting_fetch_gets_all_records_of_a_turn_together() -> None:
    """H5: the client of the request is answered at once, others at the end of the turn."""
    net = split()
    partition = net.create("t", (2,))
    net.advance(1_000)
    assert net.step(2, Request(9_000, fetch_request(partition, max_wait=500))) == []
    for token in (9_001, 9_002):
        replies = net.step(2, Request(token, produce_request(partition), more=True))
        assert [reply.token for reply in replies if isinstance(reply, Reply)] == [token]
    (fetched,) = net.step(2, TurnEnded())
    assert isinstance(fetched, Reply)
    assert fetched.token == 9_000
    assert fetched.response is not None
    assert fetched.response.responses[0].partitions[0].high_watermark == 2


def test_one_fetch_reads_the_metadata_log_and_another_a_partition() -> None:
    """Q4, H5: told apart by the topic id."""
    net = three_brokers().up()
    net.create("t", (2, 1, 3))
    net.produce(2, "t")
    answer = net.answered(2, fetch_request(net.partition("t", 2)))
    assert answer.responses[0].partitions[0].records
    assert net.nodes[2].quorum.hwm == net.nodes[1].quorum.hwm


def test_acks_0_gets_no_answer() -> None:
    """P1."""
    net = Net().up()
    net.create("t")
    token = net.produce(1, "t", acks=0)
    assert net.answers[token] is None
    assert net.log("t").leo == 1


def test_a_full_disk_stops_the_node_and_that_step_answers_nothing() -> None:
    """P1: no acknowledgement of what may not be there."""
    net = Net().up()
    partition = net.create("t")
    net.disks[1].full = True
    effects = net.step(1, Request(9_000, produce_request(partition, acks=1)))
    (stop,) = effects
    assert isinstance(stop, Stop)
    assert not stop.clean
    assert net.nodes[1].stopped
    net.disks[1].full = False
    assert net.step(1, Request(9_001, produce_request(partition, acks=1))) == []
    assert net.step(1, Timer()) == []


def test_what_a_step_meant_to_send_before_its_disk_failed_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """B4: a heartbeat must not vouch for a broker that is about to stop."""
    net = Net().up()
    later = net.now + config(1).heartbeat_interval_ms

    def fail(now: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(net.broker().background_tasks, "tick", fail)
    effects = net.nodes[1].step(Timer(), later)
    assert [type(effect) for effect in effects] == [Stop]


def test_failed_disk_work_stops_the_node() -> None:
    net = Net().up()
    (stop,) = net.step(1, DiskFailed(OSError(errno.EIO, "broken")))
    assert isinstance(stop, Stop)
    assert not stop.clean
    assert "broken" in stop.reason


def test_a_broken_invariant_is_not_taken_for_a_failed_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """S7 and all others: it is raised, and the driver ends the node."""
    net = Net().up()

    def broken(quorum: Quorum, now: int) -> None:
        raise InvariantError("S7", "for the test")

    monkeypatch.setattr(Quorum, "tick", broken)
    with pytest.raises(InvariantError, match="S7"):
        net.step(1, Timer())


def test_a_controller_without_a_broker_shuts_down_at_once() -> None:
    """Q5: it resigns on the way out."""
    net = split()
    effects = net.step(1, Shutdown())
    assert [effect.clean for effect in effects if isinstance(effect, Stop)] == [True]
    assert net.nodes[1].stopped
    assert not net.nodes[1].quorum.is_leader


def test_a_lost_peer_is_only_a_hint() -> None:
    """B4: a broker that still sends heartbeats is not fenced for it."""
    net = three_brokers().up()
    effects = net.step(1, PeerLost(2))
    assert not [effect for effect in effects if isinstance(effect, Reply)]
    net.advance(10_000)
    assert not net.nodes[1].image.brokers[2].fenced


def test_a_node_always_names_its_next_deadline() -> None:
    """L1: a driver may sleep until then."""
    net = three_brokers().up()
    for node in net.nodes.values():
        deadline = node.next_deadline()
        assert deadline is not None
        assert deadline >= net.now - 1


def test_a_broker_leaves_in_good_order() -> None:
    """B7: leadership moves away first, then it stops, and no broker is fenced by timeout."""
    net = three_brokers().up()
    net.create("t", (2, 1, 3))
    net.shut_down(2)
    net.advance(5_000)
    assert net.stops[2].clean
    partition = net.partition("t", 1)
    assert (partition.leader, 2 in partition.isr) == (1, False)
