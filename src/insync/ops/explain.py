"""Why is this replica not in the ISR, why do writes fail, what would an unclean election lose?

Pure functions from facts to sentences. Each sentence names the rule of the protocol that it follows from and, where
there is something to do, what to do.
"""

from __future__ import annotations

from dataclasses import dataclass

from insync.client.errors import ErrorCode, error_name
from insync.client.model import NO_NODE
from insync.ops.facts import PartitionFacts, ReplicaFacts


@dataclass(frozen=True, slots=True)
class ReplicaExplanation:
    broker: int
    standing: str
    why: str


@dataclass(frozen=True, slots=True)
class ElectionLoss:
    """What would be lost if this replica were elected now."""

    broker: int
    committed: int | None
    """None if no live replica knows."""
    uncommitted: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Explanation:
    state: str
    """ok, degraded (works, but is less safe than configured) or unavailable (some or all requests fail)."""
    replicas: tuple[ReplicaExplanation, ...]
    writes: tuple[str, ...]
    losses: tuple[ElectionLoss, ...]
    unclean: str


def explain(facts: PartitionFacts) -> Explanation:
    writes = tuple(explain_failing_writes(facts))
    p = facts.partition
    short = len(p.isr) < len(p.replicas) or any(replica.findings for replica in facts.replicas)
    return Explanation(
        state="unavailable" if writes else "degraded" if short else "ok",
        replicas=tuple(
            ReplicaExplanation(r.broker, describe_standing(facts, r), explain_replica(facts, r)) for r in facts.replicas
        ),
        writes=writes,
        losses=tuple(list_losses(facts)),
        unclean=explain_unclean_election(facts),
    )


def describe_standing(facts: PartitionFacts, replica: ReplicaFacts) -> str:
    p, broker = facts.partition, replica.broker
    if broker == p.leader:
        return "leader"
    if broker in p.isr:
        return "in sync"
    if broker in (p.elr or ()):
        return "eligible (ELR)"
    if broker in (p.last_known_elr or ()):
        return "last-known ELR"
    adding = facts.reassignment is not None and broker in facts.reassignment.adding
    return "being added" if adding else "out of sync"


# --- why is it not in the ISR? ---


def explain_replica(facts: PartitionFacts, replica: ReplicaFacts) -> str:
    """The reason, and what the broker reports about the replica, such as damage that is being repaired (D6)."""
    return "; ".join([_reason(facts, replica), *(f"{f.kind.replace('_', ' ')}: {f.text}" for f in replica.findings)])


def _reason(facts: PartitionFacts, replica: ReplicaFacts) -> str:
    if replica.status != "live":
        return _explain_status(facts, replica)
    if replica.broker in facts.partition.isr:
        return _explain_isr_member(facts, replica)
    if facts.partition.leader == NO_NODE:
        return "its broker runs, but there is no leader to fetch from"
    if replica.end is None:
        return _explain_missing_end(replica)
    return _explain_distance(facts, replica)


def _explain_status(facts: PartitionFacts, replica: ReplicaFacts) -> str:
    broker = replica.broker
    held = " It has everything committed and can be elected when it is back." if _complete(facts, broker) else ""
    return {
        "gone": f"broker {broker} is not registered: it was removed or never started.",
        "fenced": f"broker {broker} is stopped or fenced: the controller gets no heartbeats from it. Start it (B4).",
        "unreachable": f"broker {broker} is in the cluster but cannot be reached from here.",
    }[replica.status] + held


def _complete(facts: PartitionFacts, broker: int) -> bool:
    return broker in facts.partition.isr or broker in (facts.partition.elr or ())


def _explain_isr_member(facts: PartitionFacts, replica: ReplicaFacts) -> str:
    end, leader_end = replica.end, facts.leader_end
    if replica.broker == facts.partition.leader or end is None or leader_end is None or end >= leader_end:
        return "complete"
    return f"{leader_end - end} records behind the leader; the high watermark waits for it (H1)"


def _explain_missing_end(replica: ReplicaFacts) -> str:
    if replica.error is ErrorCode.kafka_storage_error:
        return "its log directory has failed: check the broker's disk and log"
    if replica.error in (ErrorCode.unknown_topic_or_partition, ErrorCode.not_leader_or_follower):
        return "its broker has not created the replica yet: it has not applied the newest metadata"
    return f"its broker answers {error_name(replica.error)}"


def _explain_distance(facts: PartitionFacts, replica: ReplicaFacts) -> str:
    end = replica.end or 0
    shared = end if replica.shared is None else replica.shared
    parts = []
    if shared < end:
        parts.append(f"offsets {shared} to {end - 1} of its log differ from the leader's: it has to truncate them (D3)")
    needed = max(facts.hwm or 0, facts.leso or 0)
    if facts.leso is not None and shared < facts.leso:
        parts.append(
            f"its log ends at {shared}, before offset {facts.leso} where leader epoch "
            f"{facts.partition.leader_epoch} starts (I2)"
        )
    elif facts.hwm is not None and shared < facts.hwm:
        parts.append(f"its log ends at {shared}, below the high watermark {facts.hwm} (I2)")
    if shared >= needed and not parts:
        return (
            "it has caught up: the leader adds it with its next AlterPartition. If this lasts, the controller does not "
            "answer the leader: see `insync quorum` (I3)"
        )
    return "; ".join([*parts, _describe_speed(replica, needed, facts.seconds)])


