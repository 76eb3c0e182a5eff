"""What another replica may claim, before any of it is written to disk (Q8).

Epochs are 32-bit numbers that only rise: one request that names the highest of them would leave no epoch for the next
election. So an epoch may be ahead of ours only as far as elections can have taken it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from insync.quorum.config import NOBODY
from insync.storage.checkpoints import MAX_EPOCH

if TYPE_CHECKING:
    from insync.quorum.core import Core

MAX_EPOCH_STEP = 10_000
"""How far ahead the epoch of an unasked request may be. A replica that was away for longer asks others by itself."""
MAX_ANSWERED_EPOCH_STEP = 1_000_000
"""How far ahead the epoch of a voter's answer may be: elections without end for more than a day."""


def epoch_in_range(known: int, epoch: int, *, asked: bool = False) -> bool:
    step = MAX_ANSWERED_EPOCH_STEP if asked else MAX_EPOCH_STEP
    return epoch <= min(known + step, MAX_EPOCH - 1)


def claim_error(core: Core, epoch: int, leader_id: int, *, asked: bool) -> str:
    """Why the claim that `leader_id` leads `epoch` is not taken over; empty if it may be."""
    if epoch < core.epoch:
        return ""
    if not epoch_in_range(core.epoch, epoch, asked=asked):
        return "epoch_out_of_range"
    if leader_id == NOBODY:
        return ""
    if leader_id not in core.voters:
        return "not_a_voter"
    known = core.election.leader_id
    if epoch == core.epoch and known not in (NOBODY, leader_id) and (known == core.node_id or core.role.has_heard()):
        return "other_leader"  # S12: the leader that we know has shown that it leads this epoch
    return ""
