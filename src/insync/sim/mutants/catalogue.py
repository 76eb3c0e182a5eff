"""The mutants: each removes one safeguard of the protocol, to prove that the simulator notices.

A safeguard is a small function or method that is looked up by name when it is called. A mutant replaces that attribute
while it is applied; production code does not know of it. A patch is the path of the attribute, `package.module:name`,
and a function from the original to its replacement.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from insync.sim.mutants import patches
from insync.sim.mutants.decisions import DECISION_MUTANTS
from insync.sim.mutants.mutant import Mutant, Patch, make_mutant
from insync.sim.mutants.services import SERVICE_MUTANTS

_UNCHECKED_ENDS: tuple[Patch, ...] = (
    ("storage.clean_shutdown:find_damage", patches.always(None)),
    ("storage.recovery:find_other_end", patches.always(None)),
)
"""A start that trusts the clean-shutdown file; else it would find the logs shorter than recorded."""

CATALOGUE: tuple[Mutant, ...] = (
    # divergence
    make_mutant(
        "truncate-to-hwm",
        "D4",
        "truncation by leader epochs (the follower cuts to its high watermark instead)",
        ("replication.fetcher:Fetchers.add", patches.truncate_to_hwm_first),
    ),
    make_mutant(
        "exact-epoch-only",
        "D2",
        "the leader's look-up of the largest epoch not above the one asked",
        ("replication.divergence:end_of_epoch", patches.exact_epoch_only),
    ),
    make_mutant(
        "leader-end-only",
        "D3",
        "the minimum with the follower's own end of the epoch",
        ("replication.divergence:lower_end", lambda _o: lambda own_end, leader_end, own_leo: min(leader_end, own_leo)),
    ),
    # fetching
    make_mutant(
        "fetch-epoch-unchecked",
        "F3",
        "the leader-epoch check on Fetch",
        ("replication.leader:leader_epoch_error", patches.always(None)),
    ),
    make_mutant(
        "old-incarnation-fetch",
        "F4",
        "the refusal of a fetch from an earlier incarnation of the follower",
        ("replication.leader:is_earlier_incarnation", patches.always(False)),
        ("replication.isr:is_same_incarnation", patches.always(True)),
        ("controller.alter_partition:is_current_member_epoch", patches.always(True)),
    ),
    make_mutant(
        "late-answers",
        "F6",
        "dropping late fetch answers (by epoch, by offset)",
        ("replication.fetcher:is_of_this_epoch", patches.always(True)),
        ("replication.fetcher:is_at_leo", patches.always(True)),
        ("replication.follower:continues_log", patches.always(True)),
        ("storage.log:Log.check_position", patches.always(None)),
    ),
    make_mutant(
        "unclamped-hwm",
        "F5",
        "keeping a follower's high watermark within its own log",
        ("replication.follower:follower_hwm", lambda _o: lambda answered, own_leo: answered),
        ("storage.log:Log.set_hwm", patches.unclamped),
    ),
    # high watermark
    make_mutant(
        "hwm-over-isr",
        "H1",
        "the maximal ISR (the high watermark counts the committed ISR)",
        ("replication.leader:Leader.advance_hwm", patches.count_committed_isr),
        ("replication.leader:Leader.is_joining", patches.always(False)),
    ),
    make_mutant(
        "hwm-below-min-isr",
        "H1",
        "the gate that keeps the high watermark while ISR < MinISR",
        ("replication.leader:Leader.has_min_isr", patches.always(True)),
    ),
    make_mutant(
        "stale-hwm-told",
        "H4",
        "ListOffsets waiting until HWM >= LESO",
        ("replication.leader:Leader.knows_true_hwm", patches.always(True)),
    ),
    make_mutant(
        "read-past-hwm",
        "H5",
        "consumers reading below the high watermark only",
        ("replication.fetch_server:readable_end", patches.to_leo),
    ),
    # ISR
    make_mutant(
        "joins-below-leso", "I2", "the LEO >= LESO check", ("replication.isr:has_reached_leso", patches.always(True))
    ),
    make_mutant(
        "joins-below-hwm", "I2", "the LEO >= HWM check", ("replication.isr:has_reached_hwm", patches.always(True))
    ),
    make_mutant(
        "joins-without-fetch",
        "I2",
        "the check for a fetch in this leader epoch",
        ("replication.leader:Leader.can_join", patches.as_if_fetched),
    ),
    make_mutant(
        "followers-not-reset",
        "T1",
        "forgetting follower state on (re-)election",
        ("replication.leader:Leader.reset_followers", patches.always(None)),
    ),
    make_mutant(
        "maximal-isr-given-up",
        "I3",
        "keeping the maximal ISR while the outcome of a proposal is unknown, also by withdrawing it",
        ("replication.alter_partition:proves_not_applied", patches.always(True)),
        ("replication.alter_partition:may_yet_be_applied", patches.always(False)),
    ),
    make_mutant(
        "refusal-ends-doubt",
        "I3",
        "withdrawing a refused proposal of which an unanswered copy may still arrive",
        ("replication.alter_partition:may_yet_be_applied", patches.always(False)),
    ),
    make_mutant(
        "older-metadata", "M3", "ignoring older partition epochs", ("replication.isr:is_newer", patches.always(True))
    ),
    # the controller
    make_mutant(
        "member-epoch-unchecked",
        "I4",
        "the broker epoch of each proposed ISR member",
        ("controller.alter_partition:is_current_member_epoch", patches.always(True)),
    ),
    make_mutant(
        "ineligible-members",
        "I4",
        "the controller's eligibility check of ISR members",
        ("controller.state:ControllerState.can_join_isr", patches.unless_leaving),
    ),
    make_mutant(
        "ineligible-everywhere",
        "I2",
        "the eligibility checks on the leader and on the controller",
        ("controller.state:ControllerState.can_join_isr", patches.unless_leaving),
        ("replication.leader:Leader.is_eligible", patches.same_incarnation_is_enough),
    ),
    make_mutant(
        "partition-epoch-unchecked",
        "I6",
        "comparing the partition epoch of a proposal",
        ("controller.alter_partition:has_current_partition_epoch", patches.always(True)),
    ),
    make_mutant(
        "unclean-keeps-elr",
        "B6",
        "removing an uncleanly restarted broker from the ELR",
        ("controller.broker_registry:expel_unclean", patches.always([])),
    ),
    make_mutant(
        "registers-unfenced",
        "B2",
        "fencing the earlier incarnation before a new registration",
        ("controller.broker_registry:may_replace", patches.always(True)),
        ("controller.broker_registry:expel_unclean", patches.elr_only),
    ),
    make_mutant(
        "fenced-before-its-replicas",
        "B4",
        "taking a broker out of every ISR, in slices, before the record that fences it",
        ("controller.broker_registry:fence", patches.fenced_first),
    ),
    make_mutant(
        "fenced-electable",
        "E2",
        "electing only unfenced replicas",
        ("controller.state:ControllerState.can_lead", patches.unless_leaving),
    ),
    make_mutant(
        "elr-kept-at-min-isr",
        "E4",
        "emptying the ELR when ISR >= MinISR",
        ("controller.partition_change:PartitionChangeBuilder.is_elr_obsolete", patches.always(False)),
    ),
    make_mutant(
        "elr-not-filled",
        "E3",
        "moving a leaving ISR member to the ELR below MinISR",
        ("controller.partition_change:PartitionChangeBuilder._derive_elr", patches.without_former_members),
    ),
    make_mutant(
        "recovery-impatient",
        "E6",
        "balanced recovery waiting for every last-known-ELR member",
        ("controller.recovery:Recoveries.has_required_answers", patches.one_answer_is_enough),
    ),
    make_mutant(
        "min-isr-raised-unseen",
        "E8",
        "waiting until a leader knows the raised MinISR before the ELR relies on it",
        ("controller.alter_partition:leader_knows_min_isr", patches.always(True)),
    ),
    make_mutant(
        "reassignment-below-min-isr",
        "R2",
        "completing a reassignment only with MinISR members left",
        ("controller.partition_change:PartitionChangeBuilder.keeps_min_isr", patches.always(True)),
    ),
    make_mutant(
        "completes-without-added",
        "R2",
        "completing a reassignment only with every added replica in the ISR",
        ("controller.partition_change:PartitionChangeBuilder.is_reassignment_done", patches.done_with_min_isr),
    ),
    make_mutant(
        "cancels-below-min-isr",
        "R5",
        "refusing to cancel a reassignment if that would leave fewer than MinISR in sync",
        ("controller.reassignment:keeps_min_isr_after_cancel", patches.always(True)),
    ),
    make_mutant(
        "completion-keeps-epoch",
        "M2",
        "the new leader epoch of a completed reassignment",
        ("controller.partition_change:PartitionChangeBuilder._complete_reassignment", patches.same_leader_epoch),
    ),
    # storage
    make_mutant(
        "clean-file-before-flush",
        "B5",
        "flushing every log before the clean-shutdown file is written",
        ("storage.log_store:LogStore.close_cleanly", patches.clean_file_first),
        *_UNCHECKED_ENDS,
    ),
    make_mutant(
        "clean-file-kept",
        "B5",
        "removing the clean-shutdown file at start",
        ("storage.clean_shutdown:take", patches.read_and_keep),
        *_UNCHECKED_ENDS,
    ),
    make_mutant(
        "clean-file-vouches-for-damage",
        "B5",
        "comparing every log with what the clean stop recorded",
        ("storage.clean_shutdown:find_damage", patches.always(None)),
        ("storage.log_loader:LogLoader._find_missing", patches.always(None)),
    ),
    make_mutant(
        "epoch-checkpoint-unsynced",
        "D1",
        "syncing the leader-epoch checkpoint, and comparing it with the record of the clean stop",
        ("storage.epoch_cache:EpochCache.persist", patches.persist_unsynced),
        ("storage.clean_shutdown:close_all", patches.epochs_closed_unsynced),
        ("storage.clean_shutdown:has_epochs_and_producers", patches.always(True)),
    ),
    make_mutant(
        "epoch-checkpoint-kept-stale",
        "D1",
        "taking epochs that an opened log leaves out off the disk too",
        ("storage.recovery:correct_checkpoint", patches.always(None)),
    ),
    make_mutant("crc-unchecked", "P5", "the CRC of batches", ("wire.batch:crc_ok", patches.always(True))),
    make_mutant(
        "retention-past-hwm",
        "H5",
        "keeping what is above the high watermark from retention",
        ("storage.log:Log.retention_limit", lambda _o: lambda log: log.leo),
    ),
    make_mutant(
        "sequences-not-rebuilt",
        "P4",
        "rebuilding producer sequences from the log",
        ("storage.producer_state:ProducerStates.rebuild", patches.always(None)),
    ),
    make_mutant(
        "duplicates-appended",
        "P4",
        "recognising a batch that was appended before",
        ("storage.producer_state:ProducerStates.check", patches.always(None)),
    ),
    # the quorum
    make_mutant(
        "vote-not-persisted",
        "Q4",
        "persisting a vote",
        ("quorum.state_file:PersistElection.run", patches.always(None)),
        ("quorum.damage:newest_election", patches.forgotten_vote),
    ),
    make_mutant(
        "two-votes-per-epoch",
        "Q4",
        "granting one vote per epoch",
        ("quorum.election:one_vote_per_epoch", patches.always(True)),
    ),
    make_mutant(
        "any-log-elected",
        "Q4",
        "voting only for a log at least as up to date",
        ("quorum.election:log_is_up_to_date", patches.always(True)),
    ),
    make_mutant(
        "old-epochs-counted",
        "Q5",
        "committing only through an entry of the leader's own epoch",
        ("quorum.leader:covers_own_epoch", patches.always(True)),
    ),
    make_mutant(
        "leader-never-resigns",
        "Q5",
        "resigning when no majority of voters fetches",
        ("quorum.leader:Leader.resign_deadline", patches.never),
    ),
    make_mutant(
        "metadata-cut-below-hwm",
        "Q2",
        "never truncating the metadata log below its high watermark",
        ("quorum.state:RaftState.keeps_committed", patches.always(True)),
        ("quorum.state:RaftState.truncate_to", patches.truncate_below_hwm),
    ),
    make_mutant(
        "unsynced-acknowledged",
        "Q4",
        "syncing metadata before acknowledging it",
        ("quorum.state:RaftState.acknowledged", lambda _o: lambda self: self.log.leo),
    ),
    make_mutant(
        "damaged-voter-votes",
        "Q8",
        "refusing votes while the log is damaged",
        ("quorum.damage:is_shorter", patches.always(False)),
    ),
    # rights
    make_mutant(
        "acls-not-followed",
        "A6",
        "following changes of ACLs after the first image",
        ("node.access:AccessControl._replace", patches.always_static(None)),
    ),
    make_mutant(
        "allow-before-deny",
        "A2",
        "a DENY that wins over an ALLOW",
        ("security.authorizer:is_denial", patches.always(False)),
    ),
    make_mutant(
        "session-keeps-rights",
        "A6",
        "asking again what a fetch session, or a fetch that waits, may read",
        ("node.access:Access.may_read", patches.always(True)),
    ),
    make_mutant(
        "clients-act-as-nodes",
        "A4",
        "the right CLUSTER_ACTION for what only nodes send",
        ("node.access:Access.may_on_cluster", patches.everyone_acts_on_cluster),
    ),
    make_mutant(
        "session-id-proves-a-replica",
        "A4",
        "comparing the replica and the principal of a fetch session with those that continue it",
        ("replication.fetch_session:SessionCache._find", patches.session_by_id),
    ),
    make_mutant(
        "acls-not-awaited",
        "A5",
        "serving clients only once the committed ACLs are applied",
        ("node.access:AccessControl.can_decide", patches.always(True)),
    ),
    make_mutant(
        "denials-removed-first",
        "A8",
        "removing ACLs that allow before those that deny",
        ("controller.acls:order_removals", lambda _o: list),
    ),
    *DECISION_MUTANTS,
    *SERVICE_MUTANTS,
)

MUTANTS: dict[str, Mutant] = {mutant.name: mutant for mutant in CATALOGUE}


@contextmanager
def apply_mutant(mutant: Mutant | None) -> Iterator[None]:
    """Remove the safeguard inside the block."""
    undo: list[tuple[Any, str, Any]] = []
    try:
        for path, make in mutant.patches if mutant else ():
            owner, name = resolve_attribute(path)
            original = owner.__dict__[name]
            undo.append((owner, name, original))
            setattr(owner, name, make(original))
        yield
    finally:
        for owner, name, original in reversed(undo):
            setattr(owner, name, original)


def resolve_attribute(path: str) -> tuple[Any, str]:
    """The owner of an attribute and its name, from `package.module:name` or `package.module:Class.name`."""
    module, _, rest = path.partition(":")
    *owners, name = rest.split(".")
    owner: Any = importlib.import_module(f"insync.{module}")
    for attribute in owners:
        owner = getattr(owner, attribute)
    return owner, name
