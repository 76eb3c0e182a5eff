"""Why is this replica not in the ISR, why do writes fail, what would an unclean election lose?

Pure: facts in, sentences out. Each sentence names the rule of the protocol that it follows from and, where there is
something to do, what to do.
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
    """What would be gone if this replica were elected now."""

    broker: int
    committed: int | None
    """None where nobody who could tell is alive."""
    uncommitted: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Explanation:
    state: str
    """ok, degraded (works, with less safety than wanted) or unavailable (some writes or all traffic fails)."""
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
        replicas=tuple(ReplicaExplanation(r.broker, standing(facts, r), why(facts, r)) for r in facts.replicas),
        writes=writes,
        losses=tuple(losses(facts)),
        unclean=explain_unclean_election(facts),
    )


def standing(facts: PartitionFacts, replica: ReplicaFacts) -> str:
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


def why(facts: PartitionFacts, replica: ReplicaFacts) -> str:
    """With what its broker reports of the replica, such as damage that is being repaired (D6)."""
    return "; ".join([_reason(facts, replica), *(f"{f.kind.replace('_', ' ')}: {f.text}" for f in replica.findings)])


def _reason(facts: PartitionFacts, replica: ReplicaFacts) -> str:
    if replica.status != "live":
        return _about_status(facts, replica)
    if replica.broker in facts.partition.isr:
        return _about_member(facts, replica)
    if facts.partition.leader == NO_NODE:
        return "its broker runs, but there is no leader to fetch from"
    if replica.end is None:
        return _about_silence(replica)
    return _about_distance(facts, replica)


def _about_status(facts: PartitionFacts, replica: ReplicaFacts) -> str:
    broker = replica.broker
    held = " It holds everything committed and can be elected when it is back." if _complete(facts, broker) else ""
    return {
        "gone": f"broker {broker} is not registered: it was removed, or never started.",
        "fenced": f"broker {broker} is stopped or fenced: the controller has not heard from it. Start it (B4).",
        "unreachable": f"broker {broker} is in the cluster, but cannot be reached from here.",
    }[replica.status] + held


def _complete(facts: PartitionFacts, broker: int) -> bool:
    return broker in facts.partition.isr or broker in (facts.partition.elr or ())


def _about_member(facts: PartitionFacts, replica: ReplicaFacts) -> str:
    end, leader_end = replica.end, facts.leader_end
    if replica.broker == facts.partition.leader or end is None or leader_end is None or end >= leader_end:
        return "complete"
    return f"{leader_end - end} records behind the leader; the high watermark waits for it (H1)"


def _about_silence(replica: ReplicaFacts) -> str:
    if replica.error is ErrorCode.kafka_storage_error:
        return "its log directory has failed: look at the broker's disk and log"
    if replica.error in (ErrorCode.unknown_topic_or_partition, ErrorCode.not_leader_or_follower):
        return "its broker has not created the replica yet: it has not read the metadata that tells it to"
    return f"its broker answers {error_name(replica.error)}"


def _about_distance(facts: PartitionFacts, replica: ReplicaFacts) -> str:
    end = replica.end or 0
    shared = end if replica.shared is None else replica.shared
    parts = []
    if shared < end:
        parts.append(f"offsets {shared} to {end - 1} of its log are not the leader's: it has to cut them off (D3)")
    needed = max(facts.hwm or 0, facts.leso or 0)
    if facts.leso is not None and shared < facts.leso:
        parts.append(
            f"its log ends at {shared}, before offset {facts.leso} where leader epoch "
            f"{facts.partition.leader_epoch} begins (I2)"
        )
    elif facts.hwm is not None and shared < facts.hwm:
        parts.append(f"its log ends at {shared}, below the high watermark {facts.hwm} (I2)")
    if shared >= needed and not parts:
        return (
            "it has caught up: the leader adds it with its next proposal. If this lasts, the controller does not "
            "answer the leader: `insync quorum` (I3)"
        )
    return "; ".join([*parts, _movement(replica, needed, facts.seconds)])


def _movement(replica: ReplicaFacts, needed: int, seconds: float) -> str:
    end, before = replica.end or 0, replica.earlier_end
    if before is None or seconds <= 0:
        return f"{max(0, needed - end)} records to go"
    rate = (end - before) / seconds
    if rate <= 0:
        return f"{max(0, needed - end)} records to go, and it is not moving: its fetches fail or it is throttled"
    return f"{max(0, needed - end)} records to go at {rate:.0f}/s, about {max(0, needed - end) / rate:.0f} s"


# --- why do writes fail? ---


def explain_failing_writes(facts: PartitionFacts) -> list[str]:
    """Empty when they do not."""
    p = facts.partition
    if p.leader == NO_NODE:
        return [f"there is no leader: every read and write fails with LEADER_NOT_AVAILABLE. {_no_leader(facts)}"]
    found = []
    if facts.replica(p.leader).status in ("unreachable", "fenced", "gone"):
        found.append(f"the leader, broker {p.leader}, cannot be reached; if it stays away, another is elected (B4)")
    if len(p.isr) < facts.min_isr:
        found.append(
            f"the ISR has {len(p.isr)} of the {facts.min_isr} members that min.insync.replicas asks for: acks=all is "
            "refused with NOT_ENOUGH_REPLICAS (P2), and acks=1 writes are stored but not committed (H1). "
            f"Bring back {_names([b for b in p.replicas if b not in p.isr])}"
        )
    if stuck := _stuck(facts):
        found.append(stuck)
    return found


def _no_leader(facts: PartitionFacts) -> str:
    p = facts.partition
    candidates = p.isr or p.elr or ()
    if candidates:
        whose = "ISR" if p.isr else "ELR"
        return f"Only {_names(candidates)} of the {whose} may be elected without loss, and none is up: start one (E2)"
    last = p.last_known_elr or ()
    then = f" The last that could were {_names(last)}." if last else ""
    return f"No replica is known to be complete.{then} {_strategy(facts)}"


def _strategy(facts: PartitionFacts) -> str:
    if facts.unclean_election:
        return "unclean.leader.election.enable is on: the first replica that comes back is elected (E6)"
    if facts.strategy == "balanced":
        return "unclean.recovery.strategy=balanced waits until all of them are back and takes the longest log (E6)"
    if facts.strategy == "proactive":
        return "unclean.recovery.strategy=proactive takes the best replica that answers (E6)"
    return "An operator decides: `insync elect --unclean TOPIC PARTITION` (E6)"


def _stuck(facts: PartitionFacts) -> str | None:
    """Records that wait for a member of the ISR, while the high watermark did not move between two looks."""
    end = facts.leader_end
    if facts.hwm_error is ErrorCode.offset_not_available:
        return "the leader is new and does not know the high watermark yet; it follows with the next commit (H4)"
    if end is None or facts.hwm is None or facts.hwm >= end or facts.earlier_hwm != facts.hwm:
        return None
    if len(facts.partition.isr) < facts.min_isr:
        return f"{end - facts.hwm} records above the high watermark {facts.hwm} wait to be committed"
    slow = [r.broker for r in facts.replicas if r.broker in facts.partition.isr and (r.end is None or r.end < end)]
    if not slow:
        return None
    return f"{end - facts.hwm} records above the high watermark {facts.hwm} wait for {_names(slow)} (H1)"


# --- what would an unclean election lose? ---


def losses(facts: PartitionFacts) -> list[ElectionLoss]:
    """For every replica outside ISR and ELR that is up: what the cluster would forget by electing it."""
    outside = [r for r in facts.replicas if not _complete(facts, r.broker) and r.status == "live" and r.end is not None]
    return [_loss(facts, replica) for replica in outside]


def _loss(facts: PartitionFacts, replica: ReplicaFacts) -> ElectionLoss:
    kept = (replica.end or 0) if replica.shared is None else replica.shared
    leader_end = facts.leader_end
    if facts.hwm is not None and leader_end is not None:
        committed = max(0, facts.hwm - kept)
        uncommitted = max(0, leader_end - max(facts.hwm, kept))
        where = f" (offsets {kept} to {facts.hwm - 1})" if committed else ""
        text = f"{committed} committed records{where} and {uncommitted} that are not committed yet"
        return ElectionLoss(replica.broker, committed, uncommitted, text)
    best = max(r.end or 0 for r in facts.replicas)
    silent = [r.broker for r in facts.replicas if r.end is None]
    more = f", and whatever else {_names(silent)} holds" if silent else ""
    known = f"{best - kept} records that another replica has" if best > kept else "nothing that another replica shows"
    return ElectionLoss(replica.broker, None, None, known + more)


def explain_unclean_election(facts: PartitionFacts) -> str:
    p = facts.partition
    if p.leader != NO_NODE:
        return "not needed: there is a leader with everything that was committed"
    down = [b for b in p.replicas if _complete(facts, b)]
    if down:
        return f"avoidable: {_names(down)} holds everything that was committed; start it instead"
    return "no replica is known to be complete: whichever is elected, compare the log ends above first"


def _names(brokers: list[int] | tuple[int, ...]) -> str:
    listed = [str(broker) for broker in brokers]
    if len(listed) < 2:
        return f"broker {listed[0]}" if listed else "no broker"
    return f"brokers {', '.join(listed[:-1])} and {listed[-1]}"
