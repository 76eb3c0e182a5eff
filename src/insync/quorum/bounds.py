"""Which claims of another replica are credible, before any of it is written to disk (Q8).

Epochs are 32-bit numbers that only rise: one request that names the highest of them would leave no epoch for the next
election. So an epoch may be ahead of ours only as far as elections can have taken it.
"""

from __future__ import annotations

from insync.quorum.config import NO_NODE
from insync.quorum.state import RaftState
from insync.storage.checkpoints import MAX_EPOCH

MAX_EPOCH_STEP = 10_000
"""How far ahead the epoch of an incoming request may be. A replica that was away for longer asks the others itself."""
MAX_ANSWERED_EPOCH_STEP = 1_000_000
"""How far ahead the epoch in an answer may be: more than a day of uninterrupted elections."""


def is_epoch_in_range(known: int, epoch: int, *, solicited: bool = False) -> bool:
    step = MAX_ANSWERED_EPOCH_STEP if solicited else MAX_EPOCH_STEP
    return epoch <= min(known + step, MAX_EPOCH - 1)


def claim_error(state: RaftState, epoch: int, leader_id: int, *, solicited: bool) -> str:
    """Why the claim that `leader_id` leads `epoch` is refused; empty if it is credible."""
    if epoch < state.epoch:
        return ""
    if not is_epoch_in_range(state.epoch, epoch, solicited=solicited):
        return "epoch_out_of_range"
    if leader_id == NO_NODE:
        return ""
    if leader_id not in state.voters:
        return "not_a_voter"
    known = state.election.leader_id
    if (
        epoch == state.epoch
        and known not in (NO_NODE, leader_id)
        and (known == state.node_id or state.role.has_heard())
    ):
        return "other_leader"  # S12: the known leader has shown that it leads this epoch
    return ""
