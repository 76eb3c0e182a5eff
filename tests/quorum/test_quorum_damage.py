"""A replica whose files were damaged while it was down (Q8)."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from insync.quorum import damage, offset_checkpoint
from insync.quorum.messages import OffsetAndEpoch
from insync.quorum.offset_checkpoint import INTACT, NEW, QuorumCheckpoint
from insync.sim.engine.disk import SimDisk
from insync.storage.disk import read_all, write_plainly
from insync.wire.errors import ErrorCode
from insync.wire.messages import fetch
from tests.quorum.quorum_harness import QuorumHarness, data, fetch_answer
from tests.quorum.quorum_net_harness import DIRECTORY, Net, Peer

CHECKPOINT = offset_checkpoint.FILE_NAME
STATE = f"{DIRECTORY}/quorum-state"
LOG = f"{DIRECTORY}/{0:020d}.log"


def committed_net(voters: int = 3, *, entries: int = 5) -> Net:
    """A quorum in which every voter holds some committed entries."""
    net = Net(voters)
    leader = net.leader()
    for number in range(entries):
        last = leader.propose(b"entry %d" % number)
    net.run_until(lambda: all(peer.quorum.hwm > last for peer in net.peers.values()))
    net.run(1_000)
    return net


def truncate(disk: SimDisk, path: str, size: int) -> None:
    file = disk.open(path)
    file.truncate(size)
    file.close()


def flip(disk: SimDisk, path: str, position: int) -> None:
    content = bytearray(read_all(disk, path))
    content[position] ^= 0xFF
    write_plainly(disk, path, content)


def condition(peer: Peer) -> str:
    condition: str = peer.quorum._state.damage.condition
    return condition


def kinds(peer: Peer) -> list[str]:
    return [finding.kind for finding in peer.quorum._state.findings.current()]


LOG_DAMAGES: dict[str, Callable[[SimDisk], None]] = {
    "flipped in the first batch": lambda disk: flip(disk, LOG, 70),
    "flipped in the last batch": lambda disk: flip(disk, LOG, disk.size(LOG) - 3),
    "truncated in the last batch": lambda disk: truncate(disk, LOG, disk.size(LOG) - 1),
    "emptied": lambda disk: truncate(disk, LOG, 0),
    "removed": lambda disk: disk.remove(LOG),
    "directory removed": lambda disk: disk.rmtree(DIRECTORY),
}


@pytest.mark.parametrize("how", LOG_DAMAGES)
def test_a_voter_with_a_damaged_log_is_restored_by_the_leader_and_votes_again(how: str) -> None:
    """Q8: until then it reports the damage."""
    net = committed_net()
    damaged = next(peer for peer in net.peers.values() if not peer.quorum.is_leader)
    damaged.stop(lossy=False)
    LOG_DAMAGES[how](damaged.disk)
    damaged.start()
    assert not damaged.quorum._state.damage.may_campaign
    assert "metadata_damaged" in kinds(damaged)
    net.run_until(lambda: condition(damaged) == INTACT)
    assert kinds(damaged) == []
    assert net.noted("quorum_voter_restored", damaged.id)


@pytest.mark.parametrize("how", LOG_DAMAGES)
def test_a_damaged_voter_does_not_elect_a_log_without_what_it_acknowledged(how: str) -> None:
    """Q8, S7: the only intact voter that holds the last entry is down, so no leader is elected before it is back."""
    net = committed_net()
    leader = net.leader()
    damaged, behind = (peer for peer in net.peers.values() if peer is not leader)
    behind.stop(lossy=False)
    last = leader.propose(b"on two disks")
    net.run_until(lambda: net.hwm > last and damaged.quorum.hwm > last)
    leader.stop(lossy=False)
    damaged.stop(lossy=False)
    LOG_DAMAGES[how](damaged.disk)
    damaged.start()
    behind.start()
    net.run(20_000)
    assert not any(peer.quorum.is_leader for peer in (damaged, behind))
    leader.start()
    assert net.leader() is not damaged
    net.run_until(lambda: all(peer.quorum.hwm > last for peer in net.peers.values()))
    net.run_until(lambda: condition(damaged) == INTACT)


@pytest.mark.parametrize("how", ["flipped", "header flipped", "unreadable"])
def test_a_leader_whose_log_is_damaged_while_it_leads_sends_none_of_it(how: str) -> None:
    """Q8, D6: it stops with an error, and after its restart it is a damaged voter, which the others restore."""
    net = committed_net()
    leader = net.leader()
    behind = next(peer for peer in net.peers.values() if peer is not leader)
    behind.stop(lossy=False)
    position = leader.disk.size(LOG)
    last = leader.propose(b"one more")
    net.run_until(lambda: net.hwm > last)
    leader.quorum.log.active.hints.clear()
    if how == "unreadable":
        leader.disk.bad_sectors[LOG] = (position, leader.disk.size(LOG))
    else:
        leader.disk.rot(LOG, position + (70 if how == "flipped" else 8))
    behind.start()
    with pytest.raises(OSError, match=r"the metadata log is damaged|cannot read|no batch"):
        net.run(20_000)
    assert behind.quorum.leo <= last
    leader.stop(lossy=False)
    leader.start()
    assert "metadata_damaged" in kinds(leader)
    net.run_until(lambda: all(condition(peer) == INTACT for peer in net.peers.values()))
    assert net.leader().image == [*(b"entry %d" % number for number in range(5)), b"one more"]


def stopped_net_with_two_damaged_logs() -> Net:
    """Three voters that are down; 1 and 2 have lost their logs."""
    net = committed_net()
    for peer in net.peers.values():
        peer.stop(lossy=False)
    for node in (1, 2):
        truncate(net[node].disk, LOG, 0)
    return net


def test_without_an_intact_majority_there_is_no_leader_and_every_voter_reports_it() -> None:
    """Q8: two of three are damaged. The third, intact, reports it too; the message names the damaged voters."""
    net = stopped_net_with_two_damaged_logs()
    for peer in net.peers.values():
        peer.start()
    net.run(40_000)
    assert not any(peer.quorum.is_leader for peer in net.peers.values())
    for node in (1, 2, 3):
        assert "quorum_no_intact_majority" in kinds(net[node])
        damaged = [note["damaged"] for note in net.noted("quorum_no_intact_majority", node)]
        assert damaged[-1] == [1, 2]
        assert len(damaged) <= 3, "an ERROR every 30 s is enough"


def test_a_quorum_that_has_stopped_asks_and_logs_less_and_less_often() -> None:
    """Q8: it waits for another voter or for an operator; until then nothing changes, and nothing new is logged."""
    net = stopped_net_with_two_damaged_logs()
    for peer in net.peers.values():
        peer.start()
    net.run(30_000)
    before = len(net.notes)
    net.run(60_000)
    assert len(net.notes) - before <= 3 * 2, "only the ERROR that is repeated every 30 s"
    write_plainly(net[1].disk, damage.ACCEPT_LOSS, b"")
    net[1].stop(lossy=False)
    net[1].start()
    net.run_until(lambda: all(condition(peer) == INTACT for peer in net.peers.values()))


def test_an_operator_may_accept_the_loss() -> None:
    """Q8: with the file that the message names, the voter accepts its log as it is."""
    net = stopped_net_with_two_damaged_logs()
    write_plainly(net[1].disk, damage.ACCEPT_LOSS, b"")
    for peer in net.peers.values():
        peer.start()
    net.run_until(lambda: all(condition(peer) == INTACT for peer in net.peers.values()))
    assert not net[1].disk.exists(damage.ACCEPT_LOSS)
    assert net.noted("quorum_loss_accepted", 1)
    net.run_until(lambda: all(kinds(peer) == [] for peer in net.peers.values()))
    assert net.leader().image == [b"entry %d" % number for number in range(5)], "voter 3 still had everything"


def test_damage_is_remembered_through_restarts() -> None:
    """Q8: a voter that restarts before a leader has restored it must still not vote."""
    net = committed_net()
    net[1].stop(lossy=False)
    truncate(net[1].disk, LOG, 0)
    for peer in (net[2], net[3]):
        peer.stop(lossy=False)
    for seed in range(3):
        net[1].start()
        assert condition(net[1]) == offset_checkpoint.DAMAGED
        net.run(50)
        net[1].quorum = None
        net[1].life += 1
        net[1].disk.lossy_crash(random.Random(seed))


def test_a_follower_with_committed_metadata_does_not_follow_a_leader_that_lost_it() -> None:
    """Q8, S7: a majority was restored from an old copy. The third voter keeps its log, also after a restart."""
    net = committed_net(entries=1)
    old = {node: read_all(net[node].disk, LOG) for node in (1, 2)}
    last = net.leader().propose(b"committed")
    net.run_until(lambda: all(peer.quorum.hwm > last for peer in net.peers.values()))
    net.run(1_000)
    for node in (1, 2, 3):
        net[node].stop(lossy=False)
    for node in (1, 2):
        write_plainly(net[node].disk, LOG, old[node])
        write_plainly(net[node].disk, damage.ACCEPT_LOSS, b"")
    net.committed.clear()
    for node in (1, 2):
        net[node].start()
    net.leader()
    net[3].start()
    net.run_until(lambda: "metadata_contradiction" in kinds(net[3]))
    net.run(5_000)
    assert net[3].quorum.leo > last


VOTE_DAMAGES: dict[str, Callable[[SimDisk], None]] = {
    "flipped": lambda disk: flip(disk, STATE, 5),
    "truncated": lambda disk: truncate(disk, STATE, 20),
    "emptied": lambda disk: truncate(disk, STATE, 0),
    "removed": lambda disk: disk.remove(STATE),
}


@pytest.mark.parametrize("how", VOTE_DAMAGES)
def test_a_vote_whose_file_is_damaged_is_read_from_its_second_copy(how: str) -> None:
    """Q4, Q8: no second vote in that epoch, and votes in later ones."""
    harness = QuorumHarness()
    assert harness.vote(2, 1).vote_granted
    harness.disk.crash()
    VOTE_DAMAGES[how](harness.disk)
    again = QuorumHarness(disk=harness.disk)
    assert again.notes("quorum_state_rebuilt")
    assert not again.vote(3, 1).vote_granted
    assert again.vote(3, 2).vote_granted


def test_an_old_copy_of_quorum_state_allows_no_second_vote() -> None:
    """Q4, Q8: the newer of the two copies counts."""
    harness = QuorumHarness().intact()
    harness.vote(2, 1)
    old = read_all(harness.disk, STATE)
    harness.vote(2, 5)
    harness.disk.crash()
    write_plainly(harness.disk, STATE, old)
    again = QuorumHarness(disk=harness.disk)
    assert again.quorum.epoch == 5
    assert not again.vote(3, 5).vote_granted
    assert again.vote(3, 6).vote_granted


@pytest.mark.parametrize("how", VOTE_DAMAGES)
def test_a_voter_that_lost_both_copies_of_its_vote_does_not_vote(how: str) -> None:
    """Q8: until a leader has restored it."""
    harness = QuorumHarness()
    harness.answer(harness.follow(2, 1), fetch_answer(2, 1, records=data(0, 1, b"a"), hwm=1))
    harness.sync()
    harness.disk.crash()
    VOTE_DAMAGES[how](harness.disk)
    truncate(harness.disk, CHECKPOINT, 0)
    again = QuorumHarness(disk=harness.disk)
    answer = again.vote(3, 9, (5, 2))
    assert (answer.vote_granted, answer.error_code) == (False, ErrorCode.kafka_storage_error)
    again.begin(3, 10)
    again.sync()
    again.answer(again.sends(fetch.FetchRequest)[-1], fetch_answer(3, 10, records=data(1, 10, b"b"), hwm=2))
    again.sync()
    assert again.notes("quorum_voter_restored")
    assert again.vote(2, 11, (2, 10)).vote_granted


def test_an_unreadable_checkpoint_is_damage_and_a_missing_one_is_an_upgrade() -> None:
    """Q8: an earlier version wrote none, and its log is accepted as it is."""
    for action, expected in (
        (lambda d: truncate(d, CHECKPOINT, 0), "damaged"),
        (lambda d: d.remove(CHECKPOINT), INTACT),
    ):
        harness = QuorumHarness()
        harness.answer(harness.follow(2, 1), fetch_answer(2, 1, records=data(0, 1, b"a"), hwm=1))
        harness.sync()
        harness.disk.crash()
        action(harness.disk)
        assert QuorumHarness(disk=harness.disk).quorum._state.damage.condition == expected


def test_a_torn_tail_that_was_never_acknowledged_is_no_damage() -> None:
    """Q8: a power loss takes entries that were not synced, and no replica relied on them."""
    for seed in range(40):
        harness = QuorumHarness(1, (1, 2, 3)).intact()
        harness.answer(harness.follow(2, 1), fetch_answer(2, 1, records=data(0, 1, b"a"), hwm=1))
        harness.sync()
        harness.answer(harness.sends(fetch.FetchRequest)[-1], fetch_answer(2, 1, records=data(1, 1, b"b" * 200), hwm=1))
        harness.disk.lossy_crash(random.Random(seed), corrupt=True)
        assert QuorumHarness(disk=harness.disk).quorum._state.damage.condition == INTACT


def test_a_truncation_that_a_leader_asked_for_is_no_damage() -> None:
    """Q8, D3: the checkpoint is lowered before the log is truncated, so the power may fail at any time."""
    for seed in range(40):
        harness = QuorumHarness().intact()
        records = data(0, 1, b"a") + data(1, 1, b"b") + data(2, 1, b"c")
        harness.answer(harness.follow(2, 1), fetch_answer(2, 1, records=records, hwm=1))
        harness.sync()
        harness.answer(harness.follow(3, 2), fetch_answer(3, 2, diverging=OffsetAndEpoch(1, 1)))
        assert harness.quorum.leo == 1
        harness.disk.lossy_crash(random.Random(seed))
        assert QuorumHarness(disk=harness.disk).quorum._state.damage.condition == INTACT


def test_a_new_voter_votes_for_an_empty_log_only() -> None:
    """Q8: its disk may have been replaced, and it does not know what it held before."""
    harness = QuorumHarness()
    answer = harness.vote(2, 5, (10, 4))
    assert (answer.vote_granted, answer.error_code) == (False, ErrorCode.kafka_storage_error)
    assert harness.vote(3, 5).vote_granted
    assert not QuorumHarness(disk=harness.disk).vote(2, 6, (10, 4)).vote_granted


def test_a_voter_of_the_first_election_is_not_new_any_more() -> None:
    """Q8: there is an epoch 1 only if a majority has never had an epoch."""
    harness = QuorumHarness()
    assert harness.vote(2, 1).vote_granted
    assert QuorumHarness(disk=harness.disk).vote(2, 2, (1, 1)).vote_granted


def test_a_leader_reports_a_voter_that_comes_back_with_less() -> None:
    """Q8: even if that voter does not know it, as after an old copy of its whole disk was restored."""
    harness = QuorumHarness().lead()
    harness.quorum.propose([b"a", b"b"], harness.now)
    harness.collect()
    harness.sync()
    harness.fetch(2, harness.quorum.epoch, (3, harness.quorum.epoch))
    harness.fetch(2, harness.quorum.epoch, (1, harness.quorum.epoch))
    assert [(finding.kind, finding.subject) for finding in harness.findings.current()] == [
        ("voter_lost_entries", "voter 2")
    ]
    harness.fetch(2, harness.quorum.epoch, (3, harness.quorum.epoch))
    assert harness.findings.current() == []


def test_after_a_clean_stop_the_checkpoint_is_exact() -> None:
    """Q8: the loss of any entry is noticed."""
    harness = QuorumHarness().intact()
    harness.answer(harness.follow(2, 1), fetch_answer(2, 1, records=data(0, 1, b"a", b"b"), hwm=2))
    harness.sync()
    harness.quorum.close()
    checkpoint = offset_checkpoint.CheckpointFile(harness.disk, CHECKPOINT).load()
    assert checkpoint == QuorumCheckpoint(condition=INTACT, log_end=OffsetAndEpoch(2, 1), hwm=2, epoch=1)


@pytest.mark.parametrize("position", range(0, 60, 3))
def test_a_line_of_the_checkpoint_with_a_flipped_byte_is_ignored(position: int) -> None:
    """Q8: the line before it counts."""
    disk = SimDisk()
    older = QuorumCheckpoint(condition=INTACT, log_end=OffsetAndEpoch(100, 3), hwm=90, epoch=4, voted_id=2)
    newer = QuorumCheckpoint(condition=INTACT, log_end=OffsetAndEpoch(120, 4), hwm=110, epoch=4, voted_id=2)
    file = offset_checkpoint.CheckpointFile(disk, CHECKPOINT)
    file.store(older)
    file.append(newer)
    assert file.load() == newer
    flip(disk, CHECKPOINT, len(offset_checkpoint.encode(older)) + position % len(offset_checkpoint.encode(newer)))
    assert file.load() in (older, newer)
    assert offset_checkpoint.CheckpointFile(disk, CHECKPOINT).load() == older


def test_a_damaged_snapshot_is_replaced_by_an_older_one_and_the_log() -> None:
    """Q6, Q8: nothing is lost, and a finding reports it."""
    harness = QuorumHarness(1, (1,))
    harness.sync()
    for number in (1, 2):
        harness.quorum.propose([b"a%d" % number], harness.now)
        harness.collect()
        harness.sync()
        harness.write_snapshot([b"image %d" % number], harness.quorum.hwm, 1)
    newest = f"{DIRECTORY}/{harness.quorum.hwm:020d}-{1:010d}.checkpoint"
    harness.disk.crash()
    flip(harness.disk, newest, 100)
    again = QuorumHarness(1, (1,), disk=harness.disk)
    assert [finding.kind for finding in again.findings.current()] == ["snapshot_damaged"]
    assert ([b"image 1"], 2, 1) in again.snapshots
    assert again.quorum.is_leader


def test_a_voter_without_a_usable_snapshot_is_restored_from_the_leader() -> None:
    """Q6, Q8: both snapshots of a voter whose log was pruned are gone."""
    net = committed_net()
    for _ in range(3):
        net.leader().propose(b"more")
        net.run(500)
        for peer in net.peers.values():
            peer.snapshot()
    damaged = next(peer for peer in net.peers.values() if not peer.quorum.is_leader)
    damaged.stop(lossy=False)
    for name in damaged.disk.listdir(DIRECTORY):
        if name.endswith(".checkpoint"):
            truncate(damaged.disk, f"{DIRECTORY}/{name}", 10)
    damaged.start()
    assert condition(damaged) == offset_checkpoint.DAMAGED
    net.run_until(lambda: condition(damaged) == INTACT)
    net.run_until(lambda: damaged.quorum.hwm == net.leader().quorum.hwm)
    assert kinds(damaged) == []


def test_a_voter_without_any_file_is_new() -> None:
    """Q8: until it has taken part in an election, or has caught up with a leader."""
    harness = QuorumHarness()
    assert harness.quorum._state.damage.condition == NEW
    harness.answer(harness.follow(2, 3), fetch_answer(2, 3, records=data(0, 1, b"a") + data(1, 3, b"b"), hwm=1))
    harness.sync()
    assert harness.quorum._state.damage.condition == NEW, "nothing of the leader's own epoch is committed yet"
    harness.answer(harness.sends(fetch.FetchRequest)[-1], fetch_answer(2, 3, hwm=2))
    assert harness.quorum._state.damage.condition == INTACT
