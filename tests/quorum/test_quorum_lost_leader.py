"""A leader whose process seems to have died is replaced sooner, but never because of the hint alone (Q4)."""

from __future__ import annotations

from tests.quorum.quorum_net_harness import Net


def report_lost_everywhere(net: Net, lost: int) -> None:
    for peer in net.peers.values():
        if peer.up and peer.id != lost:
            peer.lose_peer(lost)


def test_a_lost_leader_is_replaced_before_the_fetch_timeout() -> None:
    """Q5: a dropped connection shows earlier what the fetch timeout would."""
    net = Net(3)
    net.run_until(lambda: net.find_leader() is not None)
    old = net.leader()
    net.run(net.config.fetch_timeout_ms)
    start_ms = net.now
    old.stop(lossy=False)
    report_lost_everywhere(net, old.id)
    net.run_until(lambda: (leader := net.find_leader()) is not None and leader is not old)
    assert net.now - start_ms < net.config.fetch_timeout_ms


def test_a_false_alarm_does_not_unseat_the_leader() -> None:
    """Q4: pre-votes are refused by a voter that still hears from the leader."""
    net = Net(3)
    net.run_until(lambda: net.find_leader() is not None)
    leader = net.leader()
    net.run(net.config.fetch_timeout_ms)
    epoch = leader.quorum.epoch
    mistaken = next(peer for peer in net.peers.values() if peer is not leader)
    mistaken.do(lambda: mistaken.quorum.peer_lost(leader.id, net.now))
    net.run(3 * net.config.fetch_timeout_ms)
    assert net.leader() is leader
    assert leader.quorum.epoch == epoch


def test_the_loss_of_another_follower_changes_nothing() -> None:
    """Q4: only the loss of the leader is a reason to stand for election."""
    net = Net(3)
    net.run_until(lambda: net.find_leader() is not None)
    leader = net.leader()
    one, other = (peer for peer in net.peers.values() if peer is not leader)
    before = one.quorum.next_deadline()
    one.do(lambda: one.quorum.peer_lost(other.id, net.now))
    assert one.quorum.next_deadline() == before
