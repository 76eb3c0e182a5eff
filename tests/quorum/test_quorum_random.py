"""Quorums of one, three and five voters under message loss, delays, pauses, crashes that lose the log's end, restarts.

`quorum_net_harness` checks at every step that no epoch has two leaders and that nothing committed changes.
"""

from __future__ import annotations

import pytest

from insync.quorum.config import QuorumConfig
from tests.quorum.quorum_net_harness import Net, Peer
from tests.slow_parameters import first_quick

CALM = QuorumConfig(fetch_max_bytes=400, snapshot_chunk_bytes=150, snapshots_kept=1, retry_backoff_ms=10)
HASTY = QuorumConfig(
    election_timeout_ms=60,
    election_backoff_max_ms=60,
    fetch_timeout_ms=120,
    request_timeout_ms=120,
    retry_backoff_ms=5,
    fetch_max_wait_ms=40,
    fetch_max_bytes=300,
    snapshot_chunk_bytes=150,
    snapshots_kept=2,
)
"""Timeouts barely longer than the delays of network and disk: elections all the time."""


def disturb(net: Net, slowest: int) -> None:
    peer = net.rng.choice(list(net.peers.values()))
    chance = net.rng.random()
    if not peer.up:
        peer.start()
    elif chance < 0.4:
        peer.stop(lossy=chance < 0.3)
    elif chance < 0.5:
        peer.paused = not peer.paused
    elif chance < 0.6:
        net.isolate(peer.id)
    elif chance < 0.7:
        net.heal()
        net.loss = net.rng.choice([0.0, 0.05, 0.3])
    elif chance < 0.8:
        net.delay = net.rng.choice([(1, 3), (1, slowest // 10), (slowest // 30, slowest)])
    elif peer.applied > 0 and chance < 0.9:
        peer.snapshot()
    elif peer.quorum.is_leader:
        peer.do(lambda: peer.quorum.resign(net.now))


def propose_somewhere(net: Net, number: int) -> None:
    for peer in net.peers.values():
        if peer.up and peer.quorum.is_leader and not peer.paused:
            peer.propose(*(b"%d-%d-%d" % (peer.id, number, index) for index in range(net.rng.randint(1, 4))))


def stop_faults(net: Net) -> None:
    net.heal()
    net.delay = (1, 3)
    for peer in net.peers.values():
        peer.paused = False
        if peer.up:
            peer.tick()
        else:
            peer.start()
    net.run(3_000)  # messages in flight arrive


def propose_under_faults(
    net: Net, rounds: int, *, pause_ms: tuple[int, int], fault_probability: float, fault_ms: int
) -> None:
    for number in range(rounds):
        net.run(net.rng.randint(*pause_ms))
        propose_somewhere(net, number)
        if net.rng.random() < fault_probability:
            disturb(net, fault_ms)
    stop_faults(net)


def holds_everything(net: Net, peer: Peer) -> bool:
    return peer.applied == net.hwm and peer.image == [payload for _, (_, payload) in sorted(net.committed.items())]


def check_progress(net: Net) -> None:
    """A new proposal is committed, and every replica ends with all committed entries."""
    last = net.leader().propose(b"after the faults")
    net.run_until(lambda: net.hwm > last)
    assert net.committed[last][1] == b"after the faults"
    net.run_until(lambda: all(holds_everything(net, peer) for peer in net.peers.values()))


@pytest.mark.parametrize("voters", [1, 3, 5])
@pytest.mark.parametrize("seed", first_quick(range(10), 2))
def test_committed_entries_stay_and_the_quorum_makes_progress_after_the_faults(voters: int, seed: int) -> None:
    """Q2, Q4, Q5, Q6, S7, S12: with Kafka's timeouts."""
    net = Net(voters, observers=1, seed=seed * 10 + voters, config=CALM)
    propose_under_faults(net, 100, pause_ms=(10, 300), fault_probability=0.2, fault_ms=600)
    check_progress(net)


@pytest.mark.parametrize("voters", [3, 5])
@pytest.mark.parametrize("seed", first_quick(range(15), 2))
def test_committed_entries_stay_when_elections_never_end(voters: int, seed: int) -> None:
    """Q2, Q4, Q5, Q6, S7, S12: with timeouts so short that leaders change all the time."""
    net = Net(voters, observers=1, seed=seed * 10 + voters, config=HASTY)
    net.delay, net.sync_delay = (1, 40), (1, 30)
    propose_under_faults(net, 150, pause_ms=(5, 60), fault_probability=0.25, fault_ms=60)
    net.sync_delay = (1, 3)
    check_progress(net)


def test_the_faults_cause_truncations_resignations_and_snapshot_loads() -> None:
    """Q4, Q6, S7: without them the tests above would prove little."""
    seen: dict[str, int] = {}
    for seed in range(8):
        net = Net(3, observers=1, seed=seed, config=HASTY)
        net.delay = (1, 40)
        for number in range(150):
            net.run(net.rng.randint(5, 60))
            propose_somewhere(net, number)
            if net.rng.random() < 0.25:
                disturb(net, 60)
        for _, note in net.notes:
            seen[note.kind] = seen.get(note.kind, 0) + 1
    expected = (
        "leader",
        "truncated",
        "resigned",
        "snapshot_written",
        "snapshot_loaded",
        "vote_granted",
        "vote_refused",
    )
    assert [kind for kind in expected if not seen.get(f"quorum_{kind}")] == []