def _describe_speed(replica: ReplicaFacts, needed: int, seconds: float) -> str:
    end, before = replica.end or 0, replica.earlier_end
    if before is None or seconds <= 0:
        return f"{max(0, needed - end)} records to go"
    rate = (end - before) / seconds
    if rate <= 0:
        return f"{max(0, needed - end)} records to go, but it makes no progress: its fetches fail or it is throttled"
    return f"{max(0, needed - end)} records to go at {rate:.0f}/s, about {max(0, needed - end) / rate:.0f} s"


# --- why do writes fail? ---


def explain_failing_writes(facts: PartitionFacts) -> list[str]:
    """The reasons why writes fail; empty if they do not."""
    p = facts.partition
    if p.leader == NO_NODE:
        return [f"there is no leader: every read and write fails with LEADER_NOT_AVAILABLE. {_no_leader(facts)}"]
    reasons = []
    if facts.replica(p.leader).status in ("unreachable", "fenced", "gone"):
        reasons.append(
            f"the leader, broker {p.leader}, cannot be reached; if that lasts, another leader is elected (B4)"
        )
    if len(p.isr) < facts.min_isr:
        reasons.append(
            f"the ISR has {len(p.isr)} of the {facts.min_isr} members that min.insync.replicas requires: acks=all "
            "fails with NOT_ENOUGH_REPLICAS (P2), and acks=1 writes are stored but not committed (H1). "
            f"Restore {_names([b for b in p.replicas if b not in p.isr])}"
        )
    if stuck := _stuck(facts):
        reasons.append(stuck)
    return reasons


def _no_leader(facts: PartitionFacts) -> str:
    p = facts.partition
    candidates = p.isr or p.elr or ()
    if candidates:
        whose = "ISR" if p.isr else "ELR"
        return f"Only {_names(candidates)} of the {whose} can be elected without loss, but none is up: start one (E2)"
    last = p.last_known_elr or ()
    then = f" The last complete ones were {_names(last)}." if last else ""
    return f"No replica is known to be complete.{then} {_strategy(facts)}"


def _strategy(facts: PartitionFacts) -> str:
    if facts.unclean_election:
        return "unclean.leader.election.enable is on: the first replica that returns is elected (E6)"
    if facts.strategy == "balanced":
        return "unclean.recovery.strategy=balanced waits for all of them and elects the longest log (E6)"
    if facts.strategy == "proactive":
        return "unclean.recovery.strategy=proactive elects the best replica that answers (E6)"
    return "An operator has to decide: `insync elect --unclean TOPIC PARTITION` (E6)"


def _stuck(facts: PartitionFacts) -> str | None:
    """Why the high watermark did not move between the two samples, if records wait for it."""
    end = facts.leader_end
    if facts.hwm_error is ErrorCode.offset_not_available:
        return "the leader is new and does not know the high watermark yet, until the next commit (H4)"
    if end is None or facts.hwm is None or facts.hwm >= end or facts.earlier_hwm != facts.hwm:
        return None
    if len(facts.partition.isr) < facts.min_isr:
        return f"{end - facts.hwm} records above the high watermark {facts.hwm} wait to be committed"
    slow = [r.broker for r in facts.replicas if r.broker in facts.partition.isr and (r.end is None or r.end < end)]
    if not slow:
        return None
    return f"{end - facts.hwm} records above the high watermark {facts.hwm} wait for {_names(slow)} (H1)"


# --- what would an unclean election lose? ---


def list_losses(facts: PartitionFacts) -> list[ElectionLoss]:
    """What the cluster would lose by electing each live replica outside ISR and ELR."""
    outside = [r for r in facts.replicas if not _complete(facts, r.broker) and r.status == "live" and r.end is not None]
    return [_loss(facts, replica) for replica in outside]


def _loss(facts: PartitionFacts, replica: ReplicaFacts) -> ElectionLoss:
    kept = (replica.end or 0) if replica.shared is None else replica.shared
    leader_end = facts.leader_end
    if facts.hwm is not None and leader_end is not None:
        committed = max(0, facts.hwm - kept)
        uncommitted = max(0, leader_end - max(facts.hwm, kept))
        where = f" (offsets {kept} to {facts.hwm - 1})" if committed else ""
        text = f"{committed} committed records{where} and {uncommitted} uncommitted ones"
        return ElectionLoss(replica.broker, committed, uncommitted, text)
    best = max(r.end or 0 for r in facts.replicas)
    silent = [r.broker for r in facts.replicas if r.end is None]
    more = f", and whatever else {_names(silent)} has" if silent else ""
    known = (
        f"{best - kept} records that another replica has"
        if best > kept
        else "nothing that another replica is known to have"
    )
    return ElectionLoss(replica.broker, None, None, known + more)


def explain_unclean_election(facts: PartitionFacts) -> str:
    p = facts.partition
    if p.leader != NO_NODE:
        return "not needed: there is a leader with everything committed"
    down = [b for b in p.replicas if _complete(facts, b)]
    if down:
        return f"avoidable: {_names(down)} has everything committed; start it instead"
    return "no replica is known to be complete: compare the log ends above before you elect one"


def _names(brokers: list[int] | tuple[int, ...]) -> str:
    ids = [str(broker) for broker in brokers]
    if len(ids) < 2:
        return f"broker {ids[0]}" if ids else "no broker"
    return f"brokers {', '.join(ids[:-1])} and {ids[-1]}"
