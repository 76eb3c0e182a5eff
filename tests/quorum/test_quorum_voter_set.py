"""The voters that a quorum has stored on disk (B9)."""

from __future__ import annotations

from insync.quorum import state_file, voter_set
from insync.sim.engine.disk import SimDisk
from insync.storage.disk import write_atomically
from tests.quorum.quorum_harness import QuorumHarness
from tests.quorum.quorum_net_harness import DIRECTORY

STATE = f"{DIRECTORY}/quorum-state"
VERSION_1 = b'{"leaderId":1,"leaderEpoch":1,"votedId":1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'


def test_a_new_directory_names_no_voters() -> None:
    """B9: nothing contradicts the settings of a node that has never run."""
    assert voter_set.stored_voters(SimDisk(), DIRECTORY) is None
    assert not voter_set.is_contradiction(None, (1, 2))


def test_a_vote_is_stored_with_the_voters_among_which_it_counts() -> None:
    """B9, Q4: from the first vote on, a restart finds them."""
    harness = QuorumHarness(1, (3, 1, 2))
    harness.vote(2, 5)
    assert voter_set.stored_voters(harness.disk, DIRECTORY) == (1, 2, 3)


def test_the_log_names_the_voters_if_quorum_state_does_not() -> None:
    """B9: directories of earlier releases have the version of quorum-state without voters."""
    harness = QuorumHarness(1, (1,))
    assert harness.quorum.is_leader
    write_atomically(harness.disk, STATE, VERSION_1)
    assert state_file.decode_voters(VERSION_1) is None
    assert voter_set.stored_voters(harness.disk, DIRECTORY) == (1,)


def test_voters_are_compared_by_id() -> None:
    """B9: in any order."""
    assert not voter_set.is_contradiction((1, 2, 3), (3, 2, 1))
    assert voter_set.is_contradiction((1, 2, 3), (1, 2))
    assert voter_set.is_contradiction((1,), (1, 2, 3))
